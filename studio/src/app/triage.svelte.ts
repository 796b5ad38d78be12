// The triage of a text: it outlives its view, so that Back returns to the list.
import { splitLines, type TriageReport } from "../lib/triage";
import { postTriage } from "./client";
import { JobSession } from "./job.svelte";

export const MAX_LINES = 2000;

export class TriageSession extends JobSession {
  text = $state("");
  report = $state.raw<TriageReport | null>(null);
  /** The line that was opened last. */
  line = $state<number | null>(null);

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
    const report = await this.start(sources.length, (signal, onprogress) => postTriage({ model, sources }, signal, onprogress));
    if (report) this.report = report;
  }

  /** Stop, and forget the ranking. */
  clear(): void {
    this.cancel();
    this.report = this.line = null;
  }
}
