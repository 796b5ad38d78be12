"use strict";
// What the pages draw with, in front of each page's own script.
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
