"""Write a bill of materials of an installed Dragoman, with licences, as CycloneDX 1.6 in JSON.

    python scripts/sbom.py FILE

It lists dragoman, the packages that it needs in the environment of this Python, with the extras that are installed, and
the bundled model with the licences of its data.
"""

import argparse
import json
import re
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from dragoman.bundle import demo_folder, open_bundle

ROOT = "dragoman"


def installed(name: str) -> Distribution | None:
    """Return an installed package by name, or None."""
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def needs(package: Distribution, extras: set[str]) -> dict[str, set[str]]:
    """Return the installed packages that a package needs, each with the extras that it wants."""
    found: dict[str, set[str]] = {}
    for text in package.requires or []:
        need = Requirement(text)
        applies = need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in {"", *extras})
        if applies and installed(need.name):
            found.setdefault(normalise(need.name), set()).update(need.extras)
    return found


def normalise(name: str) -> str:
    """Return a package's name as package URLs have it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def closure(extras: set[str]) -> dict[str, dict[str, set[str]]]:
    """Return all packages that dragoman needs directly or not, each with those that it needs itself."""
    graph: dict[str, dict[str, set[str]]] = {}
    waiting = {ROOT: extras}
    while waiting:
        name, wanted = waiting.popitem()
        found = needs(distribution(name), wanted)
        if found.keys() - graph.get(name, {}).keys() or name not in graph:
            graph[name] = {**graph.get(name, {}), **found}
            waiting |= found
    return graph


def component(name: str) -> dict[str, Any]:
    """Return a package as a component."""
    package = distribution(name)
    kind = "application" if name == ROOT else "library"
    reference = f"pkg:pypi/{name}@{package.version}"
    described = {"type": kind, "bom-ref": reference, "name": name, "version": package.version, "purl": reference}
    return described | licences(package)


def licences(package: Distribution) -> dict[str, Any]:
    """Return the licence of a package: an SPDX expression, or what its metadata say instead."""
    fields = {name: package.metadata.get_all(name) or [] for name in ("License-Expression", "License", "Classifier")}
    for expression in fields["License-Expression"]:
        return {"licenses": [{"expression": expression}]}
    names = [text.rpartition(" :: ")[2] for text in fields["Classifier"] if text.startswith("License ::")]
    first, *_ = [*"".join(fields["License"]).splitlines(), ""]
    names = names or [first[:100]] * bool(first)
    return {"licenses": [{"license": {"name": name}} for name in names]} if names else {}


def demo() -> dict[str, Any]:
    """Return the bundled model as a component."""
    model = open_bundle(demo_folder())
    hashes = [{"alg": "SHA-256", "content": model.sha256}]
    licensed = [{"expression": "CC-BY-2.0 AND MPL-2.0"}]
    described = {"type": "machine-learning-model", "bom-ref": "demo", "name": "dragoman demo", "hashes": hashes}
    return described | {"licenses": licensed, "description": str(model.card.licence)}


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    file = parser.parse_args().file
    extras = set(distribution(ROOT).metadata.get_all("Provides-Extra") or [])
    graph = closure(extras)
    components = {name: component(name) for name in sorted(graph)}
    edges = {name: sorted(components[need]["bom-ref"] for need in found) for name, found in graph.items()}
    edges[ROOT] = [*edges[ROOT], "demo"]
    listed = [*(one for name, one in components.items() if name != ROOT), demo()]
    content = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": components[ROOT]},
        "components": listed,
        "dependencies": [
            {"ref": f"pkg:pypi/{name}@{distribution(name).version}", "dependsOn": edges[name]} for name in sorted(edges)
        ],
    }
    file.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{file}: {len(listed)} components")


if __name__ == "__main__":
    main()
