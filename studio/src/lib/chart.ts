// Line charts: round numbers for the axes, and the points of a curve at a place.

export type Point = [x: number, y: number];
export interface Series {
  name: string;
  points: Point[];
  look: "first" | "second" | "chosen" | "faint";
}

/** Return about `count` round numbers that cover a range. */
export function ticks(low: number, high: number, count = 4): number[] {
  const span = high - low || Math.abs(high) || 1;
  const rough = span / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 2.5, 5].find((factor) => factor * power >= rough * 0.999) ?? 10);
  const first = Math.floor(low / step + 1e-9);
  const last = Math.max(first + 1, Math.ceil(high / step - 1e-9));
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

/** Return the last point at or before `x`, or the first if there is none. */
export function pointAt(points: Point[], x: number): Point | null {
  let low = 0;
  let high = points.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points[middle]![0] <= x) low = middle + 1;
    else high = middle;
  }
  return points[Math.max(0, low - 1)] ?? null;
}

/** Return a number for an axis: 1,200, 0.25, 3.5e-6. */
export function formatTick(value: number): string {
  const size = Math.abs(value);
  if (size && (size < 1e-3 || size >= 1e7)) return value.toExponential(1).replace(".0e", "e").replace("e+", "e");
  return value.toLocaleString("en", { maximumFractionDigits: size < 0.1 ? 4 : size < 10 ? 3 : size < 100 ? 1 : 0 });
}

/** Return at most `most` points: of each stretch, its least and its greatest value. */
export function thin(points: Point[], most = 600): Point[] {
  if (points.length <= most) return points;
  const size = Math.ceil(points.length / (most / 2));
  const kept: Point[] = [];
  for (let start = 0; start < points.length; start += size) {
    const part = points.slice(start, start + size);
    const least = part.reduce((a, b) => (b[1] < a[1] ? b : a));
    const greatest = part.reduce((a, b) => (b[1] > a[1] ? b : a));
    kept.push(...(least[0] < greatest[0] ? [least, greatest] : least === greatest ? [least] : [greatest, least]));
  }
  return kept;
}
