// The arithmetic of one cell: the steps are Python's; only the weights under another divisor are computed here.
import type { components } from "./api";
import { range, sum } from "./trace";

export type CellExplanation = components["schemas"]["CellExplanation"];
export type CellNumbers = components["schemas"]["CellNumbers"];
export type CellStep = components["schemas"]["CellStep"];

/** One step of the chain, with the numbers of one key; without numbers if the step has none. */
export interface Link {
  short: string;
  numbers: string[];
  isCut: boolean;
}

/** The slider goes this many places to either side of the model's divisor. */
export const PLACES = 20;
const SHOWN = 2;

/** Return the weights of the row if its scores were divided by `divisor`. */
export function weightsAt({ keys }: CellExplanation, divisor: number): number[] {
  const scores = keys.map(({ mark, score }) => (mark === "hidden" ? -Infinity : score / divisor));
  const largest = scores.reduce((a, b) => Math.max(a, b), -Infinity);
  const exps = scores.map((score) => (score === -Infinity ? 0 : Math.exp(score - largest)));
  const total = sum(exps);
  return exps.map((exp, j) => (total ? (exp / total) * keys[j]!.factor : 0));
}

/** Return the entropy of the weights that the mask leaves, divided by the largest possible: 0 is one key, 1 is uniform. */
export function entropyOf({ keys }: CellExplanation, weights: number[]): number {
  const visible = weights.filter((_, j) => keys[j]!.mark !== "hidden");
  if (visible.length < 2) return 0;
  const total = sum(visible.map((weight) => (weight > 0 ? weight * Math.log(weight) : 0)));
  return Math.abs(total / Math.log(visible.length));
}

/** Return the divisor at a place of the slider, with three digits; place 0 is the model's own. */
export function divisorAt(cell: CellExplanation, place: number): number {
  return place === 0 ? cell.divisor : Number((cell.divisor * spanOf(cell) ** (place / PLACES)).toPrecision(3));
}

export function placeOf(cell: CellExplanation, divisor: number): number {
  const place = Math.round((PLACES * Math.log(divisor / cell.divisor)) / Math.log(spanOf(cell)));
  return Math.max(-PLACES, Math.min(PLACES, place));
}

/** Return the factor from the model's divisor to the ends of the slider: from 1 to d_k where it is √d_k. */
function spanOf({ root }: CellExplanation): number {
  return Math.max(2, root);
}

/** Return a divisor without useless digits. */
export function formatDivisor(divisor: number): string {
  return String(Number(divisor.toPrecision(divisor >= 1 ? 4 : 3)));
}

export function minus(number: string): string {
  return number.replace("-", "−");
}

/** Return the step that computes one score per key, where the arithmetic of a cell begins. */
export function scoreStep({ steps }: CellExplanation): number {
  return Math.max(0, steps.findIndex(({ blocks }) => tablesOf(blocks).some(({ has_keys, length }) => has_keys && length === null)));
}

/** Return what each step gives for one key: its number, or the first numbers of its vector. */
export function chainOf({ steps }: CellExplanation, key: number): Link[] {
  return steps.map(({ short, blocks }) => {
    const tables = tablesOf(blocks);
    const table = tables.findLast(({ has_keys }) => has_keys) ?? tables.findLast(({ length }) => length !== null);
    if (!table) return { short, numbers: [], isCut: false };
    const { cells } = table.has_keys ? table.rows[key]! : table.rows.at(-1)!;
    if (table.length === null) {
      return { short, numbers: [cells.at(-1)!], isCut: false };
    }
    const vector = range(cells.length).filter((i) => table.columns[i]!.startsWith("["));
    return { short, numbers: vector.slice(0, SHOWN).map((i) => cells[i]!), isCut: table.length > SHOWN };
  });
}

function tablesOf(blocks: CellStep["blocks"]): CellNumbers[] {
  return blocks.filter((block): block is CellNumbers => typeof block !== "string");
}
