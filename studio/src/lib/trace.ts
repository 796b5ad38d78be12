// A trace: tokens, probabilities, attention maps and the search. Row i of a map is the step that wrote target token i.
import type { components } from "./api";
import { readSafetensors, type Tensor } from "./safetensors";

export type Tokens = components["schemas"]["Tokens"];
export type Intervention = components["schemas"]["TraceHeader"]["interventions"][number];
export type Kind = components["schemas"]["HeadSummary"]["kind"];
export type Rows = components["schemas"]["AlignmentHead"]["rows"];
export type Measure = components["schemas"]["AlignmentHead"]["measure"];
export type Head = number | "mean";
type Header = components["schemas"]["TraceHeader"];

export interface AttentionMap {
  name: string;
  kind: Kind;
  layer: number;
  heads: number;
  rows: number;
  keys: number;
  /** [heads, rows, keys] */
  weights: Float32Array;
  /** [heads, keys]: the norm of each key's transformed value; null if the trace has none. */
  keyNorms: Float32Array | null;
  /** Heads that an intervention switched off. */
  off: number[];
}
export interface Candidate {
  parent: number;
  token: number;
  /** The index in the new beam; null if the candidate ended or was dropped. */
  place: number | null;
  ended: boolean;
  total: number;
}
export interface Alternative {
  token: number;
  piece: string;
  logProbability: number;
}
export interface Trace extends Pick<Header, "source" | "target" | "model" | "cut" | "pieces"> {
  isFree: boolean;
  numForced: number;
  interventions: Intervention[];
  alignmentHeads: Header["alignment_heads"];
  maps: AttentionMap[];
  logProbabilities: Float32Array | Float64Array;
  alternatives: Alternative[][];
  history: Candidate[][];
}

export const KINDS: Kind[] = ["cross", "encoder", "decoder"];
const SCHEMAS = ["1", "2", "3"];

export function kindOf(name: string): Kind {
  if (name.startsWith("encoder.")) return "encoder";
  return name.endsWith("self_attention") ? "decoder" : "cross";
}

export function openTrace(buffer: ArrayBuffer): Trace {
  const { metadata, tensors } = readSafetensors(buffer);
  if (!metadata["trace"] || !metadata["schema"]) throw new Error("this file is not a trace: dragoman inspect --save writes one");
  if (!SCHEMAS.includes(metadata["schema"])) throw new Error(`this page cannot read schema ${metadata["schema"]} of traces`);
  const header = JSON.parse(metadata["trace"]) as Header;
  const tensor = (name: string): Tensor => {
    const found = tensors.get(name);
    if (!found) throw new Error(`the trace has no ${name}`);
    return found;
  };
  const interventions = header.interventions ?? [];
  const layers: Record<Kind, number> = { encoder: 0, decoder: 0, cross: 0 };
  const maps = header.maps.map((name): AttentionMap => {
    const stored = tensor(`attention.${name}`);
    const kind = kindOf(name);
    const [heads, rows, keys] = stored.shape as [number, number, number];
    const sums = tensors.get(`sums.${name}`);
    const weights = sums ? unpackWeights(stored.data as Uint8Array, sums.data as Float32Array, keys) : (stored.data as Float32Array);
    const off = interventions.length ? range(heads).filter((head) => isZero(weights, head * rows * keys, rows * keys)) : [];
    const keyNorms = (tensors.get(`norms.${name}`)?.data as Float32Array | undefined) ?? null;
    return { name, kind, layer: layers[kind]++, heads, rows, keys, weights, keyNorms, off };
  });
  const ids = tensor("alternatives.ids");
  const scores = tensor("alternatives.log_probabilities");
  const width = ids.shape[1] ?? 0;
  const alternatives = header.target.ids.map((_, i) =>
    range(width).map((j): Alternative => {
      const token = ids.data[i * width + j]!;
      return { token, piece: header.pieces[token] ?? "?", logProbability: scores.data[i * width + j]! };
    }),
  );
  return {
    source: header.source,
    target: header.target,
    model: header.model,
    cut: header.cut,
    pieces: header.pieces,
    isFree: header.target_is === "free",
    numForced: header.num_forced ?? 0,
    interventions,
    alignmentHeads: header.alignment_heads ?? [],
    maps,
    logProbabilities: tensor("log_probabilities").data as Float32Array,
    alternatives,
    history: readHistory(tensors),
  };
}

export function range(size: number): number[] {
  return Array.from({ length: size }, (_, i) => i);
}

export function mapsOf(trace: Trace, kind: Kind): AttentionMap[] {
  return trace.maps.filter((map) => map.kind === kind);
}

export function sum(numbers: Iterable<number>): number {
  let total = 0;
  for (const number of numbers) total += number;
  return total;
}

/** Return the weights of a map that is stored with one byte per weight. */
function unpackWeights(stored: Uint8Array, sums: Float32Array, keys: number): Float32Array {
  const weights = new Float32Array(stored.length);
  for (let row = 0; row < sums.length; row++) {
    const total = sum(stored.subarray(row * keys, (row + 1) * keys));
    for (let i = row * keys; total && i < (row + 1) * keys; i++) weights[i] = (stored[i]! / total) * sums[row]!;
  }
  return weights;
}

function isZero(numbers: Float32Array, start: number, size: number): boolean {
  for (let i = start; i < start + size; i++) if (numbers[i] !== 0) return false;
  return true;
}

function readHistory(tensors: Map<string, Tensor>): Candidate[][] {
  const rows = tensors.get("history");
  const totals = tensors.get("history.log_probabilities");
  const steps: Candidate[][] = [];
  if (!rows || !totals) return steps;
  for (let i = 0; i < totals.data.length; i++) {
    const [step, parent, token, place, ended] = Array.from(rows.data.subarray(5 * i, 5 * i + 5)) as [number, number, number, number, number];
    while (steps.length <= step) steps.push([]);
    steps[step]!.push({ parent, token, place: place < 0 ? null : place, ended: !!ended, total: totals.data[i]! });
  }
  return steps;
}
