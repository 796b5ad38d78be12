// The requests of the service's page; addresses are relative, as a proxy may serve it below a path.
import type { components } from "../lib/api";

export type ModelInfo = components["schemas"]["ModelInfo"];
export type Translation = components["schemas"]["ServiceResponse"];

export class ServiceError extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

async function ask<T>(path: string, key: string, body?: object): Promise<T> {
  const headers = { "content-type": "application/json", ...(key ? { authorization: `Bearer ${key}` } : {}) };
  const request = body ? { method: "POST", headers, body: JSON.stringify(body) } : { headers };
  const answer = await fetch(path, request);
  const content = (await answer.json()) as T & { detail?: string };
  if (!answer.ok) throw new ServiceError(answer.status, content.detail ?? "it did not work");
  return content;
}

export async function getModels(key: string): Promise<ModelInfo[]> {
  return (await ask<components["schemas"]["ModelList"]>("v1/models", key)).models;
}

export function translate(text: string, model: ModelInfo, target: string, key: string): Promise<Translation> {
  return ask("v1/translate", key, { texts: text, model: model.name, target, alignment: model.aligns });
}
