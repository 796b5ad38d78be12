// The list of ranked translations: filter, order, numbers and marks.
import { describe, expect, test } from "vitest";
import { countFlags, cutSpans, selectLines, splitLines, WHOLE_LIST, type ListChoice, type TriageLine } from "../src/lib/triage";
import { formatFixed } from "../src/lib/view";

const flag = (name: TriageLine["flags"][number]["name"]) => ({ name, severity: 0.9, evidence: "", source: [], target: [] });
const line = (number: number, score: number, source: string, fields: Partial<TriageLine> = {}): TriageLine => ({ number, score, source, target: "", signals: [], flags: [], ...fields });
const nll = (value: number) => [{ name: "nll", value, usual: 1, effect: 0 }];
const LINES = [
  line(3, 0.9, "Two dogs", { flags: [flag("numbers"), flag("numbers")], signals: nll(1) }),
  line(1, 0.5, "İstanbul", { target: "Ein HUND", flags: [flag("length")] }),
  line(4, 0.5, "Three cats", { signals: nll(3) }),
  line(2, 0.1, "A cat", { flags: [flag("numbers")], signals: nll(2) }),
];
const numbers = (choice: Partial<ListChoice>) => selectLines(LINES, { ...WHOLE_LIST, ...choice }).map(({ number }) => number);

describe("a list", () => {
  test("is in the order of the ranking, of the lines, or of a signal, worst first", () => {
    expect(numbers({})).toEqual([3, 1, 4, 2]);
    expect(numbers({ sort: "line" })).toEqual([1, 2, 3, 4]);
    expect(numbers({ sort: "nll" })).toEqual([4, 2, 3, 1]); // a line without the signal is last
    expect(numbers({ sort: "no such signal" })).toEqual([3, 1, 4, 2]);
    expect(LINES.map(({ number }) => number)).toEqual([3, 1, 4, 2]);
  });
  test("is filtered by text on both sides, by flag and by score", () => {
    expect(numbers({ find: " hund " })).toEqual([1]);
    expect(numbers({ find: "CAT" })).toEqual([4, 2]);
    expect(numbers({ flag: "numbers" })).toEqual([3, 2]);
    expect(numbers({ flag: "any" })).toEqual([3, 1, 2]);
    expect(numbers({ flag: "none" })).toEqual([4]);
    expect(numbers({ least: 0.5 })).toEqual([3, 1, 4]);
    expect(numbers({ least: 0.5, find: "cat", flag: "none", sort: "line" })).toEqual([4]);
    expect(numbers({ find: "nothing like this" })).toEqual([]);
  });
  test("counts lines, not flags", () => {
    expect(countFlags(LINES)).toEqual([["numbers", 2], ["length", 1]]);
  });
  test("of thousands of lines is filtered and sorted quickly", () => {
    const many = Array.from({ length: 20000 }, (_, i) => line(i + 1, Math.random(), `${"a sentence ".repeat(12)}${i}`, { signals: nll(Math.random()) }));
    const start = performance.now();
    expect(selectLines(many, { ...WHOLE_LIST, find: "sentence 1", sort: "nll" }).length).toBeGreaterThan(1000);
    expect(performance.now() - start).toBeLessThan(2000);
  });
});

test("numbers are rounded as Python does", () => {
  // [f"{value:.2f}" for value in (...)], and f"{value:+.1f}"
  expect([0.125, 0.375, 0.625, 2.675, 0.005, 1.005, 12.345, 0, 1].map((value) => formatFixed(value, 2))).toEqual(["0.12", "0.38", "0.62", "2.67", "0.01", "1.00", "12.35", "0.00", "1.00"]);
  expect([0.25, 0.75, -0.25, -0.04, -0, 0, 0.35, -1.5].map((value) => formatFixed(value, 1, true))).toEqual(["+0.2", "+0.8", "-0.2", "-0.0", "-0.0", "+0.0", "+0.3", "-1.5"]);
});

test("marks are cut by code points, and overlapping marks are one", () => {
  const marked = (text: string, spans: [number, number][]) => cutSpans(text, spans).map(({ text, isMarked }) => (isMarked ? `[${text}]` : text)).join("");
  expect(marked("ab<cdefg", [[4, 6], [1, 3], [2, 5]])).toBe("a[b<cde]fg");
  expect(marked("😀 300", [[2, 5]])).toBe("😀 [300]");
  expect(marked("all", [[0, 3]])).toBe("[all]");
  expect(marked("none", [])).toBe("none");
  expect(cutSpans("", [])).toEqual([]);
});

test("a text is cut into lines, whatever ends them", () => {
  expect(splitLines("\ufeffone\r\n\r\ntwo\n\n")).toEqual(["one", "", "two"]);
  expect(splitLines("one\u2028more")).toEqual(["one\u2028more"]);
});
