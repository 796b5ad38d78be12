// The parts that every page uses: components, the reader of trace files, and a viewer that needs no server.
import { mount, unmount } from "svelte";
import "./parts.css";
import { openTrace } from "./lib/trace";
import Viewer from "./parts/Viewer.svelte";

export { default as Beam } from "./parts/Beam.svelte";
export { default as HeadCards } from "./parts/HeadCards.svelte";
export { default as Ribbons } from "./parts/Ribbons.svelte";
export { default as See } from "./parts/See.svelte";
export { default as Trust } from "./parts/Trust.svelte";
export { Selection } from "./lib/selection.svelte";
export { openTrace } from "./lib/trace";

/** Show a trace file in an element; return a function that removes it. */
export function showTrace(target: HTMLElement, file: ArrayBuffer): () => void {
  const viewer = mount(Viewer, { target, props: { trace: openTrace(file) } });
  return () => void unmount(viewer);
}
