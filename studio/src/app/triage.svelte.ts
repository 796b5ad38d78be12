// The triage of a text: it outlives its view, so that Back returns to the list.
import { splitLines, type TriageReport } from "../lib/triage";
import { postTriage } from "./client";

export const MAX_LINES = 2000;

export class TriageSession {
  text = $state("");
  report = $state.raw<TriageReport | null>(null);
  /** Lines done, and all lines; null if nothing is under way. */
  progress = $state.raw<{ done: number; total: number } | null>(null);
  error = $state("");
  /** The line that was opened last. */
  line = $state<number | null>(null);
  #running = new AbortController();

  async run(model: string): Promise<void> {
    this.cancel();
    const sources = splitLines(this.text);
    this.error = "";
    if (!this.text.trim()) return;
    if (sources.length > MAX_LINES) {
      this.error = `${sources.length.toLocaleString("en")} lines are too many for a page: give at most ${MAX_LINES.toLocaleString("en")}, or use the command below`;
      return;
    }
    this.clear();
    const { signal } = (this.#running = new AbortController());
    this.progress = { done: 0, total: sources.length };
    try {
      this.report = await postTriage({ model, sources }, signal, (progress) => (this.progress = progress));
    } catch (reason) {
      if (!signal.aborted) this.error = reason instanceof Error ? reason.message : String(reason);
    }
    if (!signal.aborted) this.progress = null;
  }

  /** Stop, and forget the ranking. */
  clear(): void {
    this.cancel();
    this.report = this.line = null;
  }

  cancel(): void {
    this.#running.abort();
    this.progress = null;
  }
}
