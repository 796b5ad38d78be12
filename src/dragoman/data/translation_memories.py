"""Readers of translation memories and message catalogues: TMX, XLIFF 1.2 and 2, and PO.

A unit of such a file has a text in each of two or more languages. Inline codes are left out, and each run of spaces and
line breaks becomes one space. What a file marks as not translated is left out. TMX and XLIFF files are read in bounded
memory; polib reads a PO file as a whole.
"""

import re
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, NamedTuple
from xml.etree.ElementTree import Element

from dragoman.data.corpus_formats import RawPairs, join_lines, to_blocks
from dragoman.data.xml_elements import read_elements
from dragoman.io.streams import read_decompressed

UnitFormat = Literal["tmx", "xliff", "po"]

SOURCE: Final = "source"
TARGET: Final = "target"
"""The names of the sides in files that do not name their languages."""

_NATIVE_CODE: Final = {"bpt", "ept", "ph", "it", "ut", "sub", "x", "bx", "ex", "sc", "ec", "sm", "em", "cp"}
"""Inline elements that hold markup of the original document. All others, such as hi, g, pc and mrk, hold text."""

_UNTRANSLATED: Final = {"new", "needs-translation", "initial"}
"""States of segments: the first two of XLIFF 1.2, the last of XLIFF 2."""

_MAX_PO_BYTES: Final = 256 << 20


class Unit(NamedTuple):
    """The texts of a unit by language, the source language first, and the number of the line where it begins."""

    line: int
    texts: dict[str, str]


def read_tmx(address: str, source: str = SOURCE, target: str = TARGET) -> Iterator[RawPairs]:
    """Yield the pairs of a TMX file in two languages.

    `source` and `target` are language codes; `en` includes `en-US`. By default, the file must have two languages, and
    the one that the file calls its source language is the source.
    """
    return to_blocks(_choose_sides(address, _read_tmx_units(address), source, target))


def read_xliff(address: str, source: str = SOURCE, target: str = TARGET) -> Iterator[RawPairs]:
    """Yield the pairs of an XLIFF file, by default from its source to its target language."""
    return to_blocks(_choose_sides(address, _read_xliff_units(address), source, target))


def read_po(address: str, source: str = SOURCE, target: str = TARGET) -> Iterator[RawPairs]:
    """Yield the pairs of a PO file: translated messages that are neither fuzzy nor obsolete.

    A message with plural forms gives two pairs: its singular with the first form, and its plural with the last.
    """
    return to_blocks(_choose_sides(address, _read_po_units(address), source, target))


def find_unit_languages(address: str, file_format: UnitFormat) -> tuple[str, str] | None:
    """Return the names of the sides in the first unit with two texts, or None if there is no such unit."""
    units = {"tmx": _read_tmx_units, "xliff": _read_xliff_units, "po": _read_po_units}[file_format](address)
    for unit in units:
        if len(unit.texts) > 1:
            source, target, *_ = unit.texts
            return source, target
    return None


def normal_code(code: str) -> str:
    """Return a language code in lower case with hyphens: en-us for EN_US."""
    return code.strip().lower().replace("_", "-")


def _choose_sides(address: str, units: Iterable[Unit], source: str, target: str) -> Iterator[tuple[str, str]]:
    """Yield source and target of each unit that has both languages."""
    is_automatic = {source, target} == {SOURCE, TARGET}
    names = None if is_automatic else (normal_code(source), normal_code(target))
    languages: dict[str, None] = {}
    num_pairs = 0
    for unit in units:
        if not unit.texts.keys() <= languages.keys():
            languages |= dict.fromkeys(unit.texts)
        if is_automatic and len(languages) > 2:
            wrong = f"{len(languages)} languages ({', '.join(languages)})"
            raise ValueError(f"{address}, line {unit.line}: {wrong}: {_choice(*languages)}")
        if names is None and len(unit.texts) == 2:
            first, second = unit.texts
            names = (first, second) if source == SOURCE else (second, first)
        if names is None:
            continue
        left, right = (_find_text(unit.texts, name) for name in names)
        if left is not None and right is not None:
            num_pairs += 1
            yield left, right
    if not num_pairs:
        if names is None or len(languages) < 2:
            raise ValueError(f"{address}: no unit has a translation: give a file with translated units")
        wrong = f"no unit has both {source} and {target} (languages: {', '.join(languages)})"
        raise ValueError(f"{address}: {wrong}: {_choice(*languages)}")


def _choice(first: str, second: str, *_: str) -> str:
    keys = f"source_field: {first} and target_field: {second} of the corpus in a recipe"
    return f"choose two, as in --fields {first},{second} (or {keys})"


def _find_text(texts: dict[str, str], name: str) -> str | None:
    """Return the text in a language; `en` includes `en-us` if there is no text in `en` itself."""
    if name in texts:
        return texts[name]
    return next((text for language, text in texts.items() if language.startswith(f"{name}-")), None)


def _read_tmx_units(address: str) -> Iterator[Unit]:
    source = ""
    for line, element in read_elements(address, "tmx", frozenset({"tu"}), frozenset({"header"})):
        if element.tag == "header":
            source = normal_code(element.get("srclang", ""))
            continue
        texts: dict[str, str] = {}
        for variant in element.iterfind("tuv"):
            segment = variant.find("seg")
            language = normal_code(variant.get("xml:lang") or variant.get("lang") or "")
            if not language:
                wrong = "a <tuv> of this unit has no xml:lang"
                raise ValueError(f'{address}, line {line}: {wrong}: add its language, as in xml:lang="en"')
            if segment is not None:
                texts.setdefault(language, _text_of(segment))
        yield Unit(line, _source_first(texts, normal_code(element.get("srclang", source))))


def _source_first(texts: dict[str, str], source: str) -> dict[str, str]:
    first = [language for language in texts if language == source or language.startswith(f"{source}-")]
    return {language: texts[language] for language in (*first, *texts)}


def _read_xliff_units(address: str) -> Iterator[Unit]:
    names = (SOURCE, TARGET)
    units, opening = frozenset({"trans-unit", "segment"}), frozenset({"xliff", "file"})
    for line, element in read_elements(address, "xliff", units, opening):
        if element.tag in opening:
            version_1 = (element.get("source-language"), element.get("target-language"))
            version_2 = (element.get("srcLang"), element.get("trgLang"))
            names = _name_sides(*version_1) or _name_sides(*version_2) or names
            continue
        source, target = element.find("source"), element.find("target")
        if source is None or target is None:
            continue
        texts = (_text_of(source), _text_of(target))
        if texts[1] and (target.get("state") or element.get("state")) not in _UNTRANSLATED:
            yield Unit(line, dict(zip(names, texts, strict=True)))


def _name_sides(source: str | None, target: str | None) -> tuple[str, str] | None:
    """Return the language codes of both sides; a side without a code is called `source` or `target`."""
    if not source and not target:
        return None
    names = normal_code(source or SOURCE), normal_code(target or TARGET)
    return names if names[0] != names[1] else (SOURCE, TARGET)


def _text_of(element: Element) -> str:
    return join_lines("".join(_texts_of(element)) if len(element) else element.text or "")


def _texts_of(element: Element) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        if child.tag not in _NATIVE_CODE:
            yield from _texts_of(child)
        elif "lb" in (child.get("type"), child.get("ctype")):  # a line break
            yield " "
        yield child.tail or ""


def _read_po_units(address: str) -> Iterator[Unit]:
    entries = _parse_po(address)
    header = entries.metadata
    names = _name_sides(header.get("X-Source-Language"), header.get("Language")) or (SOURCE, TARGET)
    for entry in entries:
        if not entry.obsolete and not entry.fuzzy:
            for pair in _pairs_of(entry):
                source, target = map(join_lines, pair)
                if target:
                    yield Unit(entry.linenum, dict(zip(names, (source, target), strict=True)))


def _parse_po(address: str) -> Any:
    import polib

    with tempfile.NamedTemporaryFile(suffix=".po") as file:  # given text, polib would split lines at U+2028 too
        size = 0
        for block in read_decompressed(address):
            size += file.write(block)
            if size > _MAX_PO_BYTES:
                raise ValueError(f"{address}: the file has more than {_MAX_PO_BYTES >> 20} MiB: split it")
        file.flush()
        try:
            return polib.pofile(file.name)
        except UnicodeDecodeError as error:
            wrong = f"the text is not {error.encoding}, the charset of the file"
            raise ValueError(f"{address}: {wrong}: correct the charset in the header, or the text") from None
        except OSError as error:
            match = re.search(r"\(line (\d+)\)(?:: (.*))?", str(error))
            line, wrong = (match[1], match[2] or "syntax error") if match else ("1", str(error))
            fix = "fix the line; msgfmt --check finds all errors"
            raise ValueError(f"{address}, line {line}: not valid PO ({wrong}): {fix}") from None


def _pairs_of(entry: Any) -> list[tuple[str, str]]:
    """Return singular and first plural form, and plural and last form; in a language with one form, only the latter."""
    forms = [entry.msgstr_plural[index] for index in sorted(entry.msgstr_plural)]
    if not forms:
        return [(entry.msgid, entry.msgstr)]
    return [*([(entry.msgid, forms[0])] if len(forms) > 1 else []), (entry.msgid_plural, forms[-1])]
