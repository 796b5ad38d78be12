from pathlib import Path

import dragoman

PACKAGE = Path(dragoman.__file__).parent


def test_no_page_with_light_colours_alone_lets_a_browser_darken_it() -> None:
    """The darkest cells would turn pale. (The studio's pages and the server's have a dark scheme of their own.)"""
    texts = [path.read_text("utf-8") for path in (PACKAGE / "triage").rglob("*") if path.suffix in {".html", ".py"}]
    pages = [text for text in texts if "<!doctype html>\n" in text and "light dark" not in text]
    assert pages
    assert all('<meta name="color-scheme" content="only light">' in text for text in pages)
