// The command that shows on a terminal what a view shows.
import type { GridChoice } from "./align";
import { formatHeads, type HeadName } from "./heads";
import type { Choice } from "./view";

export interface CommandInputs {
  model: string;
  text: string;
  target: string | null;
  beam: number | null;
  prefix: string;
  off: HeadName[];
  uniform: HeadName[];
}

/** Return a text as one word of a POSIX shell. */
export function quote(text: string): string {
  return /^[\w.,/:=+@%-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`;
}

/** Return the `dragoman explain` command of one cell; `target` is the translation if it is not the model's own. */
export function formatExplain(model: string, text: string, target: string | null, { kind, layer, head }: Pick<Choice, "kind" | "layer" | "head">, row: number, key: number): string {
  const options: [string, string | number | null][] = [
    ["--model", model === "demo" ? null : model],
    ["--target", kind === "encoder" ? null : target],
    ["--kind", kind],
    ["--layer", layer],
    ["--head", head === "mean" ? null : head],
    ["--row", row],
    ["--key", key],
  ];
  return ["dragoman explain", ...words(options), "--", quote(text)].join(" ");
}

/** Return the `dragoman inspect` command of a map, or of the list of all heads if `choice` is null. */
export function formatCommand(inputs: CommandInputs, choice: Choice | null): string {
  const options: [string, string | number | null][] = [
    ["--model", inputs.model === "demo" ? null : inputs.model],
    ["--target", inputs.target],
    ["--prefix", inputs.prefix || null],
    ["--beam", inputs.target === null ? inputs.beam : null],
    ["--without", formatHeads(inputs.off) || null],
    ["--uniform", formatHeads(inputs.uniform) || null],
  ];
  if (choice)
    options.push(
      ["--kind", choice.kind === "cross" ? null : choice.kind],
      ["--layer", choice.layer],
      ["--head", choice.head],
      ["--rows", choice.kind === "encoder" ? null : choice.rows],
      ["--measure", choice.measure],
    );
  const parts = words(options);
  if (choice?.byWord && choice.kind === "cross") parts.push("--words");
  if (choice?.hideSinks) parts.push("--hide-sinks");
  if (!choice) parts.push("--heads");
  return ["dragoman inspect", ...parts, "--", quote(inputs.text)].join(" ");
}

/** Return the `dragoman triage` command; the name of the text file is to be replaced. */
export function formatTriage(model: string): string {
  return ["dragoman triage --source FILE", ...words([["--model", model === "demo" ? null : model]]), "--html report.html"].join(" ");
}

/** Return the `dragoman align` commands that rank all heads, and that align by a chosen one; names that are "" are to be replaced. */
export function formatAlign(model: string, files: { source: string; target: string; gold: string }, isSwapped: boolean, choice: GridChoice | null): string {
  const { source, target, gold } = files;
  const inputs = words([["--source", source || "SOURCE"], ["--target", target || "TARGET"], ["--gold", gold || "GOLD"]]);
  const align = ["dragoman align", quote(model), ...inputs, ...(isSwapped ? ["--swap-gold"] : [])];
  const search = [...align, "--search"].join(" ");
  if (!choice) return search;
  return `${search}\n${[...align, ...words([["--layer", choice.layer], ["--head", choice.head], ["--rows", choice.rows], ["--measure", choice.measure]])].join(" ")}`;
}

/** Return the command that runs an experiment of the lab, or lists all if the name is "". */
export function formatLab(experiment: string): string {
  return experiment ? `dragoman lab run ${quote(experiment)}` : "dragoman lab";
}

function words(options: [string, string | number | null][]): string[] {
  return options.flatMap(([name, value]) => (value === null ? [] : [name, quote(String(value))]));
}
