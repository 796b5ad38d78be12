// Requests for tests/chaos/overload.py: RATE a second for SECONDS, the answers sorted by their status. Without RATE, so
// many USERS ask without a pause.
import http from "k6/http";
import { Counter, Trend } from "k6/metrics";

const accepted = new Trend("accepted", true);
const refused = new Trend("refused", true);
const statuses = { 200: new Counter("ok"), 429: new Counter("limited"), 503: new Counter("busy") };
const other = new Counter("other");
const hurried = new Counter("without_retry_after");
const texts = JSON.parse(__ENV.TEXTS);

export const options = {
  discardResponseBodies: true,
  summaryTrendStats: ["med", "p(95)", "p(99)", "max", "count"],
  scenarios: {
    load: __ENV.RATE
      ? { executor: "constant-arrival-rate", rate: Number(__ENV.RATE), timeUnit: "1s", duration: `${__ENV.SECONDS}s`, preAllocatedVUs: Number(__ENV.USERS) }
      : { executor: "constant-vus", vus: Number(__ENV.USERS), duration: `${__ENV.SECONDS}s` },
  },
};

export default function () {
  const body = JSON.stringify({ q: texts[Math.floor(Math.random() * texts.length)], source: "en", target: "de" });
  const answer = http.post(`${__ENV.URL}/translate`, body, { headers: { "content-type": "application/json" }, timeout: "60s" });
  (statuses[answer.status] ?? other).add(1);
  if (answer.status === 200) accepted.add(answer.timings.duration);
  if (answer.status === 429 || answer.status === 503) {
    refused.add(answer.timings.duration);
    if (!answer.headers["Retry-After"]) hurried.add(1);
  }
}

export function handleSummary(data) {
  return { stdout: JSON.stringify(data.metrics) };
}
