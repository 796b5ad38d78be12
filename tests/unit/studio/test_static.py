"""The committed pages: small, whole, and without anything from elsewhere."""

import gzip
import re
from importlib.resources import files

from dragoman.serving.app import PAGE
from dragoman.studio.studio_app import FILES, create_app

STATIC = files("dragoman.studio") / "static"


def packed(*names: str) -> int:
    """The size in bytes after gzip."""
    return sum(len(gzip.compress((STATIC / name).read_bytes(), 9)) for name in names)


def test_all_files_are_served_and_no_others_are_there() -> None:
    served = {name for name, _ in [*FILES.values(), *PAGE.values()]}
    in_files = {f"{page}.{kind}" for page in ("evolution", "explain", "triage") for kind in ("js", "css")}
    assert served | in_files == {path.name for path in STATIC.iterdir()}
    assert create_app({}, "", frozenset())


def test_the_sizes_are_within_the_budgets() -> None:
    assert packed("parts.js") <= 50_000
    assert packed("service.html", "service.css", "service.js") <= 25_000
    assert packed(*(name for name, _ in FILES.values())) <= 120_000
    assert all(packed(f"{page}.js", f"{page}.css") <= 60_000 for page in ("evolution", "explain", "triage"))


def test_nothing_comes_from_elsewhere() -> None:
    for path in STATIC.iterdir():
        addresses = re.findall(r"https?://[^\s\"'`]+", path.read_text(encoding="utf-8"))
        assert all("www.w3.org" in address or "svelte.dev/e/" in address for address in addresses), (path, addresses)


def test_the_page_names_its_files_and_has_no_script_of_its_own() -> None:
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"<script[^>]*>[^<]+</script>", page) == []
    assert {"studio.js", "studio.css"} <= set(re.findall(r'(?:src|href)="([^"]+)"', page))
    assert "./parts.js" in (STATIC / "studio.js").read_text(encoding="utf-8")
    assert "import" not in re.findall(r"\bimport\b(?=[\s{*\"'])", (STATIC / "parts.js").read_text(encoding="utf-8"))
