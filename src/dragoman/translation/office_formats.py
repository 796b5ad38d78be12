"""Read Word documents (.docx) as texts with inline tags, and write them with translations. Does not import torch.

A .docx is a zip of XML. Libraries for it, such as python-docx, know paragraphs and runs, but not where formatting goes
in a translation; so the XML is read here, by the tokenizer of `markup`, and all but the text stays as it was written.

In a paragraph, text stands in runs, which have the formatting. Text with the most frequent formatting of its paragraph
is plain text here; another run is a tag that ends the plain run and begins it again: `</w:t></w:r><w:r>...<w:t>` around
its words. Such seams are written as short marks and become XML at the end, without the runs that are empty.
"""

import io
import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from dragoman.translation.markup import MarkupDocument, Token, check_xml, read_tokens, xml_tokens

MOST_BYTES: Final = 100 << 20
"""The most bytes of all XML in a document: a small zip can hold very much."""
_PARTS: Final = re.compile(r"word/(?:document|header\d*|footer\d*|footnotes|endnotes)\.xml")
_NAMESPACE: Final = re.compile(
    r"""xmlns:([\w.-]+)\s*=\s*["'](?:http://schemas\.openxmlformats\.org|http://purl\.oclc\.org/ooxml)/"""
    r"""wordprocessingml/(?:2006/)?main["']"""
)
_WRAPPERS: Final = frozenset({"hyperlink", "ins", "moveTo", "smartTag"})
"""Elements around runs, whose text is translated."""
_NAME: Final = re.compile(r"<([^\s/>]+)")
_LETTER: Final = re.compile(r"[^\W\d_]")
_LANGUAGE: Final = re.compile(r"<[\w.-]+:(?:lang|noProof)\b[^>]*/>")
"""Properties of a run that do not show."""
_OPENING_MARK: Final = "\0\1"
_EMPTY_RUN: Final = re.compile("\0o(\\d+);\0c;")
_RUN_MARK: Final = re.compile("\0o(\\d+);")
"""A seam: `o` begins a run and its text, `c` ends both; `b` and `e` begin and end a text inside a run."""


@dataclass
class _Node:
    """An element of XML, or a text."""

    name: str
    """The name without its prefix; "" for text and other markup."""
    opening: str
    children: list["_Node"] = field(default_factory=list)
    closing: str = ""

    @property
    def raw(self) -> str:
        """The element as written."""
        return "".join([self.opening, *(child.raw for child in self.children), self.closing])

    def walk(self) -> Iterator["_Node"]:
        """Yield this element and all inside it."""
        yield self
        for child in self.children:
            yield from child.walk()

    def has(self, *names: str) -> bool:
        """Return True if an element of one of the names is inside."""
        return any(node.name in names for node in self.walk())


class _Run(NamedTuple):
    """The XML around the text of a run."""

    opening: str
    key: str
    """The formatting: runs with the same key look the same."""


class DocxDocument(NamedTuple):
    """A Word document: its texts, and the files of its zip."""

    page: MarkupDocument
    content: bytes
    names: tuple[str, ...]
    """The files whose XML is the page, each after a null character."""
    runs: tuple[str, ...]
    """The XML that begins each kind of run."""
    prefix: str

    def encode(self, text: str) -> bytes:
        """Return the document with a translation of its page."""
        _, *parts = text.split(_OPENING_MARK)
        written = {name: self._write_runs(part).encode() for name, part in zip(self.names, parts, strict=True)}
        target = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(self.content)) as old, zipfile.ZipFile(target, "w") as new:
            new.comment = old.comment
            for info in old.infolist():
                new.writestr(info, written.get(info.filename) or old.read(info), info.compress_type)
        return target.getvalue()

    def _write_runs(self, text: str) -> str:
        text = _EMPTY_RUN.sub("", text).replace("\0c;", f"\0e;</{self.prefix}r>")
        text = _RUN_MARK.sub(lambda mark: f"{self.runs[int(mark[1])]}\0b;", text).replace("\0b;\0e;", "")
        return text.replace("\0b;", f'<{self.prefix}t xml:space="preserve">').replace("\0e;", f"</{self.prefix}t>")


def open_docx(content: bytes, name: str = "", most_bytes: int = MOST_BYTES) -> DocxDocument:
    """Read a Word document; raise ValueError, beginning with the name of the file, if it is none.

    `most_bytes` is the limit of all its XML.
    """
    try:
        return _open(content, most_bytes)
    except ValueError as error:
        raise ValueError(f"{name}: {error}" if name else str(error)) from None


def _open(content: bytes, most_bytes: int) -> DocxDocument:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = tuple(name for name in archive.namelist() if _PARTS.fullmatch(name))
            if "word/document.xml" not in names:
                raise ValueError("no Word document: save the file as .docx")
            if sum(archive.getinfo(name).file_size for name in names) > most_bytes:
                raise ValueError(f"more than {most_bytes:,} bytes of XML: divide the document")
            texts = [archive.read(name).decode() for name in names]
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"no readable Word document ({error}): save the file as .docx") from None
    reader = _Reader(_find_prefix(texts[names.index("word/document.xml")]))
    parts: list[object] = []
    for text in texts:
        if "<!DOCTYPE" in text:
            raise ValueError("the XML has a document type: save the file again in a word processor")
        check_xml(text)
        parts += [_OPENING_MARK, *read_tokens(list(reader.read(text))).parts]
    page = MarkupDocument(tuple(parts))  # type: ignore[arg-type]
    return DocxDocument(page, content, names, tuple(reader.runs), reader.prefix)


def _find_prefix(text: str) -> str:
    found = _NAMESPACE.search(text)
    if not found:
        raise ValueError("no Word document: save the file as .docx")
    return f"{found[1]}:"


class _Reader:
    """Reads paragraphs as tokens, with marks in place of the seams between runs."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.runs: list[str] = []
        self._numbers: dict[str, int] = {}

    def read(self, text: str) -> Iterator[Token]:
        """Yield the tokens of a file of XML; all that is no text of a paragraph is one token of markup."""
        depth, inside = 0, list[Token]()
        for token in xml_tokens(text):
            is_paragraph = token.name == f"{self.prefix}p" and token.kind in ("open", "close")
            depth += (token.kind == "open") - (token.kind == "close") if is_paragraph else 0
            if depth or is_paragraph:
                inside.append(token)
                if not depth:
                    yield from self._read_paragraph(self._build(inside))
                    inside = []
            else:
                yield Token("other", token.raw, is_block=True)

    def _build(self, tokens: Sequence[Token]) -> _Node:
        root = _Node("", "")
        stack = [root]
        for token in tokens:
            if token.kind == "close":
                stack.pop().closing = token.raw
                continue
            name = _NAME.match(token.raw) if token.kind in ("open", "void") else None
            node = _Node(name[1].removeprefix(self.prefix) if name else "", token.raw)
            stack[-1].children.append(node)
            if token.kind == "open":
                stack.append(node)
        return root.children[0]

    def _read_paragraph(self, paragraph: _Node) -> Iterator[Token]:
        """Yield a paragraph: as it is if there is nothing to translate."""
        runs = [node for node in _find_runs(paragraph) if node.has("t")]
        if not any(_LETTER.search(_text_of(run)) for run in runs):
            yield Token("other", paragraph.raw, is_block=True)
            return
        yield Token("other", paragraph.opening, is_block=True)
        children = paragraph.children
        while children and children[0].name in ("", "pPr"):
            yield Token("other", children[0].raw, is_block=True)
            children = children[1:]
        base = _choose_base(children)
        yield Token("other", self._open(base), is_block=True)
        yield from self._read_children(children, base)
        yield Token("other", "\0c;", is_block=True)
        yield Token("other", paragraph.closing, is_block=True)

    def _read_children(self, children: Sequence[_Node], base: _Run) -> Iterator[Token]:
        i = 0
        while i < len(children):
            node = children[i]
            i += 1
            if node.name == "r" and node.has("fldChar", "instrText"):
                end = _end_of_field(children, i - 1)
                raw = "".join(child.raw for child in children[i - 1 : end or i])
                if end is None:  # it begins or ends in another paragraph
                    yield Token("other", self._outside(raw, base), is_block=True)
                else:
                    yield self._keep(raw, base)
                i = end or i
            elif node.name == "r" and _is_readable(node):
                run = _run_of(node)
                same = [node]
                while i < len(children) and _is_readable(children[i]) and _run_of(children[i]).key == run.key:
                    same.append(children[i])
                    i += 1
                yield from self._read_runs(same, run, base)
            elif node.name in _WRAPPERS and any(_is_readable(run) for run in node.children):
                inner = _choose_base(node.children)
                yield Token("open", f"\0c;{node.opening}{self._open(inner)}", node.name)
                yield from self._read_children(node.children, inner)
                yield Token("close", f"\0c;{node.closing}{self._open(base)}", node.name)
            elif node.has("t") or node.name.endswith(":oMath"):
                yield self._keep(node.raw, base)
            elif node.raw.strip():
                yield Token("void", self._outside(node.raw, base))

    def _read_runs(self, runs: Sequence[_Node], run: _Run, base: _Run) -> Iterator[Token]:
        """Yield the content of runs with the same formatting, inside a tag unless it is the plain formatting."""
        is_plain = run.key == base.key
        if not is_plain:
            yield Token("open", f"\0c;{self._open(run)}", "r")
        for child in (child for node in runs for child in node.children if child.name not in ("", "rPr")):
            if child.name == "t":
                yield Token("text", "".join(one.raw for one in child.children))
            else:
                is_break = child.name in ("br", "cr")
                raw = f"\0e;{child.raw}\0b;"
                is_apart = child.name in ("tab", "ptab")
                yield Token("other" if is_apart else "void", raw, is_block=is_apart, is_break=is_break)
        if not is_plain:
            yield Token("close", f"\0c;{self._open(base)}", "r")

    def _keep(self, raw: str, base: _Run) -> Token:
        """Return content that is not translated, and stands for a word."""
        return Token("other", self._outside(raw, base), is_kept=True)

    def _outside(self, raw: str, base: _Run) -> str:
        """Return markup that stands between runs, not in one."""
        return f"\0c;{raw}{self._open(base)}"

    def _open(self, run: _Run) -> str:
        number = self._numbers.setdefault(run.opening, len(self.runs))
        if number == len(self.runs):
            self.runs.append(run.opening)
        return f"\0o{number};"


def _find_runs(node: _Node) -> Iterator[_Node]:
    """Yield the runs of a paragraph whose text is translated."""
    for child in node.children:
        if child.name == "r" and _is_readable(child):
            yield child
        elif child.name in _WRAPPERS:
            yield from _find_runs(child)


def _is_readable(node: _Node) -> bool:
    """Return True for a run with text, and without text boxes, fields or other text inside."""
    others = ("p", "fldChar", "instrText")
    return node.name == "r" and any(child.name == "t" for child in node.children) and not node.has(*others)


def _text_of(node: _Node) -> str:
    return "".join(child.raw for one in node.children if one.name == "t" for child in one.children)


def _run_of(node: _Node) -> _Run:
    properties = "".join(child.raw for child in node.children if child.name == "rPr")
    key = _LANGUAGE.sub("", properties)
    is_empty = re.fullmatch(r"<[^>]*>\s*</[^>]*>|<[^>]*/>", key)
    return _Run(node.opening + properties, "" if is_empty else key)


def _choose_base(children: Sequence[_Node]) -> _Run:
    """Return the formatting of most characters."""
    runs = [node for node in children if _is_readable(node)]
    if not runs:
        runs = [run for node in children for run in _find_runs(node)]
        plain = re.match(r"<[\w.-]+:r", runs[0].opening)
        return _Run(f"{plain[0] if plain else runs[0].opening.rstrip('>')}>", "")
    counts: Counter[str] = Counter()
    for run in runs:
        counts[_run_of(run).key] += len(_text_of(run))
    key = counts.most_common(1)[0][0]
    return next(_run_of(run) for run in runs if _run_of(run).key == key)


def _end_of_field(children: Sequence[_Node], start: int) -> int | None:
    """Return the index after the end of a field that begins at a run; None if it does not begin or end here."""
    depth, has_begun = 0, False
    for i in range(start, len(children)):
        for node in children[i].walk():
            if node.name == "fldChar":
                kind = re.search(r'fldCharType\s*=\s*"(\w+)"', node.opening)
                depth += {"begin": 1, "end": -1}.get(kind[1] if kind else "", 0)
                has_begun = has_begun or depth > 0
        if depth <= 0:
            return i + 1 if depth == 0 and has_begun else None
    return None
