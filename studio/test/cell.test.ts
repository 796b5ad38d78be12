// The numbers of the Cell screen are Python's: cells.json has the steps, expected.json the weights under other divisors.
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { chainOf, divisorAt, entropyOf, formatDivisor, PLACES, placeOf, scoreStep, weightsAt, type CellExplanation } from "../src/lib/cell";
import { parseFormula, parseProse, type Part } from "../src/lib/formula";

interface Expected {
  divisors: { divisor: number; entropy: number; weights: number[] }[];
  score_quotient_weight: Record<string, [string, string, string]>;
}
const read = (path: string): unknown => JSON.parse(readFileSync(new URL(path, import.meta.url), "utf8"));
const cells = read("../../tests/golden/cells.json") as Record<string, CellExplanation>;
const expected = (read("expected.json") as { cells: Record<string, Expected> }).cells;

describe.each(Object.keys(cells))("%s", (name) => {
  const cell = cells[name]!;

  it("has the model's weights at the model's divisor", () => {
    const weights = weightsAt(cell, cell.divisor);
    cell.keys.forEach(({ weight }, j) => expect(Math.abs(weights[j]! - weight), `key ${j}`).toBeLessThan(1e-6));
    expect(divisorAt(cell, 0)).toBe(cell.divisor);
  });

  it.each(expected[name]!.divisors)("has Python's weights and entropy for $divisor", ({ divisor, entropy, weights }) => {
    const found = weightsAt(cell, divisor);
    weights.forEach((weight, j) => expect(found[j], `key ${j}`).toBeCloseTo(weight, 8));
    expect(entropyOf(cell, found)).toBeCloseTo(entropy, 6);
  });

  it("shows Python's score, quotient and weight of every key in the chain", () => {
    const first = scoreStep(cell);
    cell.keys.forEach(({ label, mark }, key) => {
      const chain = chainOf(cell, key);
      expect(chain.map(({ short }) => short)).toEqual(cell.steps.map(({ short }) => short));
      const at = (short: string) => chain.find((link) => link.short === short)?.numbers[0];
      const [score, quotient, weight] = expected[name]!.score_quotient_weight[label]!;
      expect(chain[first]!.numbers).toEqual([score]);
      if (cell.divisor !== 1) expect(Number(at("/ √d_k"))).toBeCloseTo(Number(quotient), 3); // of the rounded score
      expect(at("softmax")).toBe(weight);
      if (mark === "hidden") expect(at("mask")).toBe("-∞");
    });
  });

  it("has a slider with the model's divisor in its middle", () => {
    const places = Array.from({ length: 2 * PLACES + 1 }, (_, i) => i - PLACES);
    const divisors = places.map((place) => divisorAt(cell, place));
    expect(divisors).toEqual([...divisors].sort((a, b) => a - b));
    expect(divisors.map((divisor) => placeOf(cell, divisor))).toEqual(places);
    expect(placeOf(cell, 1e6)).toBe(PLACES);
    expect(placeOf(cell, 1e-6)).toBe(-PLACES);
  });
});

describe("weights", () => {
  const cell = cells["v1"]!;
  it("are zero where the mask hides", () => {
    expect(cell.keys.some(({ mark }) => mark === "hidden")).toBe(true);
    const weights = weightsAt(cell, 0.001);
    expect(weights.filter((_, j) => cell.keys[j]!.mark === "hidden").every((weight) => weight === 0)).toBe(true);
    expect(weights.reduce((a, b) => a + b)).toBeCloseTo(1, 12);
  });

  it("are none if all is hidden, and are weighed by a bell where there is one", () => {
    const hidden = { ...cell, keys: cell.keys.map((key) => ({ ...key, mark: "hidden" as const })) };
    expect(weightsAt(hidden, 1).every((weight) => weight === 0)).toBe(true);
    const near = { ...cell, keys: cell.keys.map((key) => ({ ...key, factor: 0.5 })) };
    expect(weightsAt(near, 1).reduce((a, b) => a + b)).toBeCloseTo(0.5, 12);
  });

  it("have divisors without useless digits", () => {
    expect([8, Math.sqrt(8), 0.0123, 64].map(formatDivisor)).toEqual(["8", "2.828", "0.0123", "64"]);
  });
});

describe("formulas", () => {
  const html = (parts: Part[]): string => parts.map((part) => (typeof part === "string" ? part : `<${part.tag}>${html(part.parts)}</${part.tag}>`)).join("");
  it.each([
    ["W^Q", "<i>W</i><sup><i>Q</i></sup>"],
    ["√d_k", "√<i>d</i><sub><i>k</i></sub>"],
    ["d_model", "<i>d</i><sub>model</sub>"],
    ["10000^{2i/d_model}", "10000<sup>2<i>i</i>/<i>d</i><sub>model</sub></sup>"],
    ["s_{i-1}", "<i>s</i><sub><i>i</i>−1</sub>"],
    ["exp(s_j) < 1", "exp(<i>s</i><sub><i>j</i></sub>) < 1"],
  ])("%s has high and low letters", (text, expected) => {
    expect(html(parseFormula(text))).toBe(expected);
  });

  it("are not seen in a user's words", () => {
    expect(parseProse("snake_case x^2 <b>")).toEqual(["snake_case x^2 <b>"]);
    expect(html(parseProse("columns of W^Q: -0.5"))).toBe("columns of <i>W</i><sup><i>Q</i></sup>: −0.5");
  });
});
