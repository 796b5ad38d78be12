// The viewer of a trace and the arithmetic of one of its cells, in the self-contained file of dragoman explain --html.
import { mount } from "svelte";
import "./parts.css";
import { fromBase64 } from "./lib/base64";
import type { CellExplanation } from "./lib/cell";
import { openTrace } from "./lib/trace";
import { rolesOf, type HeadSummary } from "./lib/roles";
import type { Choice } from "./lib/view";
import Cell from "./parts/Cell.svelte";
import Viewer from "./parts/Viewer.svelte";

/** What dragoman/inspection/trace_page.py writes with a cell; the trace file in base64. */
interface ExplanationFile {
  trace: string;
  choice: Partial<Choice>;
  roles: HeadSummary[];
  notes: Record<string, string>;
  cell: CellExplanation;
}

const { trace, roles, ...options } = JSON.parse(document.getElementById("dragoman-explanation")!.textContent) as ExplanationFile;
mount(Viewer, { target: document.querySelector("main")!, props: { trace: openTrace(fromBase64(trace)), roles: rolesOf(roles), cellPart: Cell, ...options } });
