// Texts of the course and the lab: parts with a style each.
import type { components } from "./api";

export type Span = components["schemas"]["Span"];

/** Return a text without its styles. */
export function plainText(text: readonly Span[]): string {
  return text.map((span) => span.text).join("");
}
