"""The page's files: all that it needs, and nothing in it that its own policy forbids."""

import re
from importlib.resources import files

import pytest
from house import House

from dragoman.serving.page import KINDS


@pytest.mark.parametrize(("path", "name"), [("/", "page.html"), ("/page.css", "page.css"), ("/page.js", "page.js")])
def test_it_is_sent_as_what_it_is(idle: House, path: str, name: str) -> None:
    answer = idle.ask("GET", path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == f"{KINDS[name]}; charset=utf-8"
    assert answer.content == (files("dragoman.serving") / name).read_bytes()


def test_it_asks_for_nothing_but_its_own_files_and_holds_no_script_or_style(idle: House) -> None:
    page = idle.ask("GET", "/").text
    assert sorted(re.findall(r'(?:src|href)="([^"]*)"', page)) == ["data:,", "page.css", "page.js"]  # no icon
    assert not re.search(r"<style|\son\w+=|\sstyle=|<script>|javascript:", page)
    for path in ("/page.css", "/page.js"):
        assert not re.search(r"https?://|@import|url\(", idle.ask("GET", path).text)


def test_no_text_can_become_markup(idle: House) -> None:
    script = idle.ask("GET", "/page.js").text
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|Function\(", script)
    assert "textContent" in script


def test_every_field_of_the_form_has_a_label(idle: House) -> None:
    page = idle.ask("GET", "/").text
    fields = re.findall(r'<(?:select|input|textarea) id="([\w-]+)"', page)
    assert sorted(fields) == ["key", "model", "source"]
    assert set(fields) <= set(re.findall(r'<label for="([\w-]+)"', page))
    assert '<html lang="en">' in page
