// The page's own script, behind drawing.js: it draws what the data block holds, asks for nothing and writes tokens as text, never as HTML.
const choice = Object.fromEntries(["kind", "layer", "head", "measure", "rows", "hide"].map((id) => [id, byId(id)]));
const FAINTEST = 0.08;
let seen, cursor = { row: 0, column: 0 }, cell = 20, margin = { left: 0, top: 0 };

function values(map, measure) {
  const bytes = Uint8Array.from(atob(map[measure].base64), (letter) => letter.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return (head, row, column) => {
    const at = (head * map.rows + row) * map.columns + column;
    return view.getUint16(2 * at, true) / 65535 * map[measure].largest;
  };
}

function chosen() {
  const kind = choice.kind.value, measure = choice.measure.value, rows = choice.rows.value;
  const map = data.maps.filter((one) => one.kind === kind)[Number(choice.layer.value)];
  const value = values(map, measure);
  const on = [...Array(map.heads).keys()].filter((head) => !map.off.includes(head));
  const heads = choice.head.value !== "mean" ? [Number(choice.head.value)] : on.length ? on : map.off;
  const matrix = Array.from({ length: map.rows }, (_, row) => Array.from({ length: map.columns }, (_, column) =>
    heads.reduce((sum, head) => sum + value(head, row, column), 0) / heads.length));
  return { map, kind, measure, rows, heads, matrix, labels: data.labels[kind] };
}

const enough = (left, row) => left > 0 && left >= data.left * sum(row);

function look() {
  const view = chosen();
  const total = sum(view.matrix.map(sum));
  const resting = sum(view.matrix.map((row) => sum(row.filter((_, i) => view.labels.sinks[i]))));
  view.share = total ? resting / total : 0;
  view.shown = view.labels.columns.map((_, i) => i).filter((i) => !choice.hide.checked || !view.labels.sinks[i]);
  const rows = view.matrix.map((_, i) => i).filter((i) => !choice.hide.checked || !view.labels.marks[view.rows][i]);
  view.emptied = [];
  view.drawn = rows.map((at, i) => {
    const row = view.matrix[at], kept = view.shown.map((j) => row[j]), left = choice.hide.checked ? sum(kept) : 1;
    if (choice.hide.checked && !enough(left, row)) view.emptied.push(i);
    return kept.map((one) => view.emptied.includes(i) ? 0 : one / left);
  });
  view.columnLabels = view.shown.map((i) => view.labels.columns[i]);
  view.rowLabels = rows.map((i) => view.labels.rows[view.rows][i]);
  return view;
}

function draw() {
  seen = look();
  cursor = { row: clamp(cursor.row, seen.drawn.length), column: clamp(cursor.column, seen.shown.length) };
  byId("caption").textContent = caption();
  byId("sinks").textContent = `${Math.round(100 * seen.share)}% of it rests on sinks (marks and punctuation)`
    + (choice.hide.checked ? `; they are hidden, as rows too, and the rows renormalised.${emptied()}` : ".");
  drawMap();
  drawWords();
  drawTable();
}

function emptied() {
  const percent = `${Math.round(100 * data.left)}%`, rows = seen.emptied.map((i) => apart(seen.rowLabels[i]));
  return rows.length ? ` Grey, as less than ${percent} of them is left: ${rows.join(", ")}.` : "";
}

function whichHeads() {
  const { heads: count, off } = seen.map, mean = choice.head.value === "mean";
  if (count === 1 || (mean && off.length === count))
    return (count === 1 ? "its only head" : `all ${count} heads`) + (off.length ? ", off" : "");
  if (!mean) return `head ${seen.heads[0]} of ${count}${off.includes(seen.heads[0]) ? ", off" : ""}`;
  if (!off.length) return `mean of ${count} heads`;
  return `mean of ${count - off.length} of ${count} heads, head${off.length > 1 ? "s" : ""} ${off.join(" and ")} off`;
}

function caption() {
  const encoder = seen.kind === "encoder", row = encoder ? data.looking : data.says.rows[seen.rows];
  const by = encoder ? data.encoder : data.provenance;
  return `${seen.map.name}, ${whichHeads()}: ${data.says.measures[seen.measure]}; ${row}; ${by}. ${data.says.caveat}`;
}

function drawMap() {
  const svg = byId("map"), rows = seen.drawn.length, columns = seen.shown.length;
  cell = Math.max(5, Math.min(26, Math.floor(900 / Math.max(rows, columns, 1))));
  margin = { left: 12 + widest(seen.rowLabels), top: 12 + widest(seen.columnLabels) };
  size(svg, margin.left + columns * cell + 8, margin.top + rows * cell + 8);
  svg.replaceChildren();
  const largest = Math.max(...seen.drawn.map((row) => Math.max(0, ...row))) || 1;
  svg.append(node("rect", { x: margin.left, y: margin.top, width: columns * cell, height: rows * cell, fill: colour(0), stroke: "#bbb" }));
  for (const i of seen.emptied)
    svg.append(node("rect", { x: margin.left, y: margin.top + i * cell, width: columns * cell, height: cell, fill: "#c8c8c8" }));
  seen.drawn.forEach((row, i) => row.forEach((value, j) => {
    if (value > largest / 512) svg.append(node("rect", { ...place(i, j), fill: colour(value / largest) }));
  }));
  each(rows, cell, (i) => svg.append(text(seen.rowLabels[i], { x: margin.left - 6, y: margin.top + (i + 0.5) * cell + 4, "text-anchor": "end" })));
  each(columns, cell, (j) => {
    const x = margin.left + (j + 0.5) * cell + 4, y = margin.top - 6;
    svg.append(text(seen.columnLabels[j], { x, y, transform: `rotate(-90 ${x} ${y})` }));
  });
  svg.append(node("rect", { class: "halo" }), node("rect", { class: "cursor" }));
  legend(byId("legend"), largest, seen.measure === "norm" && !choice.hide.checked ? data.norm : "of the row");
  point(false);
}

function point(aloud) {
  const { row, column } = cursor;
  if (!seen.shown.length || !seen.drawn.length) return;
  for (const one of byId("map").querySelectorAll(".halo, .cursor"))
    for (const [name, value] of Object.entries(place(row, column))) one.setAttribute(name, value);
  const sentence = `${apart(seen.rowLabels[row])} (${verb()}) looked at ${apart(seen.columnLabels[column])}: ${seen.drawn[row][column].toFixed(3)}`;
  byId("readout").textContent = sentence;
  if (aloud) byId("live").textContent = sentence;
}

const verb = () => seen.kind === "encoder" ? "source" : seen.rows;
const place = (row, column) => ({ x: margin.left + column * cell, y: margin.top + row * cell, width: cell, height: cell });

function wordMap() {
  const { source, target } = data, shift = seen.rows === "read" ? 1 : 0;
  const given = target.words.map(() => source.words.map(() => 0)), pieces = target.words.map(() => 0);
  seen.matrix.forEach((row, i) => {
    const word = i < shift ? -1 : target.of[i - shift];
    if (word < 0) return;
    pieces[word] += 1;
    kept(row).forEach((value, j) => { if (source.of[j] >= 0) given[word][source.of[j]] += value; });
  });
  return given.map((row, i) => row.map((value) => value / Math.max(1, pieces[i])));
}

function kept(row) {
  if (!choice.hide.checked) return row;
  const left = sum(row.filter((_, j) => !seen.labels.sinks[j]));
  return row.map((value, j) => seen.labels.sinks[j] || !enough(left, row) ? 0 : value / left);
}

function drawWords() {
  byId("words").hidden = seen.kind !== "cross";
  if (seen.kind !== "cross") return;
  const svg = byId("ribbons"), given = wordMap(), { source, target } = data;
  const left = 12 + widest(source.words), across = 260, step = 22;
  size(svg, left + across + 24 + widest(target.words), step * (1 + Math.max(source.words.length, target.words.length)));
  const largest = Math.max(...given.map((row) => Math.max(0, ...row)), 0) || 1;
  const y = (i) => step * (i + 0.75);
  svg.replaceChildren();
  given.forEach((row, i) => row.forEach((value, j) => {
    const share = value / largest;
    if (share <= FAINTEST) return;
    const path = `M${left} ${y(j)} C${left + across * 0.45} ${y(j)} ${left + across * 0.55} ${y(i)} ${left + across} ${y(i)}`;
    svg.append(node("path", { d: path, "stroke-width": 12 * share, "stroke-opacity": 0.2 + 0.6 * share }));
  }));
  source.words.forEach((word, j) => svg.append(text(word, { x: left - 6, y: y(j) + 4, "text-anchor": "end" })));
  target.words.forEach((word, i) => svg.append(text(word, { x: left + across + 6, y: y(i) + 4 })));
  byId("links").textContent = (choice.hide.checked ? "Sinks are hidden here too. " : "") + "Most of all: " + given.map((row, i) => {
    const best = row.indexOf(Math.max(...row));
    return best < 0 ? apart(target.words[i]) : `${apart(target.words[i])} to ${apart(source.words[best])} (${row[best].toFixed(2)})`;
  }).join(", ") + ".";
}

function drawTable() {
  if (!byId("twin").open) return byId("table").replaceChildren();
  const table = document.createElement("table");
  table.createCaption().textContent = byId("caption").textContent;
  const head = table.createTHead().insertRow(), body = table.createTBody();
  head.append(heading("", "col"), ...seen.columnLabels.map((label) => heading(label, "col")));
  seen.drawn.forEach((row, i) => {
    const line = body.insertRow();
    line.append(heading(seen.rowLabels[i], "row"));
    row.forEach((value) => { line.insertCell().textContent = value.toFixed(3); });
  });
  byId("table").replaceChildren(table);
}

const clamp = (at, count) => Math.max(0, Math.min(at, count - 1));

function offerLayers() {
  const maps = data.maps.filter((one) => one.kind === choice.kind.value);
  offer(choice.layer, maps.map((one, i) => [i, String(i)]), choice.layer.value || String(data.first.layer));
  const heads = [...Array(maps[0].heads).keys()].map((i) => [i, String(i)]);
  offer(choice.head, [["mean", "mean of all"], ...heads], choice.head.value || String(data.first.head));
  choice.rows.disabled = choice.kind.value === "encoder";
}

function onKey(event) {
  const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -1e9], End: [0, 1e9] };
  const move = moves[event.key];
  if (!move || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  cursor = { row: clamp(cursor.row + move[0], seen.drawn.length), column: clamp(cursor.column + move[1], seen.shown.length) };
  point(true);
  byId("map").querySelector(".cursor").scrollIntoView({ block: "nearest", inline: "nearest" });
}

function onPointer(event) {
  const box = byId("map").getBoundingClientRect();
  const row = Math.floor((event.clientY - box.top - margin.top) / cell);
  const column = Math.floor((event.clientX - box.left - margin.left) / cell);
  if (row < 0 || column < 0 || row >= seen.drawn.length || column >= seen.shown.length) return;
  cursor = { row, column };
  point(false);
}

const kinds = Object.entries(data.says.kinds).filter(([kind]) => data.maps.some((one) => one.kind === kind));
offer(choice.kind, kinds, data.first.kind);
offer(choice.measure, Object.entries(data.says.measures).filter(([measure]) => data.maps[0][measure]), data.first.measure);
offer(choice.rows, Object.entries(data.says.rows), data.first.rows);
choice.hide.checked = data.first.hide;
if (data.first.words) byId("map-title").parentElement.before(byId("words"));
offerLayers();
choice.kind.addEventListener("change", offerLayers);
byId("choices").addEventListener("change", draw);
byId("choices").addEventListener("submit", (event) => event.preventDefault());
byId("choices").hidden = false;
byId("twin").addEventListener("toggle", drawTable);
byId("map").addEventListener("keydown", onKey);
byId("map").addEventListener("focus", () => point(true));
byId("map").addEventListener("pointermove", onPointer);
byId("map").addEventListener("pointerdown", onPointer);
draw();
