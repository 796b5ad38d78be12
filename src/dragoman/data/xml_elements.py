"""Read the elements of an XML file one by one, in bounded memory, and safely even if the file is hostile.

The parser is expat, directly: it needs no other package, builds no document, and never opens another file. Here are the
limits that it does not have: no declared entities, which can expand to any size, and a maximum size per element.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from dragoman.io.streams import read_decompressed

MAX_BYTES: Final = 4 << 20
"""The maximum size of an element that is read, and of any tag or comment."""

_MAX_DEPTH: Final = 100
_DAMAGED: Final = "export the file again, or repair it with xmllint --recover"


class XmlElement(NamedTuple):
    """An element and the number of the line where it begins; names of elements are without namespaces."""

    line: int
    element: Element


def read_elements(
    address: str, root: str, names: frozenset[str], opening: frozenset[str] = frozenset()
) -> Iterator[XmlElement]:
    """Yield the elements with these names, in order, and of the elements in `opening` only their attributes.

    Raise ValueError with the line if the file is not XML, has another root element, declares entities, or has an
    element larger than MAX_BYTES.
    """
    parser = _ElementParser(address, root, names, opening)
    for block in read_decompressed(address):
        yield from parser.parse(block)
    yield from parser.parse(b"", is_end=True)


class _ElementParser:
    """Collects the elements that end in a block."""

    def __init__(self, address: str, root: str, names: frozenset[str], opening: frozenset[str]) -> None:
        self.address, self.root, self.names, self.opening = address, root, names, opening
        self.elements: list[XmlElement] = []
        self.builder: TreeBuilder | None = None
        self.depth = self.first_depth = self.first_line = self.first_byte = self.num_bytes = 0
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.EntityDeclHandler = self._refuse_declaration
        self.parser.SkippedEntityHandler = self._refuse_unknown

    def parse(self, block: bytes, is_end: bool = False) -> list[XmlElement]:
        """Return the elements that end in the next block of the file."""
        self.num_bytes += len(block)
        try:
            self.parser.Parse(block, is_end)
        except expat.ExpatError as error:
            wrong = expat.errors.messages.get(error.code, str(error))
            raise ValueError(f"{self.address}, line {error.lineno}: not valid XML ({wrong}): {_DAMAGED}") from None
        except (LookupError, ValueError) as error:
            if str(error).startswith(self.address):
                raise
            raise ValueError(f"{self.address}: {error}: convert the file to UTF-8 with iconv") from None
        self._check_size()
        elements, self.elements = self.elements, []
        return elements

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        local = name.rpartition(":")[2] if ":" in name else name
        if not self.depth and local != self.root:
            raise self._error(f"the file begins with <{local}>, not with <{self.root}>", "check the file extension")
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self._error(f"more than {_MAX_DEPTH} elements inside each other", _DAMAGED)
        if self.builder is not None:
            self.builder.start(local, attributes)
            return
        if local in self.opening:
            self.elements.append(XmlElement(self.parser.CurrentLineNumber, Element(local, attributes)))
        if local in self.names:
            self.builder = TreeBuilder()
            self.builder.start(local, attributes)
            self.parser.CharacterDataHandler = self.builder.data
            self.first_depth, self.first_line = self.depth, self.parser.CurrentLineNumber
            self.first_byte = self.parser.CurrentByteIndex

    def _end(self, name: str) -> None:
        if self.builder is not None:
            self.builder.end(name)
            if self.depth == self.first_depth:
                self.elements.append(XmlElement(self.first_line, self.builder.close()))
                self.builder = self.parser.CharacterDataHandler = None
        self.depth -= 1

    def _check_size(self) -> None:
        """Raise ValueError if the element or the tag that goes on in the next block is too large."""
        if self.builder is not None and self.num_bytes - self.first_byte > MAX_BYTES:
            wrong = f"an element of more than {MAX_BYTES >> 20} MiB begins in line {self.first_line}"
            raise self._error(wrong, "remove it, or split it")
        if self.num_bytes - self.parser.CurrentByteIndex > MAX_BYTES:
            raise self._error(f"a tag or comment has more than {MAX_BYTES >> 20} MiB", _DAMAGED)

    def _refuse_declaration(self, name: str, *_: object) -> None:
        raise self._error(f"the file declares the entity {name!r}", "write the text itself, and remove the declaration")

    def _refuse_unknown(self, name: str, *_: object) -> None:
        raise self._error(f"unknown entity &{name};", "write the character itself")

    def _error(self, wrong: str, fix: str) -> ValueError:
        return ValueError(f"{self.address}, line {self.parser.CurrentLineNumber}: {wrong}: {fix}")
