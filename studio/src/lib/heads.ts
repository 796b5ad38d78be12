// Lists of heads to change, as the command line writes them: decoder.layers.2.cross_attention.1,encoder.layers.0.self_attention
import { range, type Head, type Intervention } from "./trace";

export interface HeadName {
  name: string;
  /** null: all heads. */
  head: number | null;
}

export function parseHeads(text: string): HeadName[] {
  return text.split(",").filter(Boolean).map((part) => {
    const match = /^(.*)\.(\d+)$/.exec(part);
    return match ? { name: match[1]!, head: Number(match[2]) } : { name: part, head: null };
  });
}

export function formatHeads(heads: HeadName[]): string {
  return heads.map(({ name, head }) => (head === null ? name : `${name}.${head}`)).join(",");
}

/** Return the list with all heads of an attention named one by one. */
export function expandHeads(list: HeadName[], name: string, count: number): HeadName[] {
  return list.flatMap((item) => (item.name === name && item.head === null ? range(count).map((head) => ({ name, head })) : [item]));
}

/** Return the list with a head added, or removed if it is in the list; `mean` stands for all `count` heads. */
export function toggleHead(list: HeadName[], name: string, count: number, head: Head): HeadName[] {
  const expanded = expandHeads(list, name, count);
  const numbers = head === "mean" ? range(count) : [head];
  const isOne = (item: HeadName) => item.name === name && numbers.includes(item.head!);
  const rest = expanded.filter((item) => !isOne(item));
  return expanded.length - rest.length === numbers.length ? rest : [...rest, ...numbers.map((number) => ({ name, head: number }))];
}

/** Return the interventions for lists of heads to switch off and to make uniform, as the command line makes them. */
export function interventionsOf(off: HeadName[], uniform: HeadName[]): Intervention[] {
  return [...merge(off).map((target): Intervention => ({ do: "off", ...target })), ...merge(uniform).map((target): Intervention => ({ do: "uniform", ...target }))];
}

function merge(list: HeadName[]): { where: string; heads: number[] | null }[] {
  const places = new Map<string, number[] | null>();
  for (const { name, head } of list) {
    const before = places.get(name);
    places.set(name, head === null || before === null ? null : [...(before ?? []), head]);
  }
  return [...places].map(([where, heads]) => ({ where, heads }));
}
