from pathlib import Path

import dragoman

PACKAGE = Path(dragoman.__file__).parent


def test_no_page_lets_a_browser_darken_it_for_the_darkest_cells_would_turn_pale() -> None:
    written = [
        path.read_text(encoding="utf-8")
        for path in (PACKAGE / "inspection").rglob("*")
        if path.suffix in {".html", ".py"}
    ]
    pages = [text for text in written if "<!doctype html>\n" in text]
    assert len(pages) >= 4
    assert all('<meta name="color-scheme" content="only light">' in text for text in pages)
