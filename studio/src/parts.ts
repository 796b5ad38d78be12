// The parts that every page uses: components, the reader of trace files, and a viewer that needs no server.
import { mount, unmount } from "svelte";
import "./parts.css";
import { fromBase64 } from "./lib/base64";
import { rolesOf, type HeadSummary } from "./lib/roles";
import { openTrace } from "./lib/trace";
import type { Choice } from "./lib/view";
import Viewer from "./parts/Viewer.svelte";

export { default as HeadCards } from "./parts/HeadCards.svelte";
export { default as Ribbons } from "./parts/Ribbons.svelte";
export { default as See } from "./parts/See.svelte";
export { default as Tabs } from "./parts/Tabs.svelte";
export { default as Theatre } from "./parts/Theatre.svelte";
export { default as Trust } from "./parts/Trust.svelte";
export { Selection } from "./lib/selection.svelte";
export { openTrace } from "./lib/trace";

/** What to show beside a trace: which map first, the roles of its heads, and notes. */
export interface ViewerOptions {
  choice?: Partial<Choice>;
  roles?: HeadSummary[];
  notes?: Record<string, string>;
}

/** Show a trace file in an element; return a function that removes it. */
export function showTrace(target: HTMLElement, file: ArrayBuffer, { choice = {}, roles, notes = {} }: ViewerOptions = {}): () => void {
  const props = { trace: openTrace(file), choice, roles: roles ? rolesOf(roles) : null, notes };
  const viewer = mount(Viewer, { target, props });
  return () => void unmount(viewer);
}

// A self-contained page, which dragoman/inspection/trace_page.py writes, has this module and its trace inside.
const embedded = document.getElementById("dragoman-trace");
if (embedded) {
  const { trace, ...options } = JSON.parse(embedded.textContent) as ViewerOptions & { trace: string };
  showTrace(document.querySelector("main")!, fromBase64(trace), options);
}
