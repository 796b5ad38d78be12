// The keys that change the chosen map; every page with a map has them.
import type { Selection } from "./selection.svelte";

/** Change the selection as a key says; return false if the key has no meaning here. */
export function selectByKey(selection: Selection, key: string): boolean {
  const { row, column } = selection;
  switch (key) {
    case "[": selection.moveLayer(-1); break;
    case "]": selection.moveLayer(1); break;
    case ",": selection.moveHead(-1); break;
    case ".": selection.moveHead(1); break;
    case "ArrowUp": selection.fix(row - 1, column); break;
    case "ArrowDown": selection.fix(row + 1, column); break;
    case "ArrowLeft": selection.fix(row, column - 1); break;
    case "ArrowRight": selection.fix(row, column + 1); break;
    case "Escape": selection.isFixed = false; break;
    case "r": selection.toggleRows(); break;
    case "m": selection.toggleMeasure(); break;
    default: return false;
  }
  return true;
}

/** Give the focus to an element that is no stop of the Tab key, such as a heading of what was opened. */
export function focusOn(element: HTMLElement | undefined): void {
  if (!element) return;
  element.tabIndex = -1;
  element.addEventListener("blur", () => element.removeAttribute("tabindex"), { once: true });
  element.focus({ preventScroll: true });
}

/** Return true if a key press belongs to the element that has the focus, or to the browser. */
export function isTaken(event: KeyboardEvent): boolean {
  const element = event.target as HTMLElement;
  if (event.ctrlKey || event.metaKey || event.altKey) return true;
  if (element.closest("input:not([type=radio]):not([type=checkbox]), select, textarea")) return true;
  if (event.key === " ") return element.closest("button, a, summary, input") !== null;
  return event.key.startsWith("Arrow") && element !== document.body;
}
