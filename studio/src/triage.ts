// The list of ranked translations, in the self-contained file of dragoman triage --html.
import { mount } from "svelte";
import "./parts.css";
import type { TriageReport } from "./lib/triage";
import TriageList from "./parts/TriageList.svelte";

/** What dragoman/triage/report_page.py writes: the ranking, and the addresses of trace pages by line number. */
interface TriageFile {
  report: TriageReport;
  pages: Record<string, string>;
}

const { report, pages } = JSON.parse(document.getElementById("dragoman-triage")!.textContent) as TriageFile;
// A trace page leads back to the line.
const line = Number(/^#line-(\d+)$/.exec(location.hash)?.[1] ?? 0) || null;
mount(TriageList, { target: document.querySelector("main")!, props: { report, pages, line } });
