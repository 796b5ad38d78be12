"use strict";
// Text of users and of models goes into the page as text alone, never as markup.
const find = (id) => document.getElementById(id);
let choices = []; // a model and one of its target languages

function headers() {
  const key = find("key").value.trim();
  return { "content-type": "application/json", ...(key ? { authorization: `Bearer ${key}` } : {}) };
}

async function loadModels() {
  const answer = await fetch("v1/models", { headers: headers() });
  if (answer.status === 401) {
    find("key-row").hidden = false;
    say(find("key").value.trim() ? (await answer.json()).detail : "this service asks for a key", true);
    return;
  }
  const models = (await answer.json()).models;
  choices = models.flatMap((model) => model.targets.length
    ? model.targets.map((target) => ({ model, target, name: `${model.name} ${target}` }))
    : [{ model, target: model.target, name: model.name }]);
  find("model").replaceChildren(...choices.map(({ model, target, name }) => {
    const sources = model.sources.length ? model.sources.join(", ") : model.source;
    return new Option(`${model.name} (${sources} → ${target})`, name);
  }));
  say("");
}

function say(text, wrong = false) {
  find("status").textContent = text;
  find("status").classList.toggle("wrong", wrong);
}

function wordsOf(text, side, links) {
  const row = document.createElement("p");
  row.dir = "auto";
  text.trim().split(/\s+/).forEach((word, number) => {
    const span = document.createElement("span");
    span.className = "word";
    span.textContent = word;
    const partners = links.filter((link) => link[side] === number);
    if (partners.length) {
      span.classList.add("linked");
      span.tabIndex = 0;
      const light = (on) => () => {
        span.classList.toggle("lit", on);
        const others = row.parentNode.querySelectorAll(`p:nth-child(${side === 0 ? 2 : 1}) .word`);
        partners.forEach((link) => others[link[1 - side]]?.classList.toggle("lit", on));
      };
      for (const [event, on] of [["mouseenter", true], ["focus", true], ["mouseleave", false], ["blur", false]]) span.addEventListener(event, light(on));
    }
    row.append(span, " ");
  });
  return row;
}

function show(answer, aligned) {
  const sentences = answer.translations[0].sentences;
  find("result").hidden = false;
  find("translation").textContent = answer.translations[0].text;
  find("translation").dir = "auto";
  find("hint").textContent = aligned ? "Point at a word, or step through with Tab, to see which words belong together." : "";
  find("sentences").replaceChildren(...sentences.map((sentence) => {
    const box = document.createElement("div");
    box.className = "sentence";
    const links = sentence.alignment ?? [];
    const sure = document.createElement("p");
    sure.className = "hint";
    if (sentence.confidence !== null) sure.textContent = `mean probability of a token ${(100 * sentence.confidence).toFixed(0)} %`;
    box.append(wordsOf(sentence.source, 0, links), wordsOf(sentence.text, 1, links), sure);
    return box;
  }));
  find("made-by").textContent = `made by ${answer.model.name}, ${answer.model.sha256.slice(0, 12)}`;
}

async function translate() {
  const text = find("source").value || find("source").placeholder;
  if (!choices.length) await loadModels();
  const choice = choices.find((one) => one.name === find("model").value);
  if (!choice) return;
  const { model, target } = choice;
  say("translating …");
  const body = JSON.stringify({ texts: text, model: model.name, target, alignment: model.aligns });
  const answer = await fetch("v1/translate", { method: "POST", headers: headers(), body });
  const content = await answer.json();
  find("result").hidden = !answer.ok; // what stands there belongs to another text
  if (!answer.ok) return say(content.detail ?? "it did not work", true);
  say("");
  show(content, model.aligns);
}

const tried = (work) => work().catch(() => say("the service does not answer", true));
find("form").addEventListener("submit", (event) => { event.preventDefault(); tried(translate); });
find("source").addEventListener("keydown", (event) => { if (event.key === "Enter" && event.ctrlKey) tried(translate); });
find("key").addEventListener("change", () => tried(loadModels));
tried(loadModels);
