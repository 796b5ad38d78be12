"""Read Markdown, subtitles and gettext files as texts with inline tags. Does not import torch.

Libraries find the blocks of Markdown; the containers of subtitles and gettext files are read here, because libraries
write them anew and change their layout.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise, zip_longest
from typing import Any, Final

from dragoman.translation.markup import MarkupDocument, TextCodec, Token, html_tokens, read_tokens

_LINE: Final = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_TIMES: Final = re.compile(r"\s*(?:\d+:)?\d+:\d+[.,]\d+\s*-->\s*(?:\d+:)?\d+:\d+[.,]\d+")
_STYLE: Final = re.compile(r"(\{\\[^{}]*\})")
_SPEAKER: Final = re.compile(r"\s*(?:<[^<>]*>)*\s*[-\u2013\u2014]")
"""The beginning of a line that another person speaks."""


def parse_subtitles(text: str) -> MarkupDocument:
    """Read .srt or .vtt. A cue is one text; its line breaks are carried over like tags."""
    tokens: list[Token] = []
    lines = _LINE.findall(text)
    is_cue = False
    for line, following in zip_longest(lines, lines[1:], fillvalue=""):
        content = line.rstrip("\r\n")
        end = line[len(content) :]
        if not is_cue or not content.strip():
            tokens.append(Token("other", line, is_block=True))
            is_cue = bool(_TIMES.match(line))
            continue
        for i, part in enumerate(_STYLE.split(content)):
            tokens += [Token("void", part)] if i % 2 else html_tokens(part)
        goes_on = following.strip() and not _SPEAKER.match(following)
        tokens.append(Token("void", end, is_break=True) if goes_on else Token("other", end, is_block=True))
    return read_tokens(tokens, TextCodec())


_PO_LINE: Final = re.compile(r'(?P<indent>\s*)(?:(?P<keyword>msg\w+(?:\[\d+\])?)\s*)?"(?P<text>(?:[^"\\]|\\.)*)"\s*$')
_PO_ESCAPE: Final = re.compile(r"\\(.)")
_PO_BREAK: Final = re.compile(r"((?:\\r)?\\n)")
_PO_LETTERS: Final = {"n": "\n", "t": "\t", "r": "\r"}
_PO: Final = TextCodec(
    lambda raw: _PO_ESCAPE.sub(lambda escape: _PO_LETTERS.get(escape[1], escape[1]), raw),
    lambda text: text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t").replace("\n", "\\n"),
)


def parse_po(text: str) -> MarkupDocument:
    """Read a gettext file: each empty `msgstr` gets the translation of its `msgid`; others stay as they are."""
    tokens: list[Token] = []
    fields: dict[str, str] = {}
    keyword = ""
    lines = _LINE.findall(text)
    for number, line in enumerate(lines):
        match = _PO_LINE.match(line)
        if match is None:
            keyword, fields = "", fields if line.startswith("#~") else {}
        elif match["keyword"]:
            keyword = match["keyword"]
            fields = {} if keyword in ("msgid", "msgctxt") and "msgstr" in "".join(fields) else fields
            fields[keyword] = match["text"]
        else:
            fields[keyword] = fields.get(keyword, "") + match["text"]
        following = _PO_LINE.match(lines[number + 1]) if number + 1 < len(lines) else None
        goes_on = following is not None and not following["keyword"]
        is_empty = match is not None and keyword.startswith("msgstr") and not match["text"] and not goes_on
        source = fields.get("msgid" if keyword in ("msgstr", "msgstr[0]") else "msgid_plural", "") if is_empty else ""
        if not (is_empty and source and match and match["keyword"]):
            tokens.append(Token("other", line, is_block=True))
            continue
        tokens.append(Token("other", line[: match.start("text")], is_block=True))
        for i, part in enumerate(_PO_BREAK.split(source)):
            tokens += [Token("other", part, is_block=True)] if i % 2 else html_tokens(part)
        tokens.append(Token("other", line[match.end("text") :], is_block=True))
    return read_tokens(tokens, _PO)


_CODE: Final = (
    r"(?P<code>(?<![^\\]`)(?P<ticks>`++)(?:.+?)(?<!`)(?P=ticks)(?!`)"
    r"|<[A-Za-z][A-Za-z\d+.-]+:[^\s<>]*>|<[^\s<>@]+@[^\s<>]+>)"
)
"""A code span, or an address in angle brackets."""
_DESTINATION: Final = r"\((?:[^()\n\\]|\\.|\([^()\n]*\))*\)|\[[^\[\]\n]+\]"
_LABEL: Final = r"(?:[^\[\]\\`]|\\.|`[^`]*`|!\[[^\[\]]*\]\([^()\n]*\))*"
_INLINE: Final = re.compile(
    rf"""(?P<escape>\\[^\w\s]) | {_CODE}
    | (?P<image>!\[[^\[\]]*\](?:{_DESTINATION})|\[\^[^\[\]\s]+\]|\[[^\[\]]*\]\[\])
    | \[(?P<label>{_LABEL})\](?P<destination>{_DESTINATION})
    | (?P<reference>\[[^\[\]]+\])
    | (?P<mark>\*\*\*|\*\*|\*|~~|(?<!\w)(?:___|__|_))(?=\S)
        (?P<inner>(?:\\.|[^\\]){1, 2000}?)(?<=\S)(?P=mark)(?![*~]|(?<=_)\w)
    | (?P<line>[ \\]*\n)""",
    re.VERBOSE | re.DOTALL,
)


def parse_markdown(text: str) -> MarkupDocument:
    """Read Markdown: code, addresses and front matter stay; line breaks are carried over like tags."""
    from markdown_it import MarkdownIt

    lines = _LINE.findall(text)
    first = _end_of_front_matter(lines)
    environment: dict[str, Any] = {}
    body = "\n".join(line.rstrip("\r\n") for line in lines[first:])
    blocks = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(body, environment)
    references = environment.get("references", {})
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    tokens: list[Token] = []
    position = 0
    for block in blocks:
        if block.map is None or block.type not in ("inline", "html_block"):
            continue
        begin, end = block.map[0] + first, min(block.map[1] + first, len(lines))
        if block.type == "html_block":
            start, stop = starts[begin], starts[end]
            found: list[Token] | None = html_tokens(text[start:stop])
        else:
            found, start, stop = _read_inline(text, block.content, starts[begin : end + 1], position, references)
        if found is None or start < position:
            continue
        tokens += [Token("other", text[position:start], is_block=True), *found]
        position = stop
    return read_tokens([*tokens, Token("other", text[position:], is_block=True)], TextCodec())


def _end_of_front_matter(lines: list[str]) -> int:
    """Return the number of lines of the YAML header between two lines of three dashes."""
    if lines and lines[0].rstrip() == "---":
        return next((i + 1 for i, line in enumerate(lines[1:], 1) if line.rstrip() in ("---", "...")), 0)
    return 0


def _read_inline(
    text: str, content: str, starts: list[int], position: int, references: Mapping[str, Any]
) -> tuple[list[Token] | None, int, int]:
    """Return the tokens of a block, and where it starts and ends in the file; None if it is not found there."""
    spans: list[tuple[int, int]] = []
    for i, line in enumerate(content.split("\n")):
        stripped = line.strip()
        if i + 1 >= len(starts):
            return None, 0, 0
        at = text.find(stripped, max(starts[i], position), starts[i + 1])
        if at < 0 or not stripped:
            return None, 0, 0
        spans.append((at, at + len(stripped)))
    plain = "\n".join(text[start:end] for start, end in spans)
    breaks = iter([text[end:start] for (_, end), (start, _) in pairwise(spans)])
    return list(_inline_tokens(plain, breaks, references)), spans[0][0], spans[-1][1]


def _inline_tokens(text: str, breaks: Iterator[str], references: Mapping[str, Any]) -> Iterator[Token]:
    """Yield the tokens of inline Markdown; `breaks` has what stands between the lines of the file."""
    position = 0
    for match in _INLINE.finditer(text):
        if match["escape"] or (match["reference"] and _normalize(match["reference"][1:-1]) not in references):
            continue
        yield from html_tokens(text[position : match.start()])
        position = match.end()
        if match["code"] or match["reference"]:
            yield Token("other", match[0], is_kept=True)
        elif match["image"]:
            yield Token("void", match[0])
        elif match["line"]:
            yield Token("void", match["line"][:-1] + next(breaks), is_break=True)
        elif match["mark"]:
            yield Token("open", match["mark"], match["mark"])
            yield from _inline_tokens(match["inner"], breaks, references)
            yield Token("close", match["mark"], match["mark"])
        else:
            yield Token("open", "[", "[")
            yield from _inline_tokens(match["label"], breaks, references)
            yield Token("close", f"]{match['destination']}", "[")
    yield from html_tokens(text[position:])


def _normalize(label: str) -> str:
    return " ".join(label.split()).upper()
