// Every number of every map is printed as by Python. scripts/studio has Python write the numbers, which are not committed.
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { openTrace } from "../src/lib/trace";
import { formatWeight, sinkShare, viewMap, type Choice } from "../src/lib/view";

type PrintedMap = Pick<Choice, "kind" | "layer" | "head" | "rows" | "measure"> & {
  by_word: boolean;
  hide_sinks: boolean;
  sink_share: string;
  is_empty: boolean;
  row_labels: string[];
  column_labels: string[];
  numbers: string[][];
};
const path = process.env["DRAGOMAN_MAPS"];
const printed = path ? (JSON.parse(readFileSync(path, "utf8")) as Record<string, PrintedMap[]>) : {};

describe.skipIf(!path)("all maps", () => {
  it.each(Object.entries(printed))("of %s", (name, maps) => {
    const bytes = readFileSync(new URL(`../../tests/golden/${name}`, import.meta.url));
    const trace = openTrace(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer);
    expect(maps.length).toBeGreaterThan(50);
    for (const { by_word, hide_sinks, ...map } of maps) {
      const choice: Choice = { ...map, byWord: by_word, hideSinks: hide_sinks };
      const view = viewMap(trace, choice);
      const title = JSON.stringify({ ...choice, numbers: undefined });
      const whole = viewMap(trace, { ...choice, byWord: false, hideSinks: false });
      expect((100 * sinkShare(whole)).toFixed(0), title).toBe(map.sink_share);
      if (map.is_empty) {
        expect(view.emptyRows.length, title).toBe(view.rows.length);
        continue;
      }
      expect([view.rows, view.columns], title).toEqual([map.row_labels, map.column_labels]);
      const width = view.columns.length;
      map.numbers.flat().forEach((number, i) => {
        const [row, column] = [view.rows[Math.floor(i / width)], view.columns[i % width]];
        expect(number.split("|"), `${title} ${row} ${column}`).toContain(formatWeight(view.values[i]!));
      });
    }
  });
});
