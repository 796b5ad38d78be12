// Requests to the studio's server, with the token of its address.
import type { components } from "../lib/api";
import { rolesOf, type HeadRoles } from "../lib/roles";
import { openTrace, type Trace } from "../lib/trace";

type Schemas = components["schemas"];
export type StudioInfo = Schemas["StudioInfo"];
export type TraceRequest = Schemas["TraceRequest"];
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
