// The ranking of heads: its grid, its keys, links against gold links, and the commands.
import { describe, expect, test } from "vitest";
import { describeChoice, formatRate, judgeLinks, moveInGrid, panelsOf, placeOf, type GridChoice, type RankedHead } from "../src/lib/align";
import { formatAlign } from "../src/lib/command";

const ranked = (layer: number, head: number | null, rows: "written" | "read", measure: "attention" | "norm", aer: number): RankedHead => ({ head: { layer: `decoder.layers.${layer}.cross_attention`, head, rows, measure }, layer, aer, low: aer, high: aer, precision: 1 - aer, recall: 1 - aer });
const HEADS = [ranked(1, 1, "read", "norm", 0.1), ...(["written", "read"] as const).flatMap((rows) => (["attention", "norm"] as const).flatMap((measure) => [0, 1].flatMap((layer) => [0, 1, null].map((head) => ranked(layer, head, rows, measure, 0.5)))))].filter((one, i) => i === 0 || !(one.layer === 1 && one.head.head === 1 && one.head.rows === "read" && one.head.measure === "norm"));
const AT: GridChoice = { layer: 1, head: 1, rows: "read", measure: "norm" };

test("the grid has a panel for each combination of rows and measure, with the mean last", () => {
  const panels = panelsOf(HEADS);
  expect(panels.map(({ rows, measure }) => `${rows} ${measure}`)).toEqual(["written attention", "written norm", "read attention", "read norm"]);
  for (const { columns, layers } of panels) {
    expect(columns).toEqual([0, 1, "mean"]);
    expect(layers.map(({ layer }) => layer)).toEqual([0, 1]);
  }
  expect(panels[3]!.layers[1]!.cells[1]).toBe(HEADS[0]);
});

test("a model of one head, or without norms, has a smaller grid", () => {
  const panels = panelsOf([ranked(0, 0, "written", "attention", 0.3), ranked(0, 0, "read", "attention", 0.2)]);
  expect(panels.map(({ columns, layers }) => [columns, layers.length])).toEqual([[[0], 1], [[0], 1]]);
  expect(panelsOf([])).toEqual([]);
  expect(moveInGrid([ranked(0, 0, "read", "attention", 0.2)], { ...AT, layer: 0, head: 0, measure: "attention" }, "m")).toEqual({ layer: 0, head: 0, rows: "read", measure: "attention" });
});

test("a cell is found in the ranking, and one that is not there is not", () => {
  expect(placeOf(HEADS, AT)).toBe(0);
  expect(placeOf(HEADS, { ...AT, head: "mean" })).toBeGreaterThan(0);
  expect(placeOf(HEADS, { ...AT, head: 7 })).toBe(-1);
  expect(placeOf(HEADS, {})).toBe(-1);
});

describe("keys", () => {
  test("move as on the map of a head, and stay in the grid", () => {
    expect(moveInGrid(HEADS, AT, "[")).toEqual({ ...AT, layer: 0 });
    expect(moveInGrid(HEADS, AT, "ArrowDown")).toEqual(AT);
    expect(moveInGrid(HEADS, AT, ".")).toEqual({ ...AT, head: "mean" });
    expect(moveInGrid(HEADS, AT, "ArrowLeft")).toEqual({ ...AT, head: 0 });
    expect(moveInGrid(HEADS, AT, "r")).toEqual({ ...AT, rows: "written" });
    expect(moveInGrid(HEADS, AT, "m")).toEqual({ ...AT, measure: "attention" });
  });
  test("other keys do nothing", () => {
    for (const key of ["x", "Enter", "toString"]) expect(moveInGrid(HEADS, AT, key)).toBeNull();
  });
});

describe("links", () => {
  const verdicts = (found: [number, number][], gold: string, isSwapped = false) => judgeLinks(found, gold, isSwapped).map(({ source, target, verdict }) => `${source}-${target} ${verdict}`);
  test("are right if they are sure or possible, and only sure ones can be missed", () => {
    expect(verdicts([[1, 0], [0, 0], [2, 2]], "1-1 2p1 2-2 4p4")).toEqual(["0-0 right", "1-0 right", "1-1 missed", "2-2 wrong"]);
    expect(verdicts([], "")).toEqual([]);
  });
  test("of gold with the target first are turned", () => {
    expect(verdicts([[1, 0]], "1-2", true)).toEqual(["1-0 right"]);
    expect(verdicts([[1, 0]], "1-2", false)).toEqual(["0-1 missed", "1-0 wrong"]);
  });
});

test("rates are printed as Python prints them", () => {
  // [f"{100 * rate:.1f}" for rate in (...)]
  expect([0, 1, 0.123456, 0.00125, 0.25, 2 / 3].map(formatRate)).toEqual(["0.0", "100.0", "12.3", "0.1", "25.0", "66.7"]);
  expect(describeChoice(AT)).toBe("layer 1, head 1, read, norm");
  expect(describeChoice({ ...AT, head: "mean", measure: "attention" })).toBe("layer 1, mean of heads, read, weights");
});

test("the commands rank the heads, and align by the chosen one", () => {
  const files = { source: "dev set.en", target: "", gold: "a.gold" };
  expect(formatAlign("runs/a", files, true, null)).toBe("dragoman align runs/a --source 'dev set.en' --target TARGET --gold a.gold --swap-gold --search");
  expect(formatAlign("demo", { source: "", target: "", gold: "" }, false, { ...AT, head: "mean" }).split("\n")).toEqual([
    "dragoman align demo --source SOURCE --target TARGET --gold GOLD --search",
    "dragoman align demo --source SOURCE --target TARGET --gold GOLD --layer 1 --head mean --rows read --measure norm",
  ]);
});
