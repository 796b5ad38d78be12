// Two traces of the same translation, by two models: what their maps have in common, and the difference.
import { mapsOf, type Trace } from "./trace";
import { formatWeight, largestOf, wordsOf, type Choice, type MapView } from "./view";

export interface Comparison {
  /** [rows, columns] each, with the labels of the first map. */
  a: Float32Array;
  b: Float32Array;
  difference: Float32Array;
  rows: string[];
  columns: string[];
  /** The largest value of both maps. */
  largest: number;
  /** The index of the value whose difference is largest. */
  at: number;
  /** Rows that are empty in one map at least: they are empty in all. */
  emptyRows: number[];
}

/** Return what the rows and columns of both traces can be: tokens, words, or null if not even the words are the same. */
export function commonUnit(a: Trace, b: Trace): "tokens" | "words" | null {
  const sides = [[a.source, b.source], [a.target, b.target]] as const;
  if (sides.every(([first, second]) => first.pieces.join(" ") === second.pieces.join(" "))) return "tokens";
  return sides.every(([first, second]) => wordsOf(first).length === wordsOf(second).length) ? "words" : null;
}

/** Return the choice that is nearest in another trace; null if it has no attention of this kind. */
export function nearestChoice(trace: Trace, choice: Choice): Choice | null {
  const layers = mapsOf(trace, choice.kind);
  if (!layers.length) return null;
  const layer = Math.min(choice.layer, layers.length - 1);
  return { ...choice, layer, head: choice.head === "mean" ? "mean" : Math.min(choice.head, layers[layer]!.heads - 1) };
}

export function compareMaps(first: MapView, second: MapView): Comparison {
  const { rows, columns } = first;
  if (second.values.length !== first.values.length || second.rows.length !== rows.length) throw new Error("the maps have different rows or columns");
  const emptyRows = [...new Set([...first.emptyRows, ...second.emptyRows])].sort((x, y) => x - y);
  const isEmpty = (i: number) => emptyRows.includes(Math.floor(i / columns.length));
  const [a, b] = [first, second].map(({ values }) => (emptyRows.length ? values.map((value, i) => (isEmpty(i) ? 0 : value)) : values)) as [Float32Array, Float32Array];
  const difference = a.map((value, i) => value - b[i]!);
  const sizes = difference.map(Math.abs);
  return { a, b, difference, rows, columns, largest: Math.max(largestOf(a), largestOf(b)), at: Math.max(0, sizes.indexOf(largestOf(sizes))), emptyRows };
}

/** Return a − b with its sign, and with the digits that hold: those of the larger of the two. */
export function formatDifference(a: number, b: number): string {
  const digits = formatWeight(Math.max(a, b)).split(".")[1]!.length;
  const text = Math.abs(a - b).toFixed(digits);
  return Number(text) === 0 ? text : `${a < b ? "−" : "+"}${text}`;
}
