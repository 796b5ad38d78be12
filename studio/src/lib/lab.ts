// The experiments of the lab: which of them to list, their numbers as Python prints them, and the axes of their pictures.
import type { components } from "./api";
import { formatTick, ticks } from "./chart";
import { plainText } from "./text";
import { formatFixed } from "./view";

type Schemas = components["schemas"];
export type LabExperiment = Schemas["LabExperiment"];
export type LabPanel = Schemas["LabPanel"];
export type Interval = Schemas["Interval"];

/** The verdicts with their signs; `not run` if there is no stored result. */
export const VERDICTS = { holds: "✓", depends: "◐", "fails as told": "✗", "not run": "·" } as const;
export type Verdict = keyof typeof VERDICTS;

/** What the Lab shows. `verdict` is "" for all; `experiment` is "" for the list. */
export interface LabChoice {
  experiment: string;
  find: string;
  verdict: Verdict | "";
  /** Whether to ask for a guess before the verdict is shown. */
  isGuess: boolean;
}
export const WHOLE_LAB: LabChoice = { experiment: "", find: "", verdict: "", isGuess: false };

export function verdictOf({ verdict }: LabExperiment): Verdict {
  return verdict === null || verdict === "undecided" ? "not run" : verdict;
}

/** Return the experiments that a choice leaves. */
export function selectExperiments(experiments: readonly LabExperiment[], { find, verdict }: LabChoice): LabExperiment[] {
  const text = find.trim().toLowerCase();
  return experiments.filter((one) => {
    if (verdict && verdictOf(one) !== verdict) return false;
    return !text || `${one.name}\n${plainText(one.claim)}\n${plainText(one.source)}\n${plainText(one.lesson)}`.toLowerCase().includes(text);
  });
}

/** Return a number as Python's format `.3g` does, such as 0.00123, 12.3 or 1.2e-07. */
export function formatNumber(value: number): string {
  if (value === 0) return Object.is(value, -0) ? "-0" : "0";
  const exponent = Number(value.toExponential(2).split("e")[1]);
  if (exponent >= -4 && exponent < 3) return strip(formatFixed(value, 2 - exponent));
  const size = Math.abs(exponent);
  return `${strip(value.toExponential(2).split("e")[0]!)}e${exponent < 0 ? "-" : "+"}${size < 10 ? "0" : ""}${size}`;
}
const strip = (text: string): string => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);

/** Return a value of an x axis: whole numbers have all their digits. */
export function formatX(value: number): string {
  return Number.isInteger(value) && Math.abs(value) < 1e6 ? value.toLocaleString("en") : formatNumber(value);
}

/** Return the 95 % interval as the lab's page has it. */
export function formatRange({ low, high }: Interval): string {
  return low === high ? "the same for every seed" : `${formatNumber(low)} to ${formatNumber(high)}`;
}

/** A number line from 0 to 1 with an interval on it, and the bound of a criterion. */
export interface NumberLine {
  low: number;
  high: number;
  mean: number;
  bound: number;
}

/** Return where an interval and a bound are on a line that holds both. */
export function placeOn({ low, high, mean }: Interval, bound: number): NumberLine {
  const [least, most] = [Math.min(low, bound), Math.max(high, bound)];
  const span = most - least || Math.abs(bound) || 1;
  const place = (value: number) => (value - least + 0.15 * span) / (most - least + 0.3 * span);
  return { low: place(low), high: place(high), mean: place(mean), bound: place(bound) };
}

/** An axis: where its values are, from 0 to 1, and its labels. */
export interface Axis {
  place: (value: number) => number;
  marks: [value: number, label: string][];
}

/** Return the axis for some values; a logarithmic one has powers of ten, or, if `own`, the values themselves. */
export function axisOf(values: readonly number[], isLog: boolean, own = false, count = 4): Axis {
  const positive = values.filter((value) => value > 0);
  if (isLog && positive.length) {
    const [low, high] = [Math.min(...positive), Math.max(...positive)].map(Math.log10) as [number, number];
    const [first, last] = own ? [low, high] : low === high ? [low - 0.5, high + 0.5] : [low - 0.04 * (high - low), high + 0.04 * (high - low)];
    const place = (value: number) => (value > 0 ? (Math.log10(value) - first) / (last - first || 1) : 0);
    if (own) return { place, marks: [...new Set(positive)].map((value) => [value, formatX(value)]) };
    const powers = range(Math.ceil(first), Math.floor(last));
    const step = Math.max(1, Math.ceil(powers.length / (count + 1)));
    const marks = powers.length > 1 ? powers.filter((power) => (power - powers[0]!) % step === 0).map((power) => 10 ** power) : ticks(10 ** first, 10 ** last, count).filter((value) => value > 0 && place(value) >= 0 && place(value) <= 1);
    return { place, marks: marks.map((value) => [value, label(value)]) };
  }
  const [low, high] = [Math.min(...values), Math.max(...values)];
  if (own) {
    const place = (value: number) => (value - low) / (high - low || 1);
    const isWhole = values.every(Number.isInteger);
    const marks = ticks(low, high, count).filter((value) => value >= low && value <= high && (!isWhole || Number.isInteger(value)));
    return { place, marks: marks.map((value) => [value, label(value)]) };
  }
  const round = ticks(low, high, count);
  const [first, last] = [round[0]!, round.at(-1)!];
  return { place: (value) => (value - first) / (last - first), marks: round.map((value) => [value, label(value)]) };
}
const label = (value: number): string => (Math.abs(value) >= 1e4 || (value !== 0 && Math.abs(value) < 1e-3) ? formatNumber(value).replace(/e([+-])0?/, "e$1").replace("e+", "e") : formatTick(value));
const range = (first: number, last: number): number[] => Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => first + i);

/** Leave out labels that would run into the one before; `size` is that of the axis in pixels. */
export function thinMarks({ place, marks }: Axis, size: number): Axis["marks"] {
  const kept: Axis["marks"] = [];
  const half = (text: string) => 3.4 * text.length + 4;
  for (const [value, text] of [...marks].sort((a, b) => a[0] - b[0])) {
    const last = kept.at(-1);
    if (!last || (place(value) - place(last[0])) * size >= half(text) + half(last[1])) kept.push([value, text]);
  }
  return kept;
}
