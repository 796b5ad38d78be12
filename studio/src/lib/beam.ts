// The beam search as a tree: the candidates of each step, and which of them lead to the chosen target.
import type { Candidate, Trace } from "./trace";

export interface BeamNode extends Candidate {
  step: number;
  /** The row in its column: kept candidates by their place in the beam, then ended ones, then dropped ones. */
  row: number;
  /** The row of the extended candidate in the column before; -1 at the beginning. */
  parentRow: number;
  state: "kept" | "ended" | "dropped";
  /** True if the candidate is a beginning of the target. */
  isChosen: boolean;
}

/** Return the nodes of each step, in the order of their rows. */
export function layBeam(trace: Trace): BeamNode[][] {
  const target = trace.target.ids;
  let chosen: number | null = 0;
  return trace.history.map((candidates, step) => {
    const kept = candidates.filter((candidate) => candidate.place !== null).sort((a, b) => a.place! - b.place!);
    const ended = candidates.filter((candidate) => candidate.ended);
    const dropped = candidates.filter((candidate) => candidate.place === null && !candidate.ended);
    let next: number | null = null;
    const nodes = [...kept, ...ended, ...dropped].map((candidate, row): BeamNode => {
      const state = candidate.ended ? "ended" : candidate.place === null ? "dropped" : "kept";
      const isChosen: boolean = trace.isFree && state !== "dropped" && candidate.parent === chosen && candidate.token === target[step];
      if (isChosen) next = candidate.place;
      return { ...candidate, step, row, parentRow: step ? candidate.parent : -1, state, isChosen };
    });
    chosen = next;
    return nodes;
  });
}

/** Return the tokens from the beginning of the target up to and including a candidate. */
export function tokensTo(history: Candidate[][], step: number, candidate: Candidate): number[] {
  const tokens = [candidate.token];
  let place = candidate.parent;
  for (let before = step - 1; before >= 0; before--) {
    const parent = history[before]!.find((other) => other.place === place);
    if (!parent) throw new Error(`the search has no candidate at place ${place} of step ${before}`);
    tokens.unshift(parent.token);
    place = parent.parent;
  }
  return tokens;
}
