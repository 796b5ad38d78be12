// A training run: its log as curves, a sentence about its state, the time left, and warnings.
import type { components } from "./api";
import type { Point } from "./chart";

type Schemas = components["schemas"];
/** A line of the log; what it does not have is left out. */
export type LogEvent = Pick<Schemas["LogEvent"], "event"> & Partial<Schemas["LogEvent"]>;
export type LogPage = Omit<Schemas["LogPage"], "events"> & { events: LogEvent[] };
export type RunState = Schemas["RunState"];
export type RunFinding = Schemas["RunFinding"];

type Quantity = "loss" | "rate" | "tokens_per_second" | "bleu" | "chrf";

/** Return a curve over updates; a number that was not finite leaves a gap. */
export function curveOf(events: LogEvent[], event: "update" | "validation", quantity: Quantity): Point[] {
  return events.flatMap((line): Point[] => {
    const value = line[quantity];
    return line.event === event && typeof line.update === "number" && typeof value === "number" ? [[line.update, value]] : [];
  });
}

export const validationsOf = (events: LogEvent[]): LogEvent[] => events.filter(({ event }) => event === "validation");
const last = (events: LogEvent[], ...kinds: string[]): LogEvent | undefined => events.findLast(({ event }) => kinds.includes(event));

/** The events since the run began or was resumed for the last time. */
function sinceStart(events: LogEvent[]): LogEvent[] {
  return events.slice(Math.max(0, events.findLastIndex(({ event }) => event === "begin" || event === "resumed")));
}

/** Return true if training has ended: a run that is given more time goes on after its end. */
export function isOver(events: LogEvent[]): boolean {
  return last(events, "begin", "resumed", "end")?.event === "end";
}

export interface Progress {
  update: number;
  /** The planned last update; null if nothing has been planned. */
  last: number | null;
  seconds: number;
  /** Seconds left; null if nothing is known. */
  left: number | null;
}

/** Estimate the time left from the speed since the last start; `age` is the time since the last line of the log. */
export function progressOf(events: LogEvent[], age: number): Progress {
  const timed = events.filter((line) => typeof line.seconds === "number" && typeof line.update === "number");
  const newest = timed.at(-1);
  const update = newest?.update ?? 0;
  const planned = events.findLast((line) => typeof line.last === "number")?.last ?? null;
  if (isOver(events)) return { update, last: update, seconds: newest?.seconds ?? 0, left: 0 };
  const seconds = (newest?.seconds ?? 0) + age;
  const limit = events.findLast((line) => typeof line.time === "number")?.time ?? null;
  const recent = sinceStart(timed);
  const first = recent[0];
  const validations = validationsOf(recent).filter((line) => line.update);
  const spent = validations.reduce((sum, { took }) => sum + (took ?? 0), 0);
  const done = first && newest ? update - first.update! : 0;
  const each = done > 0 ? Math.max(0, newest!.seconds! - first!.seconds! - spent) / done : null;
  const untilLimit = limit === null ? null : Math.max(0, limit - seconds);
  if (each === null || planned === null) return { update, last: planned, seconds, left: untilLimit };
  const [before, latest] = [0, 0, ...validations.map((line) => line.update!)].slice(-2) as [number, number];
  const coming = latest > before ? Math.max(1, Math.floor((planned - latest) / (latest - before))) : 1;
  const work = (planned - update) * each + coming * (validations.at(-1)?.took ?? 0);
  return { update, last: planned, seconds, left: Math.max(0, Math.min(untilLimit ?? Infinity, work - age)) };
}

/** Return seconds as 1 h 05 min, 12 min, 40 s. */
export function formatDuration(seconds: number): string {
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

export interface Summary {
  title: string;
  detail: string;
  /** The share that is done, from 0 to 1; null if it is not known. */
  share: number | null;
}

const count = (value: number) => value.toLocaleString("en");

export function summarise(events: LogEvent[], state: RunState, age: number): Summary {
  const { update, last: planned, seconds, left } = progressOf(events, state.is_running ? age : 0);
  const gone = `${formatDuration(seconds)} of training`;
  if (!events.length) {
    return state.is_running
      ? { title: "Preparing the text", detail: "Training has not begun yet.", share: null }
      : { title: "Not begun", detail: "This run has no log yet: dragoman train writes it.", share: null };
  }
  const end = last(events, "end");
  if (state.is_finished) return { title: last(events, "verdict")?.message ?? "Finished", detail: `Finished after ${count(update)} updates, ${gone}${end?.kept ? `; the weights of ${end.kept} are kept` : ""}.`, share: 1 };
  if (!state.is_running) return { title: `Stopped at update ${count(update)}`, detail: `${gone}; the same command resumes the run.`, share: planned ? Math.min(1, update / planned) : null };
  if (isOver(events)) return { title: "Scoring the model", detail: `Training ended after ${count(update)} updates, ${gone}${end?.why ? `: ${end.why}` : ""}.`, share: 1 };
  const share = left === null || left + seconds <= 0 ? null : seconds / (seconds + left);
  const of = planned === null ? "" : ` of about ${count(planned)}`;
  return { title: left === null ? "Training" : `About ${formatDuration(left)} left`, detail: `Update ${count(update)}${of}, ${gone}.`, share };
}

const WARNINGS = ["left out", "not saved", "damaged", "stalled", "process lost"];

/** Return what needs attention: findings from before training that are not ok, and troubles in the log. */
export function warningsOf(events: LogEvent[], state: RunState): RunFinding[] {
  const during = events.filter(({ event }) => WARNINGS.includes(event)).map((line): RunFinding => ({
    check: typeof line.update === "number" ? `update ${count(line.update)}` : "training",
    level: "warning",
    message: `${line.event === "stalled" ? "" : `${line.event}: `}${line.message ?? line.reason ?? "see log.jsonl"}`,
  }));
  return [...state.findings.filter(({ level }) => level !== "ok"), ...during];
}

/** Return the validation that a snapshot belongs to. */
export function validationAt(events: LogEvent[], which: string | null): LogEvent | null {
  const all = validationsOf(events);
  return (which === null ? all.at(-1) : all.findLast((line) => line.which === which)) ?? null;
}
