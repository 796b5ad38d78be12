// The search for the head that aligns: it outlives its view, so that Back returns to the grid.
import type { HeadSearchReport } from "../lib/align";
import { splitLines } from "../lib/triage";
import { postHeadSearch } from "./client";
import { JobSession } from "./job.svelte";

export const MAX_PAIRS = 1000;
export const SIDES = ["source", "target", "gold"] as const;
export type Side = (typeof SIDES)[number];

export class AlignSession extends JobSession {
  texts = $state<Record<Side, string>>({ source: "", target: "", gold: "" });
  /** The files that the texts were read from. */
  files = $state<Record<Side, string>>({ source: "", target: "", gold: "" });
  isSwapped = $state(false);
  report = $state.raw<HeadSearchReport | null>(null);
  /** The lines that the report is of. */
  lines = $state.raw<Record<Side, string[]> & { isSwapped: boolean }>({ source: [], target: [], gold: [], isSwapped: false });
  /** The page of the list of pairs, counted from 0. */
  page = $state(0);

  async run(model: string): Promise<void> {
    this.clear();
    this.error = "";
    const source = splitLines(this.texts.source);
    // A text that ends with blank lines may have fewer of them: those have no words to link.
    const filled = (side: Side) => { const lines = splitLines(this.texts[side]); return [...lines, ...Array<string>(Math.max(0, source.length - lines.length)).fill("")]; };
    const lines = { source, target: filled("target"), gold: filled("gold"), isSwapped: this.isSwapped };
    if (source.length > MAX_PAIRS) {
      this.error = `${source.length.toLocaleString("en")} pairs are too many for a page: give at most ${MAX_PAIRS.toLocaleString("en")}, or use the command below`;
      return;
    }
    const request = { model, sources: lines.source, targets: lines.target, gold: lines.gold, swap_gold: lines.isSwapped };
    const report = await this.start(source.length, (signal, onprogress) => postHeadSearch(request, signal, onprogress));
    if (report) Object.assign(this, { lines, report });
  }

  /** Stop, and forget the ranking. */
  clear(): void {
    this.cancel();
    this.report = null;
    this.page = 0;
  }
}
