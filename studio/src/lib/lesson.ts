// The chapters of the course: their blocks, and where their links lead.
import type { components } from "./api";
import { parseState, type View } from "./state";

type Schemas = components["schemas"];
export type Chapter = Schemas["Chapter"];
export type Quiz = Schemas["QuizBlock"];

/** Return the view that a link leads to, and the sentence, experiment or chapter that it is about. */
export function describeLink(link: string): { view: View; about: string } {
  const { view, text, lab, chapter } = parseState(link);
  return { view, about: view === "lab" ? lab.experiment : view === "lesson" ? `chapter ${chapter}` : text };
}
