// The logic of Watch: curves and time left from a log, the stream of events, axes, and heads over time.
import { describe, expect, test } from "vitest";
import { formatTick, pointAt, thin, ticks, type Point } from "../src/lib/chart";
import { describeSnapshot, evolveCommand, indexOf, meanEntropy, rolesAt, rolesOfRun, standout, type Evolution } from "../src/lib/evolution";
import { curveOf, formatDuration, isOver, progressOf, summarise, validationAt, warningsOf, type LogEvent, type RunState } from "../src/lib/run";
import { parseEvents, readEvents } from "../src/lib/sse";
import { formatState, parseState } from "../src/lib/state";

const line = (event: string, fields: Partial<LogEvent> = {}): LogEvent => ({ event, ...fields });
const BEGIN = line("begin", { update: 0, seconds: 0, last: 1000, time: null });
const idle: RunState = { is_running: false, is_finished: false, snapshots: [], findings: [] };
const running: RunState = { ...idle, is_running: true };

describe("the stream", () => {
  test("is cut into messages, however it arrives", async () => {
    const text = 'event: log\ndata: {"a":\ndata: 1}\n\n: nothing\n\nevent: state\ndata: {}\n\nevent: l';
    const { messages, rest } = parseEvents(text);
    expect(messages).toEqual([{ event: "log", data: '{"a":\n1}' }, { event: "state", data: "{}" }]);
    expect(rest).toBe("event: l");
    const bytes = new TextEncoder().encode(text.replace("{}", '{"ü":2}'));
    const stream = new ReadableStream<Uint8Array>({ start(controller) { for (const byte of bytes) controller.enqueue(Uint8Array.of(byte)); controller.close(); } });
    const found = [];
    for await (const message of readEvents(new Response(stream))) found.push(message.data);
    expect(found).toEqual(['{"a":\n1}', '{"ü":2}']);
  });
});

describe("a log", () => {
  test("becomes curves, without what is not a number", () => {
    const events = [BEGIN, line("update", { update: 1, loss: 9 }), line("update", { update: 2, loss: null }), line("validation", { update: 2, loss: 5 }), line("update", { update: 3, loss: 7 })];
    expect(curveOf(events, "update", "loss")).toEqual([[1, 9], [3, 7]]);
    expect(curveOf(events, "validation", "loss")).toEqual([[2, 5]]);
  });
  test("tells the time left, by the speed without validations", () => {
    const events = [BEGIN, line("update", { update: 200, seconds: 100 }), line("validation", { update: 200, seconds: 120, took: 20 }), line("update", { update: 400, seconds: 220 })];
    // 400 updates took 200 s; 600 are left, with validations at 400, 600, 800 and 1,000.
    expect(progressOf(events, 0).left).toBeCloseTo(300 + 4 * 20);
    expect(progressOf(events, 30).left).toBeCloseTo(350);
    expect(progressOf(events, 30).seconds).toBe(250);
  });
  test("ends at its time limit, and a new plan counts", () => {
    const events = [{ ...BEGIN, time: 500 }, line("update", { update: 100, seconds: 100 })];
    expect(progressOf(events, 0).left).toBe(400);
    expect(progressOf([...events, line("planned", { update: 100, seconds: 100, last: 150 })], 0).left).toBe(50);
    expect(progressOf([{ ...BEGIN, time: 500 }], 0).left).toBe(500);
    expect(progressOf([BEGIN], 0).left).toBeNull();
  });
  test("measures the speed since it was resumed", () => {
    const events = [BEGIN, line("update", { update: 100, seconds: 1000 }), line("resumed", { update: 100, seconds: 1000, last: 300 }), line("update", { update: 200, seconds: 1100 })];
    expect(progressOf(events, 0).left).toBeCloseTo(100);
  });
  test("is over at its end, unless it goes on after it", () => {
    const end = line("end", { update: 100, seconds: 50, why: "the time is up", kept: "update 80" });
    expect(isOver([BEGIN, end])).toBe(true);
    expect(isOver([BEGIN, end, line("resumed", { update: 100 })])).toBe(false);
    expect(summarise([BEGIN, end], running, 0).title).toMatch(/Scoring/);
    const done = summarise([BEGIN, end, line("verdict", { message: "BLEU 30" })], { ...idle, is_finished: true }, 9e9);
    expect([done.title, done.share]).toEqual(["BLEU 30", 1]);
    expect(done.detail).toMatch(/100 updates.*50 s.*update 80/);
  });
  test("is summed up before it begins and when it was stopped", () => {
    expect(summarise([], running, 0).title).toMatch(/Preparing/);
    expect(summarise([], idle, 0).title).toMatch(/Not begun/);
    const events = [BEGIN, line("update", { update: 250, seconds: 100 })];
    expect(summarise(events, idle, 1e6).title).toMatch(/Stopped at update 250/);
    expect(summarise(events, running, 0).title).toMatch(/5 min left/);
  });
  test("warns of what is not ok, before and during training", () => {
    const state: RunState = { ...idle, findings: [{ check: "memory", level: "ok", message: "fits" }, { check: "alignment", level: "warning", message: "line 3" }] };
    const found = warningsOf([BEGIN, line("left out", { update: 1200, reason: "the loss is NaN" })], state);
    expect(found.map(({ check, message }) => [check, message])).toEqual([["alignment", "line 3"], ["update 1,200", "left out: the loss is NaN"]]);
  });
  test("has the samples of a snapshot", () => {
    const events = [line("validation", { which: "update 10", bleu: 1 }), line("validation", { which: "update 20", bleu: 2 })];
    expect(validationAt(events, null)?.bleu).toBe(2);
    expect(validationAt(events, "update 10")?.bleu).toBe(1);
    expect(validationAt(events, "before the first update")).toBeNull();
  });
  test.each([[40, "40 s"], [61, "1 min"], [3599, "1 h 00 min"], [3900, "1 h 05 min"]])("%d seconds are %s", (seconds, text) => expect(formatDuration(seconds)).toBe(text));
});

describe("a chart", () => {
  test.each([[0, 1, [0, 0.5, 1]], [0, 3875, [0, 2000, 4000]], [1.72, 3.04, [1.5, 2, 2.5, 3, 3.5]], [5, 5, [5, 7.5]], [0, 0, [0, 0.5, 1]]])("from %d to %d has round numbers", (low, high, expected) => {
    const found = ticks(low, high, 3);
    expect(found[0]).toBeLessThanOrEqual(low);
    expect(found.at(-1)).toBeGreaterThanOrEqual(high);
    if (low !== high) expect(found).toEqual(expected);
  });
  test("finds the point at a place", () => {
    const points: Point[] = [[10, 1], [20, 2], [30, 3]];
    expect([5, 10, 29, 99].map((x) => pointAt(points, x)![1])).toEqual([1, 1, 2, 3]);
    expect(pointAt([], 1)).toBeNull();
  });
  test("thins out many points and keeps the extremes", () => {
    const points = Array.from({ length: 5000 }, (_, i): Point => [i, i === 2345 ? 99 : Math.sin(i)]);
    const kept = thin(points, 600);
    expect(kept.length).toBeLessThanOrEqual(600);
    expect(kept).toContainEqual([2345, 99]);
    expect(kept.map(([x]) => x)).toEqual(kept.map(([x]) => x).sort((a, b) => a - b));
  });
  test("writes small and large numbers short", () => expect([0, 3.5e-6, 0.25, 1200].map(formatTick)).toEqual(["0", "3.5e-6", "0.25", "1,200"]));
});

describe("heads over time", () => {
  const head = (layer: number, number: number, alignment: number[], entropy: number[]) =>
    ({ name: `decoder.layers.${layer}.cross_attention`, kind: "cross", layer, head: number, entropy, sink_share: [0, 0], alignment, label: ["diffuse", alignment[1]! > 0.5 ? "alignment" : "mixed"], evidence: ["", "e"] }) as Evolution["heads"][number];
  const evolution: Evolution = {
    run: "run", folders: ["00000000", "00000500"], kept: 1, sentences: [["a", "b"]], units: "words",
    snapshots: [{ update: 0, which: "before the first update", is_average: false, best: false, loss: null, bleu: null, chrf: null }, { update: 500, which: "update 500", is_average: false, best: true, loss: 2, bleu: 20, chrf: 30 }],
    heads: [head(0, 0, [0.3, 0.1], [1, 0.5]), head(0, 1, [0.2, 0.9], [1, 0.1])],
  };
  test("the best aligned stands out, at each snapshot", () => expect([0, 1].map((at) => standout(evolution, "cross", at)!.head)).toEqual([0, 1]));
  test("have roles, letters and a mean", () => {
    expect(rolesAt(evolution, 1).get("decoder.layers.0.cross_attention.1")).toMatchObject({ label: "alignment", entropy: 0.1, evidence: "e" });
    expect(rolesOfRun(evolution.heads)).toEqual(["alignment", "mixed", "diffuse"]);
    expect(meanEntropy(evolution.heads, 1)).toBeCloseTo(0.3);
  });
  test("a snapshot that is gone is the newest", () => expect([null, "00000000", "00000123"].map((folder) => indexOf(evolution, folder))).toEqual([1, 0, 1]));
  test("a snapshot says what it is", () => {
    expect(describeSnapshot(evolution, 0)).toBe("update 0, before the first update");
    expect(describeSnapshot(evolution, 1)).toBe("update 500, kept: BLEU 20.0, loss 2.000");
  });
  test("the command draws what is shown", () => {
    expect(evolveCommand("my run", 2, { kind: "encoder", layer: 1, head: 0 })).toBe("dragoman evolve 'my run' --kind encoder --sentence 3 --layer 1 --head 0 --output evolution.png");
    expect(evolveCommand("run", 0, { kind: "cross", layer: 1, head: "mean" })).toBe("dragoman evolve run --output evolution.png");
  });
});

test("the state of Watch comes back from the address", () => {
  const state = { ...parseState(""), view: "watch" as const, run: "a b", at: "00000541-average", sentence: 3, choice: { kind: "decoder" as const, layer: 1, head: 2 }, cell: [1, 2] as [number, number] };
  expect(parseState(formatState(state))).toEqual(state);
  expect(parseState("view=watch&at=../x&sentence=-4")).toMatchObject({ at: null, sentence: 0 });
});
