// How attention developed in a run: the snapshots of the probe, and each head at each of them.
import type { components } from "./api";
import { quote } from "./command";
import { rolesOf, type HeadRoles } from "./roles";
import type { Kind } from "./trace";
import type { Choice } from "./view";

export type Evolution = components["schemas"]["EvolutionInfo"];
export type HeadHistory = components["schemas"]["HeadHistory"];
export type Snapshot = components["schemas"]["ProbeSnapshot"];
export type Role = HeadHistory["label"][number];

/** The letter of each role; the colours are those of `dragoman evolve --output`, and differ in lightness too. */
export const ROLE_LETTERS: Partial<Record<Role, string>> = { alignment: "A", "previous token": "P", "next token": "N", "same word": "W", sink: "S", mixed: "M", diffuse: "D" };

export const kindsOf = (evolution: Evolution): Kind[] => [...new Set(evolution.heads.map(({ kind }) => kind))];
export const headsOf = (evolution: Evolution, kind: Kind): HeadHistory[] => evolution.heads.filter((head) => head.kind === kind);
export const nameOf = ({ layer, head }: HeadHistory): string => `L${layer}H${head}`;

/** Return the index of the snapshot in a folder; if it is not there, or null, the newest. */
export function indexOf(evolution: Evolution, folder: string | null): number {
  const index = folder === null ? -1 : evolution.folders.indexOf(folder);
  return index < 0 ? evolution.folders.length - 1 : index;
}

/** Return the head to look at first: the best aligned of cross-attention, the sharpest of self-attention. */
export function standout(evolution: Evolution, kind: Kind, at: number): HeadHistory | null {
  const value = (head: HeadHistory) => (kind === "cross" ? (head.alignment[at] ?? 0) : -(head.entropy[at] ?? 0));
  return headsOf(evolution, kind).reduce<HeadHistory | null>((best, head) => (best === null || value(head) > value(best) ? head : best), null);
}

export function rolesAt(evolution: Evolution, at: number): HeadRoles {
  return rolesOf(evolution.heads.map((head) => ({ name: head.name, head: head.head, label: head.label[at]!, evidence: head.evidence[at]!, entropy: head.entropy[at]!, sink_share: head.sink_share[at]! })));
}

/** Return the roles that a head has at any snapshot, in the order of the letters. */
export function rolesOfRun(heads: HeadHistory[]): Role[] {
  return (Object.keys(ROLE_LETTERS) as Role[]).filter((role) => heads.some(({ label }) => label.includes(role)));
}

export function meanEntropy(heads: HeadHistory[], at: number): number | null {
  const known = heads.flatMap(({ entropy }) => entropy[at] ?? []);
  return known.length ? known.reduce((a, b) => a + b, 0) / known.length : null;
}

export function snapshotName({ which, update }: Snapshot): string {
  return which.startsWith("update") ? which : `update ${update.toLocaleString("en")}, ${which}`;
}

export function describeSnapshot(evolution: Evolution, at: number): string {
  const snapshot = evolution.snapshots[at]!;
  const scores = [snapshot.bleu == null ? "" : `BLEU ${snapshot.bleu.toFixed(1)}`, snapshot.loss == null ? "" : `loss ${snapshot.loss.toFixed(3)}`].filter(Boolean).join(", ");
  return `${snapshotName(snapshot)}${at === evolution.kept ? ", kept" : ""}${scores ? `: ${scores}` : ""}`;
}

/** Return the `dragoman evolve` command that draws a head, or all heads of a kind, over time. */
export function evolveCommand(run: string, sentence: number, { kind, layer, head }: Pick<Choice, "kind" | "layer" | "head">): string {
  const words = ["dragoman evolve", quote(run)];
  if (kind !== "cross") words.push("--kind", kind);
  if (sentence) words.push("--sentence", String(sentence + 1));
  if (head !== "mean") words.push("--layer", String(layer), "--head", String(head));
  return [...words, "--output", "evolution.png"].join(" ");
}
