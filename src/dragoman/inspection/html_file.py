"""Parts of a self-contained HTML file: templates, content security policy hashes, tables and embedded data."""

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from dragoman.inspection.labels import clean
from dragoman.io.durable import write_durably


def part(*names: str) -> str:
    """Return the concatenated text of files in the package dragoman.inspection."""
    return "".join(files("dragoman.inspection").joinpath(name).read_text(encoding="utf-8") for name in names)


def built_part(name: str) -> str:
    """Return the text of a file that the build of the studio's pages has written."""
    return (files("dragoman") / "studio" / "static" / name).read_text(encoding="utf-8")


def viewer_page(name: str, data_id: str, data: str, *, heading: str, title: str, note: str, unscripted: str) -> str:
    """Return a page with a viewer of the studio, `parts`, `evolution`, `explain` or `triage`, and its data.

    Its content security policy allows only this style and script. All other parts are HTML; `unscripted` is shown where
    scripts are switched off.
    """
    style, script = built_part(f"{name}.css"), built_part(f"{name}.js")
    return Template(part("viewer_page.html")).substitute(
        style=style,
        script=script,
        style_hash=allowed(style),
        script_hash=allowed(script),
        data_id=data_id,
        data=data,
        heading=heading,
        title=title,
        note=note,
        unscripted=unscripted,
    )


def allowed(text: str) -> str:
    """Return the base64 SHA-256 of a style or script for a content security policy."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def embedded(data: dict[str, Any]) -> str:
    """Return JSON for a script element, with <, > and & escaped."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def table(columns: Iterable[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """Return an HTML table whose first column holds the row headings."""
    head = "".join(f'<th scope="col" dir="auto">{escape(clean(name))}</th>' for name in columns)
    body = ""
    for name, *cells in rows:
        numbers = "".join(f"<td>{escape(cell)}" for cell in cells)  # the end tag is optional, and a third of the table
        body += f'<tr><th scope="row" dir="auto">{escape(clean(name))}</th>{numbers}</tr>'
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def save_text(text: str, path: Path | str) -> None:
    """Write a text file atomically."""
    write_durably(Path(path).resolve(), text.encode())
