// The roles of heads, as the server measures them.
import type { components } from "./api";
import type { AttentionMap } from "./trace";
import { KIND_TEXTS } from "./view";

/** What the pages show of a head's summary; a file holds no more than this. */
export type HeadSummary = Pick<components["schemas"]["HeadSummary"], "name" | "head" | "label" | "evidence" | "entropy" | "sink_share">;
export type HeadRoles = Map<string, HeadSummary>;

export function rolesOf(summaries: HeadSummary[]): HeadRoles {
  return new Map(summaries.map((summary) => [`${summary.name}.${summary.head}`, summary]));
}

export function roleOf(map: AttentionMap, head: number, roles: HeadRoles | null): HeadSummary | undefined {
  return roles?.get(`${map.name}.${head}`);
}

export function headTitle(map: AttentionMap, head: number, roles: HeadRoles | null): string {
  const role = roleOf(map, head, roles);
  return `${KIND_TEXTS[map.kind]}, layer ${map.layer}, head ${head}${role ? `: ${role.label}` : ""}${!role && map.off.includes(head) ? ": off" : ""}`;
}
