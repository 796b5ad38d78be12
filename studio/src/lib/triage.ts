// A ranked list of translations: what to show of it, in which order, and its numbers as Python prints them.
import type { components } from "./api";

type Schemas = components["schemas"];
export type TriageReport = Schemas["TriageReport"];
export type TriageLine = Schemas["TriageResult"];
type Span = [number, number];

export const PAGE_SIZE = 200;

/** What a list shows. `flag` is "", "any", "none" or the name of a flag; `sort` is "score", "line" or the name of a signal. */
export interface ListChoice {
  find: string;
  flag: string;
  least: number;
  sort: string;
  /** Counted from 0. */
  page: number;
}
export const WHOLE_LIST: ListChoice = { find: "", flag: "", least: 0, sort: "score", page: 0 };

/** Return the lines that a choice leaves, in its order: worst first, or by number. */
export function selectLines(lines: readonly TriageLine[], { find, flag, least, sort }: ListChoice): TriageLine[] {
  const text = find.trim().toLowerCase();
  const kept = lines.filter(({ source, target, score, flags }) => {
    if (score < least) return false;
    if (flag === "any" ? !flags.length : flag === "none" ? flags.length : flag && !flags.some(({ name }) => name === flag)) return false;
    return !text || `${source}\n${target}`.toLowerCase().includes(text);
  });
  if (sort === "line") return kept.sort((a, b) => a.number - b.number);
  if (sort === "score") return kept;
  const value = ({ signals }: TriageLine) => signals.find(({ name }) => name === sort)?.value ?? -Infinity;
  const values = new Map(kept.map((line) => [line, value(line)]));
  return kept.sort((a, b) => (values.get(a) === values.get(b) ? 0 : values.get(b)! - values.get(a)!));
}

/** Return the flags of a list with the number of their lines, most frequent first. */
export function countFlags(lines: readonly TriageLine[]): [string, number][] {
  const counts = new Map<string, number>();
  for (const { flags } of lines) for (const name of new Set(flags.map((flag) => flag.name))) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1));
}

/** Cut a text at spans of code points, as Python counts; spans that overlap or touch are one. */
export function cutSpans(text: string, spans: readonly Span[]): { text: string; isMarked: boolean }[] {
  const letters = Array.from(text);
  const joined: Span[] = [];
  for (const [start, end] of [...spans].sort((a, b) => a[0] - b[0] || a[1] - b[1])) {
    const last = joined.at(-1);
    if (last && start <= last[1]) last[1] = Math.max(end, last[1]);
    else joined.push([start, end]);
  }
  const parts = joined.flatMap(([start, end], i) => [
    { text: letters.slice(joined[i - 1]?.[1] ?? 0, start).join(""), isMarked: false },
    { text: letters.slice(start, end).join(""), isMarked: true },
  ]);
  return [...parts, { text: letters.slice(joined.at(-1)?.[1] ?? 0).join(""), isMarked: false }].filter((part) => part.text);
}

/** Return the sentences of a text, one per line, without the end of the last line. */
export function splitLines(text: string): string[] {
  return text.replace(/^\ufeff/, "").replace(/(\r?\n)+$/, "").split(/\r?\n/);
}
