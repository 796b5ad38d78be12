// The difference of two maps equals Python's: expected.json is written by scripts/studio_inputs.py.
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { commonUnit, compareMaps, formatDifference, nearestChoice } from "../src/lib/compare";
import { colourTable } from "../src/lib/ramp";
import { openTrace, type Trace } from "../src/lib/trace";
import { viewMap, type Choice } from "../src/lib/view";

type Expected = Omit<Choice, "byWord" | "hideSinks"> & { by_word: boolean; hide_sinks: boolean; other: string; other_head: Choice["head"]; row_labels: string[]; column_labels: string[]; empty_rows: number[]; largest: number; values: number[] };
const { comparisons } = JSON.parse(readFileSync(new URL("expected.json", import.meta.url), "utf8")) as { comparisons: Expected[] };

function golden(name: string): Trace {
  const bytes = readFileSync(new URL(`../../tests/golden/${name}`, import.meta.url));
  return openTrace(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer);
}
const first = golden("schema-1.trace");
const CHOICE: Choice = { kind: "cross", layer: 0, head: 1, rows: "written", measure: "attention", byWord: false, hideSinks: false };

describe("the difference", () => {
  it.each(comparisons)("is Python's: $other $kind $head $rows words $by_word hide $hide_sinks", (expected) => {
    const { kind, layer, head, rows, measure, by_word: byWord, hide_sinks: hideSinks } = expected;
    const choice: Choice = { kind, layer, head, rows, measure, byWord, hideSinks };
    const second = golden(expected.other);
    const nearest = nearestChoice(second, choice)!;
    expect(nearest.head).toBe(expected.other_head);
    const comparison = compareMaps(viewMap(first, choice), viewMap(second, nearest));
    expect(comparison.rows).toEqual(expected.row_labels);
    expect(comparison.columns).toEqual(expected.column_labels);
    expect(comparison.emptyRows).toEqual(expected.empty_rows);
    expect(comparison.difference.length).toBe(expected.values.length);
    expected.values.forEach((value, i) => expect(comparison.difference[i], `value ${i}`).toBeCloseTo(value, 5));
    expect(expected.largest).toBeGreaterThan(0);
    expect(Math.abs(comparison.difference[comparison.at]!)).toBeCloseTo(expected.largest, 5);
  });

  it("is none between a trace and itself", () => {
    const view = viewMap(first, CHOICE);
    const { difference, at } = compareMaps(view, view);
    expect(difference.every((value) => value === 0)).toBe(true);
    expect(at).toBe(0);
  });

  it("needs maps of the same size", () => {
    expect(() => compareMaps(viewMap(first, CHOICE), viewMap(golden("pair-words.trace"), { ...CHOICE, head: 0 }))).toThrow(/rows or columns/);
  });

  it("is printed with its sign, and with the digits that hold", () => {
    expect([formatDifference(0.71, 0.65), formatDifference(0.05, 0.0712), formatDifference(12.34, 0.1), formatDifference(0.5, 0.501)]).toEqual(["+0.06", "−0.021", "+12.2", "0.00"]);
  });
});

describe("two traces", () => {
  it("are compared by tokens if these are the same, else by words", () => {
    expect(commonUnit(first, golden("pair-tokens.trace"))).toBe("tokens");
    expect(commonUnit(first, golden("pair-words.trace"))).toBe("words");
    expect(commonUnit(first, golden("schema-3.trace"))).toBe(null);
  });

  it("have the nearest layer and head, or none of a kind", () => {
    expect(nearestChoice(first, { ...CHOICE, layer: 2, head: 7 })).toMatchObject({ layer: 0, head: 1 });
    expect(nearestChoice(golden("schema-3.trace"), { ...CHOICE, layer: 2, head: "mean" })).toMatchObject({ layer: 2, head: "mean" });
    expect(nearestChoice(golden("pair-words.trace"), { ...CHOICE, kind: "encoder" })).toBe(null);
  });
});

describe("signed colours", () => {
  it.each([false, true])("are faint at 0 and distinct at the ends (dark: %s)", (isDark) => {
    const table = colourTable(isDark, true);
    const blueMinusRed = (i: number) => ((table[i]! >> 16) & 255) - (table[i]! & 255);
    expect(Math.abs(blueMinusRed(128))).toBeLessThan(20);
    expect(blueMinusRed(40)).toBeGreaterThan(30);
    expect(blueMinusRed(215)).toBeLessThan(-30);
  });
});
