from pathlib import Path

import pytest

import dragoman

PACKAGE = Path(dragoman.__file__).parent


@pytest.mark.parametrize(("package", "num_pages"), [("inspection", 3), ("triage", 1)])
def test_no_page_with_a_map_lets_a_browser_darken_it(package: str, num_pages: int) -> None:
    """The darkest cells would turn pale. (The server's page has no map, and a dark scheme in its style.)"""
    texts = [path.read_text("utf-8") for path in (PACKAGE / package).rglob("*") if path.suffix in {".html", ".py"}]
    pages = [text for text in texts if "<!doctype html>\n" in text]
    assert len(pages) >= num_pages
    assert all('<meta name="color-scheme" content="only light">' in text for text in pages)
