"""Ask a service whatever its OpenAPI document allows, and much that it does not: every answer must be as documented.

    python tests/chaos/openapi_fuzz.py [--seconds 180]

Schemathesis reads the document and makes up requests: from the examples, from every bound of every field, at random,
and wrong on purpose. No answer may be a 500; status, content type and shape must be those of the document; what the
document forbids must be refused, and what it allows must not be called malformed (422): it may be called too much, or
at odds with itself (400, 413), which a document cannot say. A key is required wherever the document says so.
Prints one JSON line. --undocumented is the inverse: a document that knows of no failures.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from service_process import ServiceProcess, start_service

from dragoman.bundle import demo_folder

PATIENT: Final = ("wait=600", "seconds=600", "engine_seconds=600")
CONFIG: Final = """
[checks]
positive_data_acceptance.expected-statuses = ["2xx", 400, 404, 413, 429, 503]
negative_data_rejection.expected-statuses = [400, 401, 404, 413, 415, 422]
"""
PATIENT_WITH_KEYS: Final = """
import dragoman.serving.keys as keys
keys.WRONG_KEYS_PER_MINUTE = 1_000_000
"""
"""A wrong key is tried on every route, all in one minute."""
UNDOCUMENTED: Final = (
    PATIENT_WITH_KEYS
    + """
import dragoman.serving.errors as errors
errors.document_errors = lambda *statuses, schema=None: {}
"""
)


def run_schemathesis(service: ServiceProcess, key: str, place: Path, wanted: argparse.Namespace) -> dict[str, Any]:
    """Run schemathesis and return its report."""
    config, report = place / "schemathesis.toml", place / "report.json"
    config.write_text(CONFIG)
    command = [
        *(
            str(Path(sys.executable).with_name("st")),
            "--config-file",
            str(config),
            "run",
            f"{service.url}/openapi.json",
        ),
        *("--header", f"Authorization: Bearer {key}", "--checks", "all", "--no-shrink"),
        *("--request-timeout", "600", "--max-response-time", "600"),  # how long it takes is for others to see
        *("--report-json-path", str(report), "--continue-on-failure", "--suppress-health-check", "all"),
        *("--max-time", str(wanted.seconds)),
        *(("--max-examples", str(wanted.examples)) if wanted.examples else ()),
        *(("--phases", wanted.phases) if wanted.phases else ()),
        *(("--seed", str(wanted.seed)) if wanted.seed is not None else ()),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=place)
    if done.returncode:
        print(done.stdout, done.stderr, file=sys.stderr)
    if not report.is_file():
        raise SystemExit("schemathesis made no report")
    found: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=180)
    parser.add_argument("--examples", type=int, default=None, help="made up for each route, at most")
    parser.add_argument("--seed", type=int, default=None, help="of the requests: that of an earlier run; else random")
    parser.add_argument("--phases", default=None, help="examples, coverage, fuzzing, stateful; else all")
    parser.add_argument("--undocumented", action="store_true", help="without the protection: this must fail")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        command = [sys.executable, "-m", "dragoman", "key", "tester", "--metrics", "--keys", str(place / "keys.yaml")]
        key = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        limits = [word for limit in PATIENT for word in ("--limit", limit)]
        arguments = [f"en-de={demo_folder()}", "--engines", "1", "--keys", str(place / "keys.yaml"), *limits]
        with start_service(*arguments, broken=UNDOCUMENTED if wanted.undocumented else PATIENT_WITH_KEYS) as service:
            found = run_schemathesis(service, key, place, wanted)
            restarts = sum(event["event"] == "engine lost" for event in service.log)
    accepted = {
        name: sum(rate["accepted"] for rate in phases.values()) for name, phases in found["valid_rates"].items()
    }
    values = {
        "operations": found["operations"]["tested"],
        "cases": found["test_cases"]["generated"],
        "accepted": accepted,
        "failures": [f"{one['title']}: {', '.join(one['operations'])}" for one in found["failures"]],
        "errors": found["errors"],
        "engines_lost": restarts,
        "seed": found["seed"],
        "seconds": round(found["running_time"]),
    }
    print(json.dumps({"bench": "openapi_fuzz", "values": values}))
    raise SystemExit(bool(values["failures"] or values["errors"] or restarts or found["exit_code"]))


if __name__ == "__main__":
    main()
