// Requests to the studio's server, with the token of its address.
import type { components } from "../lib/api";
import type { CellExplanation } from "../lib/cell";
import { rolesOf, type HeadRoles } from "../lib/roles";
import type { Evolution } from "../lib/evolution";
import type { HeadSearchReport } from "../lib/align";
import type { LogPage, RunState } from "../lib/run";
import { readEvents } from "../lib/sse";
import { openTrace, type Trace } from "../lib/trace";
import type { TriageReport } from "../lib/triage";

type Schemas = components["schemas"];
export type StudioInfo = Schemas["StudioInfo"];
export type ModelInfo = Schemas["StudioModelInfo"];
export type RunInfo = Schemas["StudioRunInfo"];
export type TraceRequest = Schemas["TraceRequest"];
type JobProgress = Schemas["JobProgress"];
export type CounterfactualCounts = Schemas["CounterfactualCounts"];
export interface TraceResult {
  id: string;
  trace: Trace;
  /** The text for `inspect --prefix`; null if no text is tokenized to the forced tokens. */
  prefixText: string | null;
}

const TOKEN = "dragoman-token";

/** Keep the token of the fragment, and return the fragment without it. */
export function takeToken(fragment: string): string {
  const fields = new URLSearchParams(fragment.replace(/^#/, ""));
  const token = fields.get("token");
  if (token) localStorage.setItem(TOKEN, token);
  fields.delete("token");
  return fields.toString();
}

async function request(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = { ...init.headers, authorization: `Bearer ${localStorage.getItem(TOKEN) ?? ""}` };
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Error("the studio does not answer: start dragoman studio again, and open the address that it prints");
  }
  if (response.ok) return response;
  const body = (await response.json().catch(() => null)) as Schemas["ErrorInfo"] | null;
  throw new Error(body?.error ?? `the studio answered with status ${response.status}`);
}

export async function getStudio(): Promise<StudioInfo> {
  return (await (await request("api/studio")).json()) as StudioInfo;
}

/** Return the experiments of the lab, with their stored results. */
export async function getLab(): Promise<Schemas["LabExperiment"][]> {
  return ((await (await request("api/lab")).json()) as Schemas["LabInfo"]).experiments;
}

/** Return the chapters of the course. */
export async function getCourse(): Promise<Schemas["Chapter"][]> {
  return ((await (await request("api/course")).json()) as Schemas["CourseInfo"]).chapters;
}

export async function postTrace(inputs: TraceRequest, signal: AbortSignal): Promise<TraceResult> {
  const response = await request("api/traces", { method: "POST", body: JSON.stringify(inputs), headers: { "content-type": "application/json" }, signal });
  const text = response.headers.get("x-prefix-text");
  return { id: response.headers.get("x-trace-id") ?? "", trace: openTrace(await response.arrayBuffer()), prefixText: text === null ? null : decodeURIComponent(text) };
}

export async function getRoles(id: string, signal: AbortSignal): Promise<HeadRoles> {
  const list = (await (await request(`api/traces/${id}/heads`, { signal })).json()) as Schemas["HeadList"];
  return rolesOf(list.heads);
}

export async function getCounterfactual(id: string, signal: AbortSignal): Promise<CounterfactualCounts> {
  return (await (await request(`api/traces/${id}/counterfactual`, { signal })).json()) as CounterfactualCounts;
}

/** Return the arithmetic of one cell of a map; the server chooses a head of null. */
export async function getExplanation(id: string, name: string, cell: { row: number; key: number; head: number | null }, signal: AbortSignal): Promise<CellExplanation> {
  const { row, key, head } = cell;
  const fields = new URLSearchParams({ name, row: String(row), key: String(key), ...(head === null ? {} : { head: String(head) }) });
  return (await (await request(`api/traces/${id}/explanation?${fields}`, { signal })).json()) as CellExplanation;
}

/** Return the report of long work, and call back with its progress; the server stops when the signal aborts. */
async function postJob<T>(path: string, inputs: object, signal: AbortSignal, onprogress: (progress: JobProgress) => void): Promise<T> {
  const response = await request(path, { method: "POST", body: JSON.stringify(inputs), headers: { "content-type": "application/json" }, signal });
  for await (const { event, data } of readEvents(response)) {
    if (event === "progress") onprogress(JSON.parse(data) as JobProgress);
    if (event === "error") throw new Error((JSON.parse(data) as Schemas["ErrorInfo"]).error);
    if (event === "report") return JSON.parse(data) as T;
  }
  throw new Error("the studio ended before its work did: start dragoman studio again, and open the address that it prints");
}

/** Return the triage of sentences. */
export const postTriage = (inputs: Schemas["TriageRequest"], signal: AbortSignal, onprogress: (progress: JobProgress) => void): Promise<TriageReport> => postJob("api/triage", inputs, signal, onprogress);

/** Return all heads, ranked by gold links. */
export const postHeadSearch = (inputs: Schemas["HeadSearchRequest"], signal: AbortSignal, onprogress: (progress: JobProgress) => void): Promise<HeadSearchReport> => postJob("api/head-search", inputs, signal, onprogress);

async function postJson<T>(path: string, inputs: object, signal: AbortSignal | null = null): Promise<T> {
  return (await (await request(path, { method: "POST", body: JSON.stringify(inputs), headers: { "content-type": "application/json" }, signal })).json()) as T;
}

/** Return the links of sentence pairs by one head. */
export async function postLinks(inputs: Schemas["LinksRequest"], signal: AbortSignal): Promise<[number, number][][]> {
  return (await postJson<Schemas["LinkList"]>("api/links", inputs, signal)).links as [number, number][][];
}

/** Store the alignment head of a model; return what the model is then. */
export const storeHead = (inputs: Schemas["StoreHeadRequest"]): Promise<ModelInfo> => postJson("api/alignment-head", inputs);

const pathOf = (run: string) => `api/runs/${encodeURIComponent(run)}`;

export async function getEvolution(run: string): Promise<Evolution> {
  return (await (await request(`${pathOf(run)}/evolution`)).json()) as Evolution;
}

export async function getProbeTrace(run: string, snapshot: string, sentence: number): Promise<Trace> {
  return openTrace(await (await request(`${pathOf(run)}/traces/${encodeURIComponent(snapshot)}/${sentence}`)).arrayBuffer());
}

const MS_BETWEEN_ATTEMPTS = 2000;

/** Call back with each part of a run's log and each change of its state; connect again when the connection is lost. */
export async function followRun(run: string, signal: AbortSignal, on: { log: (page: LogPage) => void; state: (state: RunState) => void; problem: (text: string) => void }): Promise<void> {
  while (!signal.aborted) {
    try {
      const response = await request(`${pathOf(run)}/events`, { signal });
      on.problem("");
      for await (const { event, data } of readEvents(response)) {
        if (event === "log") on.log(JSON.parse(data) as LogPage);
        if (event === "state") on.state(JSON.parse(data) as RunState);
      }
      throw new Error("the studio has ended, and with it the news of this run: dragoman studio opens the run again");
    } catch (reason) {
      if (signal.aborted) return;
      on.problem(reason instanceof TypeError ? "the connection to the studio is lost: dragoman studio opens the run again" : reason instanceof Error ? reason.message : String(reason));
    }
    await new Promise((resolve) => setTimeout(resolve, MS_BETWEEN_ATTEMPTS));
  }
}
