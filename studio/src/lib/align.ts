// The ranking of heads by gold links: its grid, its numbers as Python prints them, and links against gold links.
import type { components } from "./api";
import type { Head, Measure, Rows } from "./trace";
import { formatFixed } from "./view";

type Schemas = components["schemas"];
export type HeadSearchReport = Schemas["HeadSearchReport"];
export type RankedHead = Schemas["RankedHead"];
export type AlignmentHead = Schemas["AlignmentHead"];
/** A cell of the grid. */
export interface GridChoice {
  layer: number;
  head: Head;
  rows: Rows;
  measure: Measure;
}
export interface GridPanel {
  rows: Rows;
  measure: Measure;
  columns: Head[];
  layers: { layer: number; cells: (RankedHead | null)[] }[];
}

export const ALL_ROWS: readonly Rows[] = ["written", "read"];
export const ALL_MEASURES: readonly Measure[] = ["attention", "norm"];

export const choiceOf = ({ layer, head: { head, rows, measure } }: RankedHead): GridChoice => ({ layer, head: head ?? "mean", rows: rows ?? "written", measure: measure ?? "attention" });
const isSame = (a: GridChoice, b: GridChoice) => a.layer === b.layer && a.head === b.head && a.rows === b.rows && a.measure === b.measure;

/** Return the place of a cell in the ranking, counted from 0; -1 if there is no such head. */
export function placeOf(heads: readonly RankedHead[], choice: Partial<GridChoice>): number {
  return heads.findIndex((ranked) => isSame(choiceOf(ranked), choice as GridChoice));
}

/** Return a panel for each combination of rows and measure that was measured. */
export function panelsOf(heads: readonly RankedHead[]): GridPanel[] {
  const choices = heads.map(choiceOf);
  const layers = [...new Set(choices.map(({ layer }) => layer))].sort((a, b) => a - b);
  const numbers = [...new Set(choices.map(({ head }) => head))].filter((head) => head !== "mean").sort((a, b) => a - b);
  const columns: Head[] = [...numbers, ...(choices.some(({ head }) => head === "mean") ? ["mean" as const] : [])];
  const panels = ALL_ROWS.flatMap((rows) => ALL_MEASURES.map((measure) => ({ rows, measure })));
  return panels
    .filter(({ rows, measure }) => choices.some((choice) => choice.rows === rows && choice.measure === measure))
    .map(({ rows, measure }) => ({
      rows,
      measure,
      columns,
      layers: layers.map((layer) => ({ layer, cells: columns.map((head) => heads[placeOf(heads, { layer, head, rows, measure })] ?? null) })),
    }));
}

/** Return the cell that a key leads to from another; null if the key has no meaning here. */
export function moveInGrid(heads: readonly RankedHead[], at: GridChoice, key: string): GridChoice | null {
  const [panel] = panelsOf(heads).filter(({ rows, measure }) => rows === at.rows && measure === at.measure);
  if (!panel) return null;
  const layers = panel.layers.map(({ layer }) => layer);
  const step = <T>(list: readonly T[], item: T, by: number): T => list[Math.max(0, Math.min(list.length - 1, list.indexOf(item) + by))]!;
  const moves: Record<string, () => GridChoice> = {
    "[": () => ({ ...at, layer: step(layers, at.layer, -1) }),
    "]": () => ({ ...at, layer: step(layers, at.layer, 1) }),
    ",": () => ({ ...at, head: step(panel.columns, at.head, -1) }),
    ".": () => ({ ...at, head: step(panel.columns, at.head, 1) }),
    r: () => ({ ...at, rows: at.rows === "written" ? "read" : "written" }),
    m: () => ({ ...at, measure: at.measure === "attention" ? "norm" : "attention" }),
  };
  const keys: Record<string, string> = { ArrowUp: "[", ArrowDown: "]", ArrowLeft: ",", ArrowRight: "." };
  const move = Object.hasOwn(moves, keys[key] ?? key) ? moves[keys[key] ?? key]!() : null;
  return move && placeOf(heads, move) < 0 ? at : move;
}

/** Return a rate in percent, as Python's format `.1f` prints it. */
export const formatRate = (rate: number): string => formatFixed(100 * rate, 1);

export const describeChoice = ({ layer, head, rows, measure }: GridChoice): string => `layer ${layer}, ${head === "mean" ? "mean of heads" : `head ${head}`}, ${rows}, ${measure === "attention" ? "weights" : "norm"}`;

export type Verdict = "right" | "wrong" | "missed";
export interface JudgedLink {
  source: number;
  target: number;
  verdict: Verdict;
}

/** Return the found links and the sure links that were not found, by source word. */
export function judgeLinks(found: readonly [number, number][], gold: string, isSwapped: boolean): JudgedLink[] {
  const links = gold.split(/\s+/).filter(Boolean).map((link) => {
    const [, first, mark, second] = /^(\d+)([-p])(\d+)$/.exec(link) ?? [];
    const [source, target] = isSwapped ? [second, first] : [first, second];
    return { source: Number(source) - 1, target: Number(target) - 1, isSure: mark === "-" };
  });
  const isGold = (source: number, target: number) => links.some((link) => link.source === source && link.target === target);
  const isFound = (source: number, target: number) => found.some(([s, t]) => s === source && t === target);
  const missed = links.filter(({ source, target, isSure }) => isSure && !isFound(source, target));
  const judged = [
    ...found.map(([source, target]): JudgedLink => ({ source, target, verdict: isGold(source, target) ? "right" : "wrong" })),
    ...missed.map(({ source, target }): JudgedLink => ({ source, target, verdict: "missed" })),
  ];
  return judged.sort((a, b) => a.source - b.source);
}
