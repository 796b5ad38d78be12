// Every number equals Python's: expected.json is written by scripts/studio_inputs.py.
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { layBeam, tokensTo } from "../src/lib/beam";
import { openTrace, sum, type Trace } from "../src/lib/trace";
import { defaultChoice, describeChanges, describeMode, labelsOf, sinkShare, viewMap, type Choice } from "../src/lib/view";

type Expected = Record<string, { mode: string; log_probability: number; default: Partial<Choice>; maps: ExpectedMap[] }>;
type ExpectedMap = Omit<Choice, "byWord" | "hideSinks"> & {
  by_word: boolean;
  hide_sinks: boolean;
  row_labels: string[];
  column_labels: string[];
  sinks: boolean[];
  sink_share: number;
  empty_rows: number[];
  values: number[];
};
const { cells: _, comparisons: __, ...expected } = JSON.parse(readFileSync(new URL("expected.json", import.meta.url), "utf8")) as Expected;

function golden(name: string): Trace {
  const bytes = readFileSync(new URL(`../../tests/golden/${name}`, import.meta.url));
  return openTrace(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer);
}

describe.each(Object.keys(expected))("%s", (name) => {
  const trace = golden(name);
  const numbers = expected[name]!;

  it("has Python's mode, log-probability and default map", () => {
    expect(describeMode(trace)).toBe(numbers.mode);
    expect(sum(trace.logProbabilities)).toBeCloseTo(numbers.log_probability, 3);
    expect(defaultChoice(trace)).toMatchObject(numbers.default);
  });

  it.each(numbers.maps)("has Python's numbers: $kind $layer $head $rows $measure words $by_word hide $hide_sinks", (map) => {
    const choice: Choice = { kind: map.kind, layer: map.layer, head: map.head, rows: map.rows, measure: map.measure, byWord: map.by_word, hideSinks: map.hide_sinks };
    const view = viewMap(trace, choice);
    expect(view.rows).toEqual(map.row_labels);
    expect(view.columns).toEqual(map.column_labels);
    expect(labelsOf(trace, map.kind, map.rows).sinks).toEqual(map.sinks);
    expect(view.emptyRows).toEqual(map.empty_rows);
    expect(view.values.length).toBe(map.values.length);
    map.values.forEach((value, i) => expect(view.values[i], `value ${i}`).toBeCloseTo(value, value > 1 ? 3 : 5));
    expect(sinkShare(viewMap(trace, { ...choice, byWord: false, hideSinks: false }))).toBeCloseTo(map.sink_share, 5);
  });

  it.runIf(trace.history.length)("has a search that leads to the target", () => {
    const chosen = layBeam(trace).flatMap((nodes) => nodes.filter((node) => node.isChosen));
    const last = chosen.at(-1)!;
    expect(last.state).toBe("ended");
    expect(tokensTo(trace.history, last.step, last)).toEqual(trace.target.ids);
    expect(last.total).toBeCloseTo(sum(trace.logProbabilities), 3);
  });
});

describe("a language tag", () => {
  it("is a mark, as EOS is", () => {
    const trace = golden("schema-3.trace");
    const { ids, pieces, spans, words } = trace.source;
    const source = { ...trace.source, ids: [7, ...ids], pieces: [">>de<<", ...pieces], spans: [spans[0]!, ...spans], words: [-1, ...words] };
    const { sinks } = labelsOf({ ...trace, source }, "cross", "written");
    expect([sinks[0], sinks[1], sinks.at(-1)]).toEqual([true, false, true]);
    expect(labelsOf({ ...trace, source }, "encoder", "written").sinkRows[0]).toBe(true);
  });
});

describe("changes", () => {
  it("are counted by heads", () => {
    expect(describeChanges(golden("schema-2.trace"))).toBe("1 head off");
    const interventions = [{ do: "off" as const, where: "cross", heads: null }, { do: "uniform" as const, where: "encoder.layers.1", heads: null }];
    expect(describeChanges({ ...golden("schema-3.trace"), interventions })).toBe("12 heads off, 4 heads uniform");
  });
});
