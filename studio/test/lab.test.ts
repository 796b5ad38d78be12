// The lab's list, its numbers and its axes, and the addresses of Lab and Lesson.
import { describe, expect, test } from "vitest";
import { axisOf, formatNumber, formatX, placeOn, selectExperiments, thinMarks, verdictOf, WHOLE_LAB, type LabChoice, type LabExperiment } from "../src/lib/lab";
import { describeLink } from "../src/lib/lesson";
import { formatState, parseState } from "../src/lib/state";

const text = (text: string) => [{ text, style: "plain" as const, link: null }];
const made = (name: string, claim: string, verdict: LabExperiment["verdict"]) => ({ name, claim: text(claim), source: text("Cho"), lesson: text(""), verdict }) as LabExperiment;
const ALL = [made("fixed-vector", "One vector is a bottleneck", "holds"), made("salience", "Attention shows words", "depends"), made("long-distance", "Networks forget", null)];
const names = (choice: Partial<LabChoice>) => selectExperiments(ALL, { ...WHOLE_LAB, ...choice }).map(({ name }) => name);

describe("the list", () => {
  test("is filtered by its texts and by verdict", () => {
    expect(names({})).toEqual(["fixed-vector", "salience", "long-distance"]);
    expect(names({ find: " VECTOR " })).toEqual(["fixed-vector"]);
    expect(names({ find: "cho" })).toEqual(["fixed-vector", "salience", "long-distance"]);
    expect(names({ verdict: "depends" })).toEqual(["salience"]);
    expect(names({ verdict: "not run" })).toEqual(["long-distance"]);
    expect(names({ verdict: "holds", find: "words" })).toEqual([]);
  });
  test("has one seed's result, which decides nothing, among those not run", () => {
    expect(verdictOf(made("a", "", "undecided"))).toBe("not run");
  });
});

describe("a number", () => {
  // What Python's f"{value:.3g}" prints.
  const printed: [number, string][] = [[0, "0"], [-0, "-0"], [1, "1"], [0.9996, "1"], [0.5, "0.5"], [12.34, "12.3"], [12.35, "12.3"], [0.125, "0.125"], [1.125, "1.12"], [1.375, "1.38"], [99.95, "100"], [999.4, "999"], [999.6, "1e+03"], [1024, "1.02e+03"], [123456, "1.23e+05"], [0.00012345, "0.000123"], [0.000099996, "0.0001"], [0.00001234, "1.23e-05"], [1.2e-7, "1.2e-07"], [-0.0777, "-0.0777"], [-13, "-13"], [1e-100, "1e-100"]];
  test.each(printed)("%d is %s, as in the lab's page", (value, text) => expect(formatNumber(value)).toBe(text));
  test("of an x axis keeps all digits if it is whole", () => {
    expect([1024, 2.449489742783178, 1e-7].map(formatX)).toEqual(["1,024", "2.45", "1e-07"]);
  });
});

describe("a number line", () => {
  test("holds the interval and the bound, in their order", () => {
    const { low, mean, high, bound } = placeOn({ low: 1, mean: 2, high: 3 }, 10);
    expect([0 < low, low < mean, mean < high, high < bound, bound < 1]).toEqual([true, true, true, true, true]);
    expect((mean - low) / (bound - low)).toBeCloseTo(1 / 9);
  });
  test("of one value that is the bound is in the middle", () => {
    expect(placeOn({ low: 0, mean: 0, high: 0 }, 0).mean).toBeGreaterThan(0);
    expect(Object.values(placeOn({ low: 3, mean: 3, high: 3 }, 3)).every(Number.isFinite)).toBe(true);
  });
});

describe("an axis", () => {
  test("has round numbers around its values, or powers of ten", () => {
    expect(axisOf([0.03, 0.97], false).marks.map(([value]) => value)).toEqual([0, 0.25, 0.5, 0.75, 1]);
    expect(axisOf([1e-4, 2], true).marks.map(([, label]) => label)).toEqual(["0.0001", "0.001", "0.01", "0.1", "1"]);
    expect(axisOf([2, 5], true).marks.length).toBeGreaterThan(1);
  });
  test("of measured places begins and ends with them", () => {
    const { place, marks } = axisOf([4, 16, 64], true, true);
    expect([4, 64].map(place)).toEqual([0, 1]);
    expect(place(16)).toBeCloseTo(0.5);
    expect(marks.map(([, label]) => label)).toEqual(["4", "16", "64"]);
    const linear = axisOf([1, 2, 12], false, true);
    expect([1, 12].map(linear.place)).toEqual([0, 1]);
    expect(linear.marks.every(([value]) => Number.isInteger(value) && value >= 1 && value <= 12)).toBe(true);
  });
  test("of a constant has a place for it", () => {
    for (const isLog of [false, true]) for (const own of [false, true]) expect(Number.isFinite(axisOf([3, 3], isLog, own).place(3))).toBe(true);
  });
  test("leaves out labels that would touch", () => {
    const axis = axisOf([1, 2, 3, 4, 1000], true, true);
    expect(thinMarks(axis, 2000)).toHaveLength(5);
    expect(thinMarks(axis, 100).map(([, label]) => label)).toEqual(["1", "3", "1,000"]);
  });
});

describe("an address", () => {
  test("keeps what Lab and Lesson show, and the filter of the triage apart from that of the lab", () => {
    for (const fragment of ["view=lab&experiment=square-root&find=root&verdict=fails+as+told&guess=1", "view=lesson&chapter=12", "view=triage&find=dog"]) {
      const state = parseState(fragment);
      expect(new URLSearchParams(formatState(state)).toString()).toBe(new URLSearchParams(formatState(parseState(formatState(state)))).toString());
      expect([...new URLSearchParams(formatState(state))].filter(([, value]) => value)).toEqual([...new URLSearchParams(fragment)]);
    }
    expect(parseState("view=lab&find=root").list.find).toBe("");
    expect(parseState("view=triage&find=root").lab.find).toBe("");
  });
  test("with what is none of ours shows the list", () => {
    expect(parseState("view=lab&experiment=../x&verdict=maybe").lab).toEqual(WHOLE_LAB);
    expect(parseState("view=lesson&chapter=x").chapter).toBe(0);
  });
  test("of a link says where it leads", () => {
    expect(describeLink("view=see&kind=encoder&text=The+dog.")).toEqual({ view: "see", about: "The dog." });
    expect(describeLink("view=lab&experiment=salience")).toEqual({ view: "lab", about: "salience" });
    expect(describeLink("view=lesson&chapter=3")).toEqual({ view: "lesson", about: "chapter 3" });
  });
});
