// The state of the studio as the fragment of its address.
import { formatHeads, parseHeads, type HeadName } from "./heads";
import { VERDICTS, type LabChoice, type Verdict } from "./lab";
import type { Selection } from "./selection.svelte";
import { WHOLE_LIST, type ListChoice } from "./triage";
import type { Choice } from "./view";

export const VIEWS = ["see", "heads", "theatre", "operate", "cell", "compare", "watch", "triage", "align", "lab", "lesson"] as const;
export type View = (typeof VIEWS)[number];
/** What the view of a run shows. */
export interface WatchState {
  run: string;
  /** The folder of a snapshot; null: the newest. */
  at: string | null;
  /** Counted from 0. */
  sentence: number;
  choice: Partial<Choice>;
  cell: [number, number] | null;
}
export interface StudioState extends WatchState {
  view: View;
  model: string;
  text: string;
  /** null: the model's own translation. */
  target: string | null;
  /** The second model of Compare; "": the first that is not the chosen one. */
  other: string;
  /** Whose translation both models of Compare trace. */
  traced: "own" | "other";
  beam: number | null;
  prefix: number[];
  off: HeadName[];
  uniform: HeadName[];
  /** The parts of the choice that were set; the rest follows the trace. */
  choice: Partial<Choice>;
  /** The row and column of the cursor; null: where the map is largest. */
  cell: [number, number] | null;
  /** The divisor of the Cell screen's slider; null: the model's own. */
  divisor: number | null;
  /** The step that the Cell screen shows; null: its first. */
  step: number | null;
  /** What the list of the Triage view shows. */
  list: ListChoice;
  /** What the Lab shows. */
  lab: LabChoice;
  /** The chapter of the Lesson view, counted from 1; 0: the list. */
  chapter: number;
  /** The translation that stays beside the next ones, as `pinOf` writes it; "": none. */
  pin: string;
}

/** Return what a selection adds to the address. */
export function chosenOf({ choice: { byWord, hideSinks, ...choice }, row, column }: Selection): { choice: Partial<Choice>; cell: [number, number] } {
  return { choice: { ...choice, ...(byWord ? { byWord } : {}), ...(hideSinks ? { hideSinks } : {}) }, cell: [row, column] };
}

export function parseState(fragment: string): StudioState {
  const fields = new URLSearchParams(fragment.replace(/^#/, ""));
  const get = (name: string) => fields.get(name) ?? "";
  const oneOf = <T extends string>(name: string, values: readonly T[]): T | undefined => values.find((value) => value === get(name));
  const number = (name: string) => (/^\d{1,6}$/.test(get(name)) ? Number(get(name)) : undefined);
  const choice: Partial<Choice> = {
    kind: oneOf("kind", ["cross", "encoder", "decoder"]),
    layer: number("layer"),
    head: get("head") === "mean" ? "mean" : number("head"),
    rows: oneOf("rows", ["written", "read"]),
    measure: oneOf("measure", ["attention", "norm"]),
    byWord: fields.has("words") || undefined,
    hideSinks: fields.has("hide-marks") || undefined,
  } as Partial<Choice>;
  return {
    view: oneOf("view", VIEWS) ?? "see",
    run: get("run"),
    at: /^\d+(-average)?$/.test(get("at")) ? get("at") : null,
    sentence: Math.max(0, (number("sentence") ?? 1) - 1),
    model: get("model"),
    text: get("text"),
    target: fields.has("target") ? get("target") : null,
    other: get("other"),
    traced: oneOf("traced", ["own", "other"]) ?? "own",
    beam: number("beam") || null,
    prefix: /^\d+(\.\d+)*$/.test(get("prefix")) ? get("prefix").split(".").map(Number) : [],
    off: parseHeads(get("off")),
    uniform: parseHeads(get("uniform")),
    choice: Object.fromEntries(Object.entries(choice).filter(([, value]) => value !== undefined)),
    cell: /^\d{1,5}\.\d{1,5}$/.test(get("cell")) ? (get("cell").split(".").map(Number) as [number, number]) : null,
    divisor: /^\d{1,6}(\.\d{1,6})?$/.test(get("divisor")) ? Number(get("divisor")) || null : null,
    step: number("step") ?? null,
    list: {
      find: get("view") === "lab" ? "" : get("find"),
      flag: get("flag"),
      least: /^(0(\.\d{1,4})?|1)$/.test(get("least")) ? Number(get("least")) : 0,
      sort: get("sort") || WHOLE_LIST.sort,
      page: Math.max(0, (number("page") ?? 1) - 1),
    },
    lab: {
      experiment: /^[a-z0-9-]{1,60}$/.test(get("experiment")) ? get("experiment") : "",
      find: get("view") === "lab" ? get("find") : "",
      verdict: oneOf("verdict", Object.keys(VERDICTS) as Verdict[]) ?? "",
      isGuess: fields.has("guess"),
    },
    chapter: number("chapter") ?? 0,
    pin: get("pin"),
  };
}

/** Return what a state says about the translation alone, as a fragment. */
export function pinOf({ model, text, target, beam, prefix, off, uniform }: StudioState): string {
  return formatState({ ...parseState(""), model, text, target, beam, prefix, off, uniform });
}

export function formatState(state: StudioState): string {
  const { choice, list, lab } = state;
  const isLab = state.view === "lab";
  const isTriage = state.view === "triage";
  const fields: [string, string | number | null | undefined | false][] = [
    ["view", state.view === "see" ? null : state.view],
    ["run", state.view === "watch" && state.run],
    ["at", state.view === "watch" && state.at],
    ["sentence", state.view === "watch" && state.sentence > 0 && state.sentence + 1],
    ["model", state.model],
    ["other", state.view === "compare" && (state.other || null)],
    ["traced", state.view === "compare" && state.traced === "other" && state.traced],
    ["text", state.text],
    ["target", state.target],
    ["beam", state.beam],
    ["prefix", state.prefix.join(".") || null],
    ["off", formatHeads(state.off) || null],
    ["uniform", formatHeads(state.uniform) || null],
    ["kind", choice.kind],
    ["layer", choice.layer],
    ["head", choice.head],
    ["rows", choice.rows],
    ["measure", choice.measure],
    ["words", choice.byWord && 1],
    ["hide-marks", choice.hideSinks && 1],
    ["cell", state.cell?.join(".")],
    ["divisor", state.divisor],
    ["step", state.step],
    ["find", isTriage && (list.find || null)],
    ["flag", isTriage && (list.flag || null)],
    ["least", isTriage && (list.least || null)],
    ["sort", isTriage && list.sort !== WHOLE_LIST.sort && list.sort],
    ["page", isTriage && list.page > 0 && list.page + 1],
    ["experiment", isLab && (lab.experiment || null)],
    ["find", isLab && (lab.find || null)],
    ["verdict", isLab && (lab.verdict || null)],
    ["guess", isLab && lab.isGuess && 1],
    ["chapter", state.view === "lesson" && (state.chapter || null)],
    ["pin", state.pin || null],
  ];
  const kept = fields.filter(([, value]) => value !== null && value !== undefined && value !== false);
  return new URLSearchParams(kept.map(([name, value]) => [name, String(value)])).toString();
}
