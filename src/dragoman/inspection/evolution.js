"use strict";
// It draws what the data block holds, asks for nothing and writes tokens as text, never as HTML.
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const RAMP = [[247, 251, 255], [198, 219, 239], [107, 174, 214], [33, 113, 181], [8, 48, 107]];
const MOST_LABELS = 60, LONGEST_LABEL = 16;

function offer(select, options, keep) {
  select.replaceChildren(...options.map(([value, label]) => new Option(label, value)));
  if (options.some(([value]) => String(value) === keep)) select.value = keep;
}

function heading(label, scope) {
  return Object.assign(document.createElement("th"), { scope, dir: "auto", textContent: label });
}

function text(label, attributes) {
  const made = node("text", attributes), letters = Array.from(label);
  made.textContent = letters.length > LONGEST_LABEL ? letters.slice(0, LONGEST_LABEL - 1).join("") + "…" : label;
  if (made.textContent !== label) made.append(Object.assign(node("title", {}), { textContent: label }));
  return made;
}

function node(name, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function size(svg, width, height) {
  for (const [key, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` })) svg.setAttribute(key, value);
}

function colour(share) {
  const place = Math.min(0.9999, share) * (RAMP.length - 1), low = Math.floor(place);
  return `rgb(${RAMP[low].map((one, i) => Math.round(one + (place - low) * (RAMP[low + 1][i] - one)))})`;
}

// What the colours mean: from white, which is 0, to the darkest.
function legend(svg, largest, unit) {
  const steps = 16, step = 10;
  size(svg, steps * step, 14);
  svg.replaceChildren();
  for (let i = 0; i < steps; i += 1)
    svg.append(node("rect", { x: i * step, y: 0, width: step, height: 14, fill: colour(i / (steps - 1)) }));
  svg.append(node("rect", { x: 0, y: 0, width: steps * step, height: 14, fill: "none", stroke: "#bbb" }));
  svg.nextElementSibling.textContent = `${largest.toPrecision(2)} ${unit}`;
}

function each(count, cell, act) {
  const step = Math.max(1, Math.ceil(count / MOST_LABELS), Math.ceil(13 / cell));
  for (let i = 0; i < count; i += step) act(i);
}

// A right-to-left token must turn nothing but itself.
const apart = (label) => `\u2068${label}\u2069`;
const sum = (numbers) => numbers.reduce((total, one) => total + one, 0);
const widest = (labels) => Math.max(0, ...labels.map((label) => sum(Array.from(label).slice(0, LONGEST_LABEL)
  .map((letter) => letter.codePointAt(0) > 0x2e7f ? 13 : 7.5))));

const choice = Object.fromEntries(["moment", "sentence", "kind", "head"].map((id) => [id, byId(id)]));
const SHADES = ["#123b66", "#b3571e", "#2f7d4f", "#7a4fa3", "#555555", "#a8861a"], DASHES = ["", "7 3", "2 3", "7 3 2 3"];
const WIDTH = 480, HEIGHT = 230, LEFT = 36, RIGHT = 12, TOP = 10, BOTTOM = 34;
const LARGEST_UPDATE = Math.max(1, ...data.moments.map((one) => one.update));

const at = () => Number(choice.moment.value);
const head = () => data.heads[Number(choice.head.value)];
const sentence = () => data.sentences[Number(choice.sentence.value)];

function matrix() {
  const labels = sentence().labels[head().kind], rows = labels.rows.length, columns = labels.columns.length;
  const bytes = atob(sentence().maps[head().attention][at()]), start = head().head * rows * columns;
  return labels.rows.map((_, i) => labels.columns.map((_, j) => bytes.charCodeAt(start + i * columns + j) / 255));
}

function draw() {
  const moment = data.moments[at()], kept = at() === data.kept ? ", kept" : "";
  const scores = moment.bleu === null ? "before the first update" : `BLEU ${moment.bleu.toFixed(1)}, loss ${moment.loss === null ? "–" : moment.loss.toFixed(3)}`;
  byId("when").textContent = moment.bleu === null ? `update 0: ${scores}` : `${moment.name}${kept}: ${scores}`;
  choice.moment.setAttribute("aria-valuetext", byId("when").textContent);
  byId("pair").textContent = `${apart(sentence().source)} → ${apart(sentence().target)}`;
  drawRole();
  drawMap();
  drawNumbers();
  drawCourse("left", "entropy");
  drawCourse("right", head().kind === "cross" ? "alignment" : "sink_share");
  markRoles();
}

function drawRole() {
  const shown = head(), parts = [`entropy ${digits(shown.entropy[at()])}`, `on marks and punctuation ${digits(shown.sink_share[at()])}`];
  if (shown.alignment[at()] !== null) parts.push(`alignment ${digits(shown.alignment[at()])}`);
  const role = document.createElement("strong");
  role.textContent = `${shown.kind} ${shown.name}: ${shown.label[at()]}`;
  byId("role").replaceChildren(role, ` (${shown.evidence[at()]}). In numbers: ${parts.join(", ")}.`);
}

function drawMap() {
  const svg = byId("map"), values = matrix(), { rows, columns } = sentence().labels[head().kind];
  const left = 12 + widest(rows), top = 12 + widest(columns);
  const fitting = Math.max(13, Math.floor((svg.parentElement.clientWidth - left - 8) / columns.length));
  const cell = Math.max(5, Math.min(30, fitting, Math.floor(640 / Math.max(rows.length, columns.length, 1))));
  size(svg, left + columns.length * cell + 8, top + rows.length * cell + 8);
  svg.replaceChildren(node("rect", { x: left, y: top, width: columns.length * cell, height: rows.length * cell, fill: colour(0), stroke: "#bbb" }));
  values.forEach((row, i) => row.forEach((value, j) => {
    if (!value) return;
    const drawn = node("rect", { x: left + j * cell, y: top + i * cell, width: cell, height: cell, fill: colour(value) });
    drawn.append(Object.assign(node("title", {}), { textContent: `${apart(rows[i])} looked at ${apart(columns[j])}: ${value.toFixed(2)}` }));
    svg.append(drawn);
  }));
  each(rows.length, cell, (i) => svg.append(text(rows[i], { x: left - 6, y: top + (i + 0.5) * cell + 4, "text-anchor": "end" })));
  each(columns.length, cell, (j) => {
    const x = left + (j + 0.5) * cell + 4, y = top - 6;
    svg.append(text(columns[j], { x, y, transform: `rotate(-90 ${x} ${y})` }));
  });
  legend(byId("legend"), 1, "of the row");
  const convention = head().kind === "encoder" ? "" : ` ${data.says.rows};`;
  byId("caption").textContent = `${head().attention}, head ${head().head}: attention weights, white is 0 and darkest is 1 at every moment;${convention} sentence ${sentence().number} of ${data.about}.`;
}

function drawNumbers() {
  if (!byId("twin").open) return byId("numbers").replaceChildren();
  const { rows, columns } = sentence().labels[head().kind], table = document.createElement("table");
  table.createCaption().textContent = `${byId("when").textContent}. ${byId("caption").textContent}`;
  table.createTHead().insertRow().append(heading("", "col"), ...columns.map((label) => heading(label, "col")));
  const body = table.createTBody();
  matrix().forEach((row, i) => {
    const line = body.insertRow();
    line.append(heading(rows[i], "row"));
    row.forEach((value) => { line.insertCell().textContent = value.toFixed(2); });
  });
  byId("numbers").replaceChildren(table);
}

const across = (update) => LEFT + update / LARGEST_UPDATE * (WIDTH - LEFT - RIGHT);
const up = (value) => HEIGHT - BOTTOM - value * (HEIGHT - TOP - BOTTOM);

function drawCourse(id, number) {
  const svg = byId(id), heads = data.heads.filter((one) => one.kind === head().kind);
  size(svg, WIDTH, HEIGHT);
  svg.replaceChildren();
  for (const value of [0, 0.25, 0.5, 0.75, 1]) {
    svg.append(node("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: up(value), y2: up(value), stroke: "#ddd" }));
    svg.append(text(String(value), { x: LEFT - 6, y: up(value) + 4, "text-anchor": "end" }));
  }
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    const update = Math.round(share * LARGEST_UPDATE);
    svg.append(text(update.toLocaleString("en"), { x: across(update), y: HEIGHT - BOTTOM + 16, "text-anchor": share === 1 ? "end" : "middle" }));
  }
  svg.append(text("update", { x: (LEFT + WIDTH) / 2, y: HEIGHT - 4, "text-anchor": "middle" }));
  const now = across(data.moments[at()].update);
  svg.append(node("line", { x1: now, x2: now, y1: TOP, y2: HEIGHT - BOTTOM, stroke: "#000", "stroke-dasharray": "2 2" }));
  const order = [...heads.filter((one) => one !== head()), head()], layers = [...new Set(heads.map((one) => one.attention))];
  for (const one of order) svg.append(course(one, number, layers.indexOf(one.attention)));
  const between = number === "alignment" ? `, between ${data.units}` : "";
  const strokes = layers.length > 1 ? ` Layers differ in colour and stroke.` : "";
  const caption = `${data.says.numbers[number]}${between}. ${data.says.kinds[head().kind]}; ${heads.length} heads.${strokes}`;
  svg.parentElement.querySelector("figcaption").textContent = caption;
  svg.setAttribute("aria-label", `${caption} The numbers are in the table at the end of the page.`);
}

function course(one, number, layer) {
  const group = node("g", {}), shown = one === head();
  const ink = { stroke: SHADES[layer % SHADES.length], "stroke-dasharray": DASHES[layer % DASHES.length], "stroke-width": shown ? 4 : 1.2 };
  const points = data.moments.flatMap((moment, i) => moment.is_average || one[number][i] === null ? [] : [`${across(moment.update)},${up(one[number][i])}`]);
  group.append(node("polyline", { points: points.join(" "), fill: "none", ...ink }));
  for (const point of points) {
    const [cx, cy] = point.split(",");
    group.append(node("circle", { cx, cy, r: shown ? 4 : 2, fill: ink.stroke }));
  }
  group.append(Object.assign(node("title", {}), { textContent: `${one.kind} ${one.name}` }));
  return group;
}

function buildRoles() {
  const table = document.createElement("table"), line = table.createTHead().insertRow();
  line.append(heading("", "col"), ...data.moments.map((moment, i) => heading((moment.is_average ? "avg" : moment.update.toLocaleString("en")) + (i === data.kept ? "*" : ""), "col")));
  const body = table.createTBody();
  data.heads.forEach((one, number) => {
    const row = body.insertRow(), name = heading("", "row"), button = document.createElement("button");
    button.type = "button";
    button.textContent = `${one.kind} ${one.name}`;
    button.addEventListener("click", () => choose(number));
    name.append(button);
    row.append(name);
    one.label.forEach((label) => {
      const cell = row.insertCell(), dark = ["alignment", "previous token"].includes(label);
      cell.textContent = data.roles[label].letter;
      cell.title = label;
      cell.style.setProperty("background", data.roles[label].colour);
      cell.style.setProperty("color", dark ? "#fff" : "#000");
    });
  });
  byId("roles").replaceChildren(table);
  const present = Object.entries(data.roles).filter(([label]) => data.heads.some((one) => one.label.includes(label)));
  byId("letters").textContent = present.map(([label, role]) => `${role.letter} ${label}`).join(", ") + "; * the weights that are kept.";
}

function markRoles() {
  for (const row of byId("roles").querySelectorAll("tr"))
    [...row.cells].forEach((cell, i) => cell.classList.toggle("now", i === at() + 1));
  [...byId("roles").querySelectorAll("button")].forEach((button, i) =>
    button.setAttribute("aria-pressed", String(i === Number(choice.head.value))));
}

function choose(number) {
  choice.kind.value = data.heads[number].kind;
  offerHeads();
  choice.head.value = String(number);
  draw();
}

function offerHeads() {
  const heads = data.heads.map((one, i) => [i, one]).filter(([, one]) => one.kind === choice.kind.value);
  offer(choice.head, heads.map(([i, one]) => [i, one.name]));
  choice.head.value = String(data.first[choice.kind.value]);
}

const digits = (value) => value === null ? "–" : value.toFixed(2);

choice.moment.max = String(data.moments.length - 1);
choice.moment.value = String(data.kept ?? data.moments.length - 1);
offer(choice.sentence, data.sentences.map((one, i) => [i, `${one.number}: ${one.source}`]));
offer(choice.kind, Object.entries(data.says.kinds).filter(([kind]) => kind in data.first));
offerHeads();
buildRoles();
choice.moment.addEventListener("input", draw);
choice.kind.addEventListener("change", offerHeads);
byId("choices").addEventListener("change", draw);
byId("choices").addEventListener("submit", (event) => event.preventDefault());
byId("twin").addEventListener("toggle", drawNumbers);
byId("choices").hidden = byId("moving").hidden = false;
draw();
choice.moment.focus({ preventScroll: true });
