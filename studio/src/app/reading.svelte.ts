// The experiments and the chapters: loaded when a screen first needs them, and kept with what the reader chose.
import type { LabExperiment, Verdict } from "../lib/lab";
import type { Chapter } from "../lib/lesson";
import { getCourse, getLab } from "./client";

export class ReadingSession {
  experiments = $state.raw<LabExperiment[] | null>(null);
  chapters = $state.raw<Chapter[] | null>(null);
  error = $state("");
  /** The guessed verdicts, by experiment. */
  guesses = $state<Record<string, Verdict>>({});
  /** The choices that were pressed, by chapter and question, in their order. */
  answers = $state<Record<string, number[]>>({});
  /** Where a page was left, by its address. */
  places = new Map<string, number>();

  async load(): Promise<void> {
    try {
      this.experiments ??= await getLab();
      this.chapters ??= await getCourse();
      this.error = "";
    } catch (reason) {
      this.error = reason instanceof Error ? reason.message : String(reason);
    }
  }
}
