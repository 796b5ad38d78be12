"""The files for operators fit the service: alert rules, dashboard, and what Kubernetes does by its metrics."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml

from dragoman.api_schemas import ModelInfo, ModelList
from dragoman.serving.config import Limits, ServiceConfig
from dragoman.serving.run import JsonLog
from dragoman.serving.service import Service
from dragoman.serving.shared_quotas import SharedQuotas

DEPLOY = Path(__file__).parents[2] / "deploy"
GUIDE = DEPLOY.parent / "docs" / "guides" / "serve.md"
ALERTS = DEPLOY / "prometheus" / "alerts.yaml"
RULES: list[dict[str, Any]] = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"][0]["rules"]
DASHBOARD = json.loads((DEPLOY / "grafana" / "dragoman.json").read_text(encoding="utf-8"))
OBJECTS = list(yaml.safe_load_all((DEPLOY / "kubernetes-operation.yaml").read_text(encoding="utf-8")))
DEPLOYMENT, SERVICE = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def series() -> set[str]:
    """The names of all series of a service, as Prometheus stores them."""
    metrics = Service.create(ServiceConfig({}), JsonLog()).metrics
    metrics.watch_log(lambda: 0)
    metrics.watch_quotas(Mock(spec=SharedQuotas, is_reached=True))
    families = re.findall(r"^# TYPE (\S+) (\w+)$", metrics.text().decode(), re.MULTILINE)
    ends = {"histogram": ("_bucket", "_sum", "_count")}
    return {name + end for name, kind in families for end in ends.get(kind, ("",))}


def asked(expression: str) -> set[str]:
    return set(re.findall(r"\bdragoman_\w+", expression))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_every_alert_asks_for_series_that_exist(rule: dict[str, Any], series: set[str]) -> None:
    assert asked(rule["expr"]) <= series
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert rule["annotations"]["summary"]


def test_every_panel_asks_for_series_that_exist(series: set[str]) -> None:
    expressions = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    expressions += [each["query"] for each in DASHBOARD["templating"]["list"]]
    found = set().union(*map(asked, expressions))
    assert found <= series
    shown = {re.sub(r"_(bucket|sum|count)$", "", name) for name in found}
    every = {re.sub(r"_(bucket|sum|count)$", "", name) for name in series}
    hidden = {"dragoman_build_info", "dragoman_queue_sentences", "dragoman_quotas_shared"}
    assert {name for name in every if not name.endswith("_created")} - shown == hidden


def test_a_name_that_does_not_exist_would_be_found(series: set[str]) -> None:
    assert not asked("rate(dragoman_engine_restarts[5m])") <= series


def test_the_alert_on_the_queue_comes_before_requests_are_refused() -> None:
    (rule,) = [rule for rule in RULES if rule["alert"] == "DragomanQueueLong"]
    assert float(rule["expr"].rpartition(">")[2]) < Limits().wait


def test_every_alert_has_its_part_in_the_runbook() -> None:
    guide = GUIDE.read_text(encoding="utf-8")
    assert {rule["alert"] for rule in RULES} == set(re.findall(r"`(Dragoman[A-Z]\w+)`", guide))


MODEL = ModelInfo(
    name="toy",
    sha256="1f",
    source="en",
    target="de",
    beam_size=4,
    formula="gnmt",
    alpha=0.6,
    aligns=False,
    compute="int8",
)
LOG = [
    {"level": "info", "event": "started", "models": {"demo": "1f"}},
    *({"level": "info", "event": "request", "id": f"a{ms}", "route": "/translate", "status": 200, "ms": ms}
      for ms in range(1, 101)),
    {"level": "error", "event": "request", "id": "ID", "route": "/v1/translate", "status": 500, "ms": 7},
    {"level": "warning", "event": "engine lost", "code": -9, "pieces": 1, "requests": ["ID"]},
]  # fmt: skip
ANSWERS: dict[str, Any] = {
    "v1/models": ModelList(models=(MODEL,)).model_dump(),
    "openapi.json": {"info": {"version": "0.2.0"}},
}
PRINTED = {
    "which models it has": ["toy 1f"],
    "which version it is": ["0.2.0"],
    "answers by route and status": ["100 200 /translate", "1 500 /v1/translate"],
    "the 99th percentile of the time": ["100"],
    "faults": [json.dumps(line, separators=(",", ":")) for line in LOG[-2:]],
    "one request, by `X-Request-Id`": [json.dumps(line, separators=(",", ":")) for line in LOG[-2:]],
}


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is missing")
@pytest.mark.parametrize("task", PRINTED)
def test_the_commands_of_the_runbook_print_what_they_are_for(task: str, tmp_path: Path) -> None:
    rows = re.findall(r"^\| (.+?) \| `(.+)` \|$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    (command,) = [text.replace("\\|", "|") for name, text in rows if name == task]
    (tmp_path / "serve.log").write_text("".join(json.dumps(line) + "\n" for line in LOG), encoding="utf-8")
    if found := re.match(r"curl .*URL/(\S+) ", command):
        (tmp_path / "answer").write_text(json.dumps(ANSWERS[found[1]]), encoding="utf-8")
        command = f"cat answer {command[found.end() :]}"
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.strip() for line in done.stdout.splitlines()] == PRINTED[task]


@pytest.mark.skipif(
    shutil.which("promtool") is None and not os.environ.get("CI"), reason="promtool (Debian's prometheus) is missing"
)
def test_promtool_understands_the_rules_and_each_fires_when_it_should() -> None:
    for command in (["check", "rules", ALERTS.name], ["test", "rules", "alerts.test.yaml"]):
        done = subprocess.run(["promtool", *command], cwd=ALERTS.parent, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_kubernetes_scales_protects_and_watches_the_pods_of_the_service(series: set[str]) -> None:
    scaler, budget, policy, monitor = (each["spec"] for each in OBJECTS)
    labels = DEPLOYMENT["spec"]["selector"]["matchLabels"]
    assert scaler["scaleTargetRef"]["name"] == DEPLOYMENT["metadata"]["name"]
    (metric,) = scaler["metrics"]
    assert metric["pods"]["metric"]["name"] in series
    assert scaler["minReplicas"] == DEPLOYMENT["spec"]["replicas"] > budget["minAvailable"]
    assert budget["selector"]["matchLabels"] == policy["podSelector"]["matchLabels"] == labels
    assert monitor["selector"]["matchLabels"] == SERVICE["metadata"]["labels"]
    (port,) = SERVICE["spec"]["ports"]
    assert monitor["endpoints"][0]["port"] == policy["ingress"][0]["ports"][0]["port"] == port["name"]
