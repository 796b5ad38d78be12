"""Read HTML and XML as texts with inline tags, and write them with translations; all else stays as it is.

This is a tokenizer of our own because parsers forget how a tag, an attribute or an entity was written, and repair what
is broken. Here every byte outside the translated texts is kept. Does not import torch.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from html import unescape
from typing import Final, Literal, NamedTuple
from xml.parsers import expat

from dragoman.translation.document import Span
from dragoman.translation.inline_tags import InlineTag, LinkedSentence, TaggedText

TokenKind = Literal["text", "open", "close", "void", "other"]

_ATTRIBUTE: Final = r"""[^\s/>=]++(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|(?!["'])[^\s>]*+))?+"""
_HTML: Final = re.compile(
    rf"""<(?P<slash>/?)(?P<name>[A-Za-z][^\s/>]*+)(?P<attributes>(?:\s++|[/=]|{_ATTRIBUTE})*+)>
    | <!--(?:-?>|.*?(?:--!?>|\Z)) | <[!?][^>]*+> | </[^>A-Za-z][^>]*+>""",
    re.DOTALL | re.VERBOSE,
)
_XML: Final = re.compile(
    rf"""<(?P<slash>/?)(?P<name>[^\s/>!?]++)(?P<attributes>(?:\s++|[/=]|{_ATTRIBUTE})*+)>
    | <!--.*?--> | <!\[CDATA\[.*?\]\]> | <\?.*?\?> | <![^\[>]*+(?:\[.*?\]\s*+)?>""",
    re.DOTALL | re.VERBOSE,
)
_ENTITY: Final = re.compile(r"&(?:\#\d+;?|\#[xX][\dA-Fa-f]+;?|[A-Za-z_][\w.:-]*;|[A-Za-z][A-Za-z\d]*)")
_BLANK: Final = " \t\n\r\f"
"""White space of HTML and XML; a no-break space is none."""
_SPACE: Final = re.compile(f"[{_BLANK}]+")
_LETTER: Final = re.compile(r"[^\W\d_]")
_NOT_TRANSLATED: Final = re.compile(
    r"""(?:^|\s)(?:its:)?translate\s*=\s*["']?no\b|(?:^|\s)class\s*=\s*(?:["'][^"']*(?<![\w-])|)notranslate(?![\w-])""",
    re.IGNORECASE,
)

_VOID: Final = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"}
)
_BLOCKS: Final = frozenset({
    "address", "area", "article", "aside", "audio", "base", "blockquote", "body", "canvas", "caption", "center",
    "col", "colgroup", "dd", "details", "dialog", "dir", "div", "dl", "dt", "fieldset", "figcaption", "figure",
    "footer", "form", "frame", "frameset", "h1", "h2", "h3", "h4", "h5", "h6", "head", "header", "hgroup", "hr",
    "html", "iframe", "legend", "li", "link", "main", "map", "menu", "meta", "nav", "noframes", "noscript", "ol",
    "optgroup", "option", "p", "param", "pre", "script", "search", "section", "select", "source", "style",
    "summary", "table", "tbody", "td", "template", "textarea", "tfoot", "th", "thead", "title", "tr", "track", "ul",
    "video",
})  # fmt: skip
"""Elements of HTML that begin and end a text; all others stand within a text."""
_KEPT: Final = frozenset({"code", "kbd", "math", "pre", "samp", "script", "style", "svg", "textarea", "tt", "var"})
"""Elements whose content is not translated."""
_RAW: Final = frozenset({"iframe", "noembed", "noframes", "script", "style", "textarea", "xmp"})
"""Elements of HTML whose content has no tags."""
_JOINING: Final = frozenset({"wbr"})
"""Tags without content that do not separate words."""

_JOINERS: Final = "\u200c\u200d"
"""Invisible characters that are part of a word."""
_DEEPEST: Final = 50
"""The most inline elements within each other; deeper ones divide the text."""


class Token(NamedTuple):
    """A tag, a text or other markup, as written."""

    kind: TokenKind
    raw: str
    name: str = ""
    """The name of a tag; in HTML, in lower case."""
    is_block: bool = False
    """True if the tag begins or ends a text."""
    is_kept: bool = False
    """True if the content of the element is not translated."""
    is_break: bool = False
    """True if a tag without content separates words."""


class TextCodec(NamedTuple):
    """The functions that read text as it is written in a file, and write it."""

    decode: Callable[[str], str] = str
    encode: Callable[[str], str] = str


class MarkupText(NamedTuple):
    """A text of a document with the tags and white space around it."""

    before: str
    tagged: TaggedText
    after: str


@dataclass(frozen=True)
class TagRules:
    """Names of tags that are read in another way than is usual for their format."""

    ignored: frozenset[str] = frozenset()
    """Elements whose content is not translated."""
    splitting: frozenset[str] = frozenset()
    """Tags that begin and end a text."""
    inline: frozenset[str] = frozenset()
    """Tags that stand within a text."""
    is_outlined: bool = True
    """False: no tags but the `splitting` ones begin and end a text."""

    def apply(self, tokens: list[Token]) -> list[Token]:
        """Return tokens that are marked by these rules."""
        return [self._mark(token) if token.name else token for token in tokens]

    def _mark(self, token: Token) -> Token:
        is_block = token.is_block and self.is_outlined and token.name not in self.inline
        is_kept = token.is_kept or token.name in self.ignored
        return token._replace(is_block=is_block or token.name in self.splitting, is_kept=is_kept)


@dataclass(frozen=True)
class MarkupDocument:
    """A document: texts to translate, and markup between them that stays as it is."""

    parts: tuple[str | MarkupText, ...]

    @property
    def texts(self) -> list[str]:
        """The texts to translate, each on one line."""
        return [part.tagged.text for part in self.parts if not isinstance(part, str)]

    @property
    def has_tags(self) -> list[bool]:
        """True for each text that has inline tags."""
        return [bool(part.tagged.tags) for part in self.parts if not isinstance(part, str)]

    def join(self, translations: Sequence[Sequence[LinkedSentence]]) -> str:
        """Return the document with the translated sentences of each text."""
        following = iter(translations)
        return "".join(
            part if isinstance(part, str) else f"{part.before}{part.tagged.render(next(following))}{part.after}"
            for part in self.parts
        )

    def split_sentences(self, sentences: Sequence[LinkedSentence]) -> list[list[LinkedSentence]]:
        """Return the sentences of each text, from those of all texts joined by newlines."""
        found: list[list[LinkedSentence]] = []
        following, start = 0, 0
        for text in self.texts:
            some = []
            while following < len(sentences) and sentences[following].span[0] < start + len(text):
                (first, last), following = sentences[following].span, following + 1
                some.append(sentences[following - 1]._replace(span=(first - start, last - start)))
            found.append(some)
            start += len(text) + 1
        return found


def parse_html(text: str, rules: TagRules | None = None) -> MarkupDocument:
    """Read HTML, a page or a fragment. Broken HTML is read too: a tag without its counterpart separates texts."""
    tokens = html_tokens(text)
    return read_tokens(rules.apply(tokens) if rules else tokens)


def html_tokens(text: str) -> list[Token]:
    """Return tags, texts and other markup, which together are the text."""
    return list(_tokens(text, _HTML))


def parse_xml(text: str, rules: TagRules | None = None) -> MarkupDocument:
    """Read XML; raise ValueError if it is not well-formed.

    An element stands within a text if its parent has text beside it.
    """
    check_xml(text)
    tokens = _mark_blocks(xml_tokens(text))
    return read_tokens(rules.apply(tokens) if rules else tokens)


def check_xml(text: str) -> None:
    """Raise ValueError with the place of the first error if a text is not well-formed XML."""
    parser = expat.ParserCreate("utf-8")
    try:
        parser.Parse(text.removeprefix("\ufeff").encode(errors="surrogatepass"), True)
    except expat.ExpatError as error:
        where = f"line {error.lineno}, column {error.offset + 1}"
        message = expat.errors.messages[error.code]
        raise ValueError(f"{where}: not well-formed XML ({message}): correct the file") from None
    except (LookupError, ValueError) as error:
        raise ValueError(f"not readable as XML ({error}): save the file as UTF-8") from None


def xml_tokens(text: str) -> list[Token]:
    """Return tags, texts and other markup of XML, which together are the text."""
    return list(_tokens(text, _XML))


def _tokens(text: str, pattern: re.Pattern[str]) -> Iterator[Token]:
    """Yield tags, texts and other markup, which together are the text. The content of scripts is one token in HTML."""
    start, last = 0, text.rfind(">") + 1
    while start < len(text):
        first = text.find("<", start, last)
        match = pattern.match(text, first) if first >= 0 else None
        while first >= 0 and match is None:  # a lone < is text
            first = text.find("<", first + 1, last)
            match = pattern.match(text, first) if first >= 0 else None
        end = match.start() if match else len(text)
        if end > start:
            yield Token("text", text[start:end])
        if match is None:
            return
        token, start = _read_tag(match, is_html=pattern is _HTML), match.end()
        yield token
        if pattern is _HTML and token.kind == "open" and token.name in _RAW:
            closing = re.compile(rf"</{token.name}(?=[\s/>])", re.IGNORECASE).search(text, start)
            end = closing.start() if closing else len(text)
            if end > start:
                yield Token("other", text[start:end], is_block=token.is_block)
            start = end


def _read_tag(match: re.Match[str], is_html: bool) -> Token:
    name, raw = match["name"], match[0]
    if name is None:
        return Token("other", raw, is_block=is_html and raw[:9].upper() == "<!DOCTYPE")
    folded = name.lower()
    is_block = is_html and folded in _BLOCKS
    if match["slash"]:
        return Token("close", raw, folded if is_html else name, is_block)
    is_kept = folded in _KEPT or bool(_NOT_TRANSLATED.search(match["attributes"]))
    if raw.endswith("/>") or (is_html and folded in _VOID):
        return Token("void", raw, folded, is_block, is_kept, is_break=is_html and folded not in _JOINING)
    return Token("open", raw, folded if is_html else name, is_block, is_kept)


def _mark_blocks(tokens: list[Token]) -> list[Token]:
    """Mark the elements of XML that begin and end a text: those whose parent has no text beside them."""
    has_text: list[bool] = [False]
    parents: list[int] = [0]
    owners = []
    for token in tokens:
        owners.append(parents[-2] if token.kind == "close" and len(parents) > 1 else parents[-1])
        if token.kind == "text" and token.raw.strip():
            has_text[parents[-1]] = True
        elif token.kind == "open":
            parents.append(len(has_text))
            has_text.append(False)
        elif token.kind == "close" and len(parents) > 1:
            parents.pop()
    return [
        token if token.kind == "text" else token._replace(is_block=not has_text[owner])
        for token, owner in zip(tokens, owners, strict=True)
    ]


def read_tokens(tokens: Sequence[Token], codec: TextCodec | None = None) -> MarkupDocument:
    """Divide tokens into texts with their inline tags, and markup between them.

    `codec` reads and writes text; None: text has entities.
    """
    parts: list[str | MarkupText] = []
    run: list[Token] = []
    for token in _keep_elements(tokens):
        if token.is_block:
            parts += [*_read_run(run, codec), token.raw]
            run = []
        else:
            run.append(token)
    return MarkupDocument((*parts, *_read_run(run, codec)))


def _keep_elements(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield the tokens; an element that is not translated becomes one token of the kind "other"."""
    ends = _find_ends(tokens)
    i = 0
    while i < len(tokens):
        token, end = tokens[i], ends.get(i)
        if token.is_kept and token.kind == "open" and end is None and token.is_block:
            end = next((j - 1 for j in range(i + 1, len(tokens)) if tokens[j].is_block), len(tokens) - 1)
        if token.is_kept and token.kind == "open" and end is not None:
            raw = "".join(one.raw for one in tokens[i : end + 1])
            yield Token("other", raw, token.name, token.is_block, is_kept=True)
            i = end + 1
        else:
            yield token
            i += 1


def _find_ends(tokens: Sequence[Token]) -> dict[int, int]:
    """Return the index of the closing tag of each opening tag that has one."""
    open_: dict[str, list[int]] = {}
    ends = {}
    for i, token in enumerate(tokens):
        if token.kind == "open":
            open_.setdefault(token.name, []).append(i)
        elif token.kind == "close" and open_.get(token.name):
            ends[open_[token.name].pop()] = i
    return ends


def _read_run(run: Sequence[Token], codec: TextCodec | None) -> Iterator[str | MarkupText]:
    """Yield the texts of tokens without a block between them, divided at tags without a counterpart."""
    pairs = _match_tags(run)
    start = 0
    for i, token in enumerate(run):
        if token.kind in ("open", "close") and i not in pairs:
            yield from _read_text(run[start:i], pairs, start, codec)
            yield token.raw
            start = i + 1
    yield from _read_text(run[start:], pairs, start, codec)


def _match_tags(run: Sequence[Token]) -> dict[int, int]:
    """Return the indices of matching tags, each to the other, without elements that have a lone tag inside."""
    stack: list[int] = []
    pairs: list[Span] = []
    for i, token in enumerate(run):
        if token.kind == "open" and len(stack) < _DEEPEST:
            stack.append(i)
        elif token.kind == "close":
            depth = next((d for d in reversed(range(len(stack))) if run[stack[d]].name == token.name), None)
            if depth is not None:
                pairs.append((stack[depth], i))
                del stack[depth:]
    matched = {i for pair in pairs for i in pair}
    lone = [0]
    for i, token in enumerate(run):
        lone.append(lone[-1] + (token.kind in ("open", "close") and i not in matched))
    whole = [(i, j) for i, j in pairs if lone[i] == lone[j]]
    return dict(whole) | {j: i for i, j in whole}


def _read_text(
    run: Sequence[Token], pairs: dict[int, int], offset: int, codec: TextCodec | None
) -> Iterator[str | MarkupText]:
    """Yield one text with its tags, or its markup if there is nothing to translate."""
    raw = "".join(token.raw for token in run)
    first, last = 0, len(run)
    while first < last:  # tags and white space at both ends stay outside the text
        if _is_empty(run[first]):
            first += 1
        elif _is_empty(run[last - 1]):
            last -= 1
        elif run[first].kind == "open" and pairs[offset + first] - offset == last - 1:
            first, last = first + 1, last - 1
        else:
            break
    inner = run[first:last]
    reader = _TextReader(inner, {i - offset - first: j - offset - first for i, j in pairs.items()}, codec)
    tagged = reader.read()
    if tagged is None:
        yield raw
        return
    before, after = ("".join(token.raw for token in some) for some in (run[:first], run[last:]))
    yield MarkupText(before + reader.before, tagged, reader.after + after)


def _is_empty(token: Token) -> bool:
    if token.kind == "text":
        return not token.raw.strip(_BLANK)
    return token.kind == "void" or (token.kind == "other" and not token.is_kept)


@dataclass
class _TextReader:
    """Reads the tokens of one text: its plain text, with white space as in a browser, and the tree of its tags."""

    run: Sequence[Token]
    pairs: dict[int, int]
    codec: TextCodec | None = None
    text: str = ""
    before: str = ""
    """White space before the text."""
    after: str = ""
    spellings: dict[str, str] = field(default_factory=dict)
    """The entities in which the source writes characters."""
    num_codes: int = 0
    raw: str = ""
    """All characters of the text, as written."""

    def read(self) -> TaggedText | None:
        """Return the text; None if there is no letter to translate."""
        self.raw = "".join(token.raw for token in self.run if token.kind == "text")
        if not _LETTER.search(_ENTITY.sub(_unescape_letter, self.raw)):
            return None
        tags = self._read(0, len(self.run))
        stripped = self.text.rstrip(" ")
        tags = tuple(_limit(tag, len(stripped)) for tag in tags)
        return TaggedText(stripped, tags, self.codec.encode if self.codec else _Escape(self.spellings))

    def _read(self, start: int, end: int) -> tuple[InlineTag, ...]:
        tags: list[InlineTag] = []
        i = start
        while i < end:
            token = self.run[i]
            if token.kind == "text":
                tags += self._read_characters(token.raw, i)
                i += 1
            elif token.is_kept and token.kind == "other":
                tags.append(self._add_code(token.raw))
                i += 1
            else:
                stop = self._end_of_point(i, end)
                if stop > i:
                    tags.append(self._add_point(i, stop))
                    i = stop
                else:
                    close = self.pairs[i]
                    begin = len(self.text)
                    inner = self._read(i + 1, close)
                    tags.append(InlineTag(begin, len(self.text), token.raw, self.run[close].raw, inner))
                    i = close + 1
        return tuple(tags)

    def _end_of_point(self, start: int, end: int) -> int:
        """Return the end of the tags without words that begin at a token, with the white space between them."""
        stop = i = start
        while i < end:
            token = self.run[i]
            if token.kind == "open" and self._is_wordless(i):
                stop = i = self.pairs[i] + 1
            elif token.kind in ("void", "other") and not (token.is_kept and token.kind == "other"):
                stop = i = i + 1
            elif token.kind == "text" and _is_empty(token):
                i += 1
            else:
                break
        return stop

    def _is_wordless(self, start: int) -> bool:
        """Return True for an element without text, and for a note such as <sup>1</sup>."""
        inner = self.run[start + 1 : self.pairs[start]]
        if any(token.is_kept and token.kind == "other" for token in inner):
            return False
        if self.run[start].name == "sup" and start:
            text = "".join(token.raw for token in inner if token.kind == "text")
            return not _LETTER.search(_ENTITY.sub(_unescape_letter, text))
        return all(token.kind != "text" or _is_empty(token) for token in inner)

    def _add_point(self, start: int, stop: int) -> InlineTag:
        raw = "".join(token.raw for token in self.run[start:stop])
        previous = self.run[start - 1].raw if start and self.run[start - 1].kind == "text" else ""
        following = self.run[stop].raw if stop < len(self.run) and self.run[stop].kind == "text" else ""
        before = previous[len(previous.rstrip(_BLANK)) :]
        after = following[: len(following) - len(following.lstrip(_BLANK))]
        is_break = any(token.is_break for token in self.run[start:stop])
        if is_break and not before and not after:
            self._add_space()
        at = len(self.text)
        return InlineTag(at, at, raw, gap=(before, after) if is_break or (before and after) else None)

    def _add_space(self) -> None:
        if self.text and not self.text.endswith(" "):
            self.text += " "

    def _add_code(self, raw: str) -> InlineTag:
        """Add a word that stands for content that is not translated: models copy X1 well, and it is protected."""
        self.num_codes += 1
        while f"X{self.num_codes}" in self.raw:
            self.num_codes += 1
        code, begin = f"X{self.num_codes}", len(self.text)
        self.text += code
        return InlineTag(begin, len(self.text), raw, code=code)

    def _read_characters(self, raw: str, index: int) -> Iterator[InlineTag]:
        """Add text, with entities as characters and runs of white space as one space."""
        if index == 0:
            self.before = raw[: len(raw) - len(raw.lstrip(_BLANK))]
        if index == len(self.run) - 1:
            self.after = raw[len(raw.rstrip(_BLANK)) :]
        if self.codec:
            self._add_text(self.codec.decode(raw))
            return
        position = 0
        for entity in _ENTITY.finditer(raw):
            self._add_text(raw[position : entity.start()])
            position = entity.end()
            plain = unescape(entity[0])
            if plain == entity[0] and plain.endswith(";"):  # defined in a DTD
                yield self._add_code(plain)
            elif len(plain) == 1 and unicodedata.category(plain) in ("Cc", "Cf") and plain not in _JOINERS:
                yield InlineTag(len(self.text), len(self.text), entity[0])
            else:
                self.text += plain
                if len(plain) == 1 and not (plain.isascii() and plain.isalnum()) and plain != " ":
                    self.spellings[plain] = entity[0]
        self._add_text(raw[position:])

    def _add_text(self, raw: str) -> None:
        if "&" in raw:
            self.spellings.setdefault("&", "&")
        if ">" in raw:
            self.spellings.setdefault(">", ">")
        for i, part in enumerate(_SPACE.split(raw)):
            if i:
                self._add_space()
            self.text += part


def _unescape_letter(entity: re.Match[str]) -> str:
    plain = unescape(entity[0])
    return "" if plain == entity[0] and plain.endswith(";") else plain


def _limit(tag: InlineTag, end: int) -> InlineTag:
    """Return a tag that ends with its text."""
    children = tuple(_limit(child, end) for child in tag.children)
    return InlineTag(min(tag.start, end), min(tag.end, end), tag.opening, tag.closing, children, tag.code, tag.gap)


_NAME_START: Final = re.compile(r"[A-Za-z\d#]")


@dataclass(frozen=True)
class _Escape:
    """Writes plain text as markup, with the entities that the source has; & and < are always escaped."""

    spellings: dict[str, str]

    def __call__(self, text: str) -> str:
        return "".join(self._spell(letter, text[i + 1 : i + 2]) for i, letter in enumerate(text))

    def _spell(self, letter: str, following: str) -> str:
        spelling = self.spellings.get(letter)
        if letter == "&" and spelling in (None, "&"):
            is_bare = spelling and following and not _NAME_START.match(following)
            return "&" if is_bare else "&amp;"
        return spelling or {"<": "&lt;", ">": "&gt;"}.get(letter, letter)
