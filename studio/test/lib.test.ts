import { describe, expect, it } from "vitest";
import { formatCommand, formatExplain, formatTriage, quote } from "../src/lib/command";
import { formatHeads, interventionsOf, parseHeads, toggleHead } from "../src/lib/heads";
import { decodeHalf, readSafetensors } from "../src/lib/safetensors";
import { formatState, parseState, pinOf } from "../src/lib/state";
import { WHOLE_LIST } from "../src/lib/triage";
import { fromBase64 } from "../src/lib/base64";
import { formatPercent, formatWeight, labelWidth, show } from "../src/lib/view";

describe("half precision", () => {
  it("is decoded exactly", () => {
    const words = new Uint16Array([0x0000, 0x8000, 0x3c00, 0xc000, 0x7bff, 0x0400, 0x0001, 0x3555, 0x7c00]);
    expect([...decodeHalf(words)]).toEqual([0, -0, 1, -2, 65504, 2 ** -14, 2 ** -24, Math.fround(0.333251953125), Infinity]);
  });

  it("of a file that is none is an error in words", () => {
    expect(() => readSafetensors(new ArrayBuffer(3))).toThrow(/too short/);
    expect(() => readSafetensors(new Uint8Array(16).fill(255).buffer)).toThrow(/not a trace/);
  });
});

describe("bytes in a page", () => {
  it("come back as they were", () => {
    const bytes = Uint8Array.from({ length: 256 }, (_, i) => i);
    expect([...new Uint8Array(fromBase64(Buffer.from(bytes).toString("base64")))]).toEqual([...bytes]);
  });
});

describe("the address", () => {
  it("keeps a pinned translation, without the map that was looked at", () => {
    const state = parseState("view=theatre&model=a&text=one+%26+two&target=eins%3D1&beam=3&prefix=4.5&off=x.1&kind=cross&layer=2&cell=1.2&pin=model%3Db");
    const pinned = parseState(pinOf(state));
    expect(pinned).toMatchObject({ model: "a", text: "one & two", target: "eins=1", beam: 3, prefix: [4, 5], off: [{ name: "x", head: 1 }], view: "see", choice: {}, cell: null, pin: "" });
    expect(pinned.choice).toEqual({});
    const kept = parseState(formatState({ ...parseState("model=c&text=three"), pin: pinOf(state) }));
    expect([kept.text, kept.pin]).toEqual(["three", pinOf(state)]);
    expect(pinOf({ ...state, view: "see", choice: {}, pin: "" })).toBe(pinOf(state));
    expect(formatState(parseState("model=c&text=three"))).not.toContain("pin");
  });

  it("keeps the whole state", () => {
    const fragment =
      "view=theatre&model=a+b&text=What%27s+%231+%26+%22new%22%3F&target=Was%3F&beam=3&prefix=12.7&off=decoder.layers.2.cross_attention.1%2Cencoder.layers.0.self_attention&uniform=x.0&kind=encoder&layer=1&head=mean&rows=read&measure=norm&words=1&hide-marks=1&cell=3.4&divisor=2.83&step=7";
    expect(formatState(parseState(fragment))).toBe(fragment);
  });

  it("keeps the two models of Compare, and whose translation they write", () => {
    const fragment = "view=compare&model=a&other=b+c&traced=other&text=Two&kind=cross&layer=1&head=0";
    expect(formatState(parseState(fragment))).toBe(fragment);
    expect(formatState(parseState("view=compare&model=a&traced=toString"))).not.toMatch(/other|traced/);
  });

  it("keeps the filter and the order of a triage, in its view alone", () => {
    const fragment = "view=triage&model=demo&find=a+%26+b&flag=numbers&least=0.5&sort=worst_nll&page=3";
    expect(parseState(fragment).list).toEqual({ find: "a & b", flag: "numbers", least: 0.5, sort: "worst_nll", page: 2 });
    expect(formatState(parseState(fragment)).replace("&text=", "")).toBe(fragment);
    expect(formatState({ ...parseState(fragment), view: "see" })).not.toContain("numbers");
    expect(parseState("view=triage&least=-1&page=0").list).toEqual(WHOLE_LIST);
    expect(formatTriage("demo")).toBe("dragoman triage --source FILE --html report.html");
    expect(formatTriage("my run")).toBe("dragoman triage --source FILE --model 'my run' --html report.html");
  });

  it("is read with care", () => {
    const state = parseState("#view=none&layer=-1&head=x&prefix=1.b&cell=1&beam=0&rows=toString&divisor=0&step=-1");
    expect(state).toMatchObject({ view: "see", choice: {}, prefix: [], cell: null, beam: null, target: null, divisor: null, step: null });
  });
});

describe("heads", () => {
  it("become interventions as on the command line", () => {
    const off = parseHeads("decoder.layers.2.cross_attention.1,decoder.layers.2.cross_attention.0,encoder.layers.0.self_attention");
    expect(interventionsOf(off, parseHeads("a.attention.3"))).toEqual([
      { do: "off", where: "decoder.layers.2.cross_attention", heads: [1, 0] },
      { do: "off", where: "encoder.layers.0.self_attention", heads: null },
      { do: "uniform", where: "a.attention", heads: [3] },
    ]);
  });

  it("are switched off and on", () => {
    const off = toggleHead([], "a", 3, 1);
    expect(off).toEqual([{ name: "a", head: 1 }]);
    const all = toggleHead(off, "a", 3, "mean");
    expect(formatHeads(all)).toBe("a.0,a.1,a.2");
    expect(toggleHead(all, "a", 3, "mean")).toEqual([]);
    expect(toggleHead(off, "a", 3, 1)).toEqual([]);
    expect(formatHeads(toggleHead(parseHeads("a,b.4"), "a", 3, 1))).toBe("a.0,a.2,b.4");
  });
});

describe("the command", () => {
  const inputs = { model: "demo", text: "It's -5 °C.", target: null, beam: null, prefix: "", off: [], uniform: [] };

  it("quotes for a shell", () => {
    expect(quote("run/")).toBe("run/");
    expect(quote("It's")).toBe(`'It'"'"'s'`);
    expect(quote("$(rm)")).toBe("'$(rm)'");
    expect(quote("")).toBe("''");
  });

  it("explains a cell", () => {
    const choice = { kind: "cross", layer: 2, head: 1 } as const;
    expect(formatExplain("run/", "A dog.", "Ein Hund.", choice, 3, 0)).toBe("dragoman explain --model run/ --target 'Ein Hund.' --kind cross --layer 2 --head 1 --row 3 --key 0 -- 'A dog.'");
    expect(formatExplain("demo", "Dogs", "Hunde", { ...choice, kind: "encoder", head: "mean" }, 0, 1)).toBe("dragoman explain --kind encoder --layer 2 --row 0 --key 1 -- Dogs");
  });

  it("names what differs from the default", () => {
    const choice = { kind: "encoder", layer: 1, head: "mean", rows: "read", measure: "norm", byWord: true, hideSinks: true } as const;
    expect(formatCommand(inputs, choice)).toBe(`dragoman inspect --kind encoder --layer 1 --head mean --measure norm --hide-sinks -- 'It'"'"'s -5 °C.'`);
    expect(formatCommand({ ...inputs, model: "run/", beam: 2, target: "Es" }, null)).toBe(`dragoman inspect --model run/ --target Es --heads -- 'It'"'"'s -5 °C.'`);
  });
});

describe("numbers and labels", () => {
  it("have the digits that hold", () => {
    expect([0.0994, 0.5, 9.994, 12.34].map(formatWeight)).toEqual(["0.099", "0.50", "9.99", "12.3"]);
    expect([0, Math.log(0.5731), Math.log(0.0001)].map(formatPercent)).toEqual(["100.0 %", "57.3 %", "< 0.1 %"]);
  });

  it("are as wide as their letters", () => {
    expect(labelWidth("読んで")).toBe(39);
    expect(labelWidth("read")).toBeCloseTo(28.8);
  });

  it("have no control characters", () => {
    expect(show("▁wo\u202ert")).toBe("wo·rt");
    expect(show("▁")).toBe("▁");
    expect(show("a\u200db")).toBe("a\u200db");
  });
});
