// One map of a trace as numbers and labels: the same as dragoman/inspection/view.py, which the tests compare.
import { mapsOf, range, type AttentionMap, type Head, type Kind, type Measure, type Rows, type Tokens, type Trace } from "./trace";

export const CAVEAT = "Where it looked, not why. One sentence is an anecdote.";
export const KIND_TEXTS: Record<Kind, string> = {
  cross: "target looks at source",
  encoder: "source looks at source",
  decoder: "target looks at what was written",
};
export const KIND_NAMES: Record<Kind, string> = { cross: "Cross-attention", encoder: "Encoder self-attention", decoder: "Decoder self-attention" };
export const MEASURE_TEXTS: Record<Measure, string> = {
  attention: "attention weights",
  norm: "norms of the weighted, transformed values (Kobayashi et al., 2020)",
};
export const ROW_TEXTS: Record<Rows, string> = { written: "A row is the token being written", read: "A row is the token just read" };
export const LOOKING = "A row is the source token that looks";
/** The share of a row's weight that must remain when marks are hidden; otherwise the row is left empty. */
export const LEFT = 0.2;
const BEGIN = "<s>";
const BYTE = /^<0x[0-9A-F]{2}>$/;
const PUNCTUATION = /^\p{P}*$/u;
const CONTROL = /(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

export interface Choice {
  kind: Kind;
  layer: number;
  head: Head;
  rows: Rows;
  measure: Measure;
  /** Merge subwords into words; cross-attention only. */
  byWord: boolean;
  hideSinks: boolean;
}
export interface MapView {
  /** [rows, columns] */
  values: Float32Array;
  rows: string[];
  columns: string[];
  sinks: boolean[];
  sinkRows: boolean[];
  /** The step of each row: the index of its target token, or of its source token in the encoder. */
  steps: number[];
  /** The weight of each row on tokens that have no column. */
  outside: Float32Array | null;
  emptyRows: number[];
}

export function viewMap(trace: Trace, choice: Choice): MapView {
  const map = mapsOf(trace, choice.kind)[choice.layer];
  if (!map) throw new Error(`there is no layer ${choice.layer}`);
  const labels = labelsOf(trace, choice.kind, choice.rows);
  const tokens: MapView = { ...labels, values: valuesOf(map, choice.head, choice.measure), steps: range(map.rows), outside: null, emptyRows: [] };
  const merged = choice.byWord && choice.kind === "cross" ? mergeWords(tokens, trace, choice.rows) : tokens;
  return choice.hideSinks ? withoutSinks(merged) : merged;
}

/** Return one head [rows, keys], or the mean over the heads that are not switched off. */
export function valuesOf(map: AttentionMap, head: Head, measure: Measure): Float32Array {
  const size = map.rows * map.keys;
  if (head !== "mean" && measure === "attention") return map.weights.subarray(head * size, (head + 1) * size);
  const on = range(map.heads).filter((number) => !map.off.includes(number));
  const heads = head === "mean" ? (on.length ? on : map.off) : [head];
  const total = new Float64Array(size);
  for (const number of heads)
    for (let i = 0; i < size; i++) {
      const weight = map.weights[number * size + i]!;
      total[i]! += measure === "norm" ? weight * (map.keyNorms?.[number * map.keys + (i % map.keys)] ?? NaN) : weight;
    }
  return Float32Array.from(total, (value) => value / heads.length);
}

export function hasMeasure(trace: Trace, measure: Measure): boolean {
  return measure === "attention" || trace.maps.every((map) => map.keyNorms !== null);
}

export function largestOf(values: Float32Array): number {
  let largest = 0;
  for (let i = 0; i < values.length; i++) if (values[i]! > largest) largest = values[i]!;
  return largest;
}

/** Return the share of a map's weight on special tokens and punctuation. */
export function sinkShare({ values, sinks }: Pick<MapView, "values" | "sinks">): number {
  let total = 0;
  let onSinks = 0;
  for (let i = 0; i < values.length; i++) {
    total += values[i]!;
    if (sinks[i % sinks.length]) onSinks += values[i]!;
  }
  return total ? onSinks / total : 0;
}

/** Return the default choice: the model's alignment head or, if none is stored, the mean of the second-last layer. */
export function defaultChoice(trace: Trace): Choice {
  const cross = mapsOf(trace, "cross");
  const stored = trace.alignmentHeads[0];
  const layer = cross.findIndex((map) => map.name === stored?.layer);
  const rest = { byWord: false, hideSinks: false };
  if (stored && layer >= 0 && hasMeasure(trace, stored.measure))
    return { kind: "cross", layer, head: stored.head ?? "mean", rows: stored.rows, measure: stored.measure, ...rest };
  const kind = cross.length ? "cross" : (trace.maps[0]?.kind ?? "cross");
  return { kind, layer: Math.max(0, mapsOf(trace, kind).length - 2), head: "mean", rows: "written", measure: "attention", ...rest };
}

export interface Labels {
  rows: string[];
  columns: string[];
  sinks: boolean[];
  sinkRows: boolean[];
}

export function labelsOf(trace: Trace, kind: Kind, rows: Rows): Labels {
  const source = spell(trace.source);
  const written = spell(trace.target);
  const read = [BEGIN, ...written.slice(0, -1)];
  const columns = kind === "decoder" ? read : source;
  const rowLabels = kind === "encoder" ? source : rows === "written" ? written : read;
  const marks = source.filter((_, i) => trace.source.words[i]! < 0); // EOS, language tag
  const columnEnds = kind === "decoder" ? [BEGIN] : marks;
  const rowEnds = [BEGIN, ...marks, trace.target.pieces.at(-1)];
  return {
    rows: rowLabels,
    columns,
    sinks: columns.map((label) => columnEnds.includes(label) || isSink(label)),
    sinkRows: rowLabels.map((label) => rowEnds.includes(label) || isSink(label)),
  };
}

/** Return the whitespace-separated words of a text. */
export function wordsOf(tokens: Tokens): string[] {
  return tokens.text.split(/\s+/u).filter(Boolean);
}

/** Return a label without SentencePiece's space mark and without control characters. */
export function show(label: string): string {
  return clean(label.replace(/^▁(?=.)/u, ""));
}

/** Return about how many pixels a label takes; letters of East Asia are twice as wide. */
export function labelWidth(label: string): number {
  return Array.from(label).reduce((width, letter) => width + (letter.codePointAt(0)! > 0x2e7f ? 13 : /[A-Zmw<>]/.test(letter) ? 9.6 : 7.2), 0);
}

export function clean(text: string): string {
  return text.replace(CONTROL, "·");
}

/** Merge tokens into words: the sum over a source word's tokens, the mean over a target word's; EOS is left out. */
export function mergeWords(tokens: MapView, trace: Trace, rows: Rows): MapView {
  const sources = wordsOf(trace.source);
  const targets = wordsOf(trace.target);
  const keys = trace.source.pieces.length;
  const shift = rows === "read" ? 1 : 0;
  const values = new Float64Array(sources.length * targets.length);
  const outside = new Float64Array(targets.length);
  const counts = new Array<number>(targets.length).fill(0);
  const steps = new Array<number>(targets.length).fill(0);
  for (let i = trace.target.words.length - 2; i >= 0; i--) {
    const word = trace.target.words[i]!;
    if (word < 0) continue;
    counts[word]!++;
    steps[word] = i + shift;
    for (let j = 0; j < keys; j++) {
      const weight = tokens.values[(i + shift) * keys + j]!;
      const column = trace.source.words[j]!;
      if (column < 0) outside[word]! += weight;
      else values[word * sources.length + column]! += weight;
    }
  }
  const mean = (value: number, word: number) => value / Math.max(1, counts[word]!);
  return {
    values: Float32Array.from(values, (value, i) => mean(value, Math.floor(i / sources.length))),
    outside: Float32Array.from(outside, mean),
    rows: targets,
    columns: sources,
    sinks: sources.map(isSink),
    sinkRows: targets.map(isSink),
    steps,
    emptyRows: [],
  };
}

/** Return the map without the rows and columns of marks, each row renormalised. */
export function withoutSinks(map: MapView): MapView {
  const rows = range(map.rows.length).filter((i) => !map.sinkRows[i]);
  const columns = range(map.columns.length).filter((j) => !map.sinks[j]);
  const values = new Float32Array(rows.length * columns.length);
  const emptyRows: number[] = [];
  const width = map.columns.length;
  rows.forEach((row, i) => {
    let whole = map.outside?.[row] ?? 0;
    for (let j = 0; j < width; j++) whole += map.values[row * width + j]!;
    let left = 0;
    for (const j of columns) left += map.values[row * width + j]!;
    if (left <= 0 || left < LEFT * whole) emptyRows.push(i);
    else columns.forEach((column, j) => (values[i * columns.length + j] = map.values[row * width + column]! / left));
  });
  return {
    values,
    rows: rows.map((i) => map.rows[i]!),
    columns: columns.map((j) => map.columns[j]!),
    sinks: columns.map(() => false),
    sinkRows: rows.map(() => false),
    steps: rows.map((i) => map.steps[i]!),
    outside: null,
    emptyRows,
  };
}

/** Return a number as Python's format `.2f` does: toFixed rounds ties up, Python to the even digit. */
export function formatFixed(value: number, digits: number, hasPlus = false): string {
  const size = Math.abs(value);
  const scaled = size * 10 ** digits;
  const isTie = Number.isInteger(size * 2 ** (digits + 1)) && scaled % 1 === 0.5;
  const text = (isTie ? (Math.floor(scaled) + (Math.floor(scaled) % 2)) / 10 ** digits : size).toFixed(digits);
  return `${value < 0 || Object.is(value, -0) ? "-" : hasPlus ? "+" : ""}${text}`;
}

/** Return a weight with the digits that half precision holds. */
export function formatWeight(value: number): string {
  return formatFixed(value, value < 0.1 ? 3 : value < 10 ? 2 : 1);
}

/** Return a probability as a percentage. */
export function formatPercent(logProbability: number): string {
  const percent = 100 * Math.exp(logProbability);
  return `${percent < 0.095 && percent > 0 ? "< 0.1" : percent.toFixed(1)} %`;
}

/** Return a log-probability with a true minus sign. */
export function formatLog(value: number): string {
  return formatFixed(value, 2).replace("-", "−");
}

export function describeMode(trace: Trace): string {
  if (!trace.isFree) return "forced (teacher forcing)";
  return trace.numForced ? `free-running after ${trace.numForced} forced token${trace.numForced > 1 ? "s" : ""}` : "free-running";
}

/** Return the number of heads that interventions changed, such as `2 heads off`. */
export function describeChanges(trace: Trace): string {
  const counts: [string, number][] = (["off", "uniform", "permuted"] as const).map((action) => {
    const changes = trace.interventions.filter((change) => change.do === action);
    const isChanged = (map: AttentionMap, head: number) =>
      changes.some(({ where, heads }) => (where === map.kind || map.name === where || map.name.startsWith(`${where}.`)) && (heads === null || heads === undefined || heads.includes(head)));
    return [action, trace.maps.reduce((count, map) => count + range(map.heads).filter((head) => isChanged(map, head)).length, 0)];
  });
  return counts.filter(([, count]) => count).map(([action, count]) => `${count} head${count > 1 ? "s" : ""} ${action}`).join(", ");
}

function spell(tokens: Tokens): string[] {
  const letters = Array.from(tokens.text);
  return tokens.pieces.map((piece, i) => {
    if (!BYTE.test(piece)) return piece;
    const [start, end] = tokens.spans[i]!;
    const before = tokens.spans[i - 1];
    const isFirst = !before || before[0] !== start || before[1] !== end;
    return isFirst ? letters.slice(start, end).join("").trim() + piece : piece;
  });
}

function isSink(label: string): boolean {
  return PUNCTUATION.test(label.replaceAll("▁", ""));
}
