// Work of the studio that takes a while: one job at a time, with progress, that can be cancelled.
export interface Progress {
  done: number;
  total: number;
}

export class JobSession {
  /** What is done, and all of it; null if nothing is under way. */
  progress = $state.raw<Progress | null>(null);
  error = $state("");
  #running = new AbortController();

  /** Return the result of the work, or null if it was cancelled or failed. */
  protected async start<T>(total: number, work: (signal: AbortSignal, onprogress: (progress: Progress) => void) => Promise<T>): Promise<T | null> {
    const { signal } = (this.#running = new AbortController());
    this.progress = { done: 0, total };
    let result: T | null = null;
    try {
      result = await work(signal, (progress) => (this.progress = progress));
    } catch (reason) {
      if (!signal.aborted) this.error = reason instanceof Error ? reason.message : String(reason);
    }
    if (!signal.aborted) this.progress = null;
    return result;
  }

  cancel(): void {
    this.#running.abort();
    this.progress = null;
  }

  /** Return the text of the file that was chosen, or null if there is none; `holds` says what a line is. */
  async readFile(input: HTMLInputElement, holds: string): Promise<{ name: string; text: string } | null> {
    const file = input.files?.[0];
    if (!file) return null;
    try {
      const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
      this.error = "";
      return { name: file.name, text };
    } catch {
      this.error = `${file.name} is not a text in UTF-8: choose a text file with one ${holds} per line`;
      return null;
    } finally {
      input.value = ""; // the same file can be chosen again
    }
  }
}
