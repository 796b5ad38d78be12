"""Measure HTML end to end: whole documents through the service, and tags in sentences whose word links are known.

Documents have sentences of Tatoeba 2021 ($DRAGOMAN_DATA) in paragraphs, lists and tables, with inline elements nested
up to three deep. The service translates them by POST /translate_file; the first three also go through `dragoman
translate --input`, which has to write the same bytes.

- `well_formed`: share of the documents that Python's HTML parser reads with every element closed inside its parent.
- `kept`: share of the documents with the same elements, each with its attributes and inside the same elements.
- `text_chrf`, `plain_chrf`: chrF of the text of the translated documents against the references, and of `dragoman
  translate` for the same paragraphs without tags.

Sentences with known links are made of words whose German forms are listed here, in several word orders; elements are
around 1 to 4 words. A sentence is known if each of its words is found in the translation once, and each word of the
translation belongs to a word. An auxiliary that English does not have belongs to the verb, and may be inside or
outside, like a contraction (`im`) of which an element has one half.

- `known`: share of the sentences that are known.
- `right`: share of the elements in known sentences that have exactly the words that belong to theirs. Elements whose
  words are apart in the translation cannot be right, and are not counted.

    python bench/documents.py [--model demo] [--documents 500] [--sentences 1000] [--seed 1] [--show]
"""

import html
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

import httpx
from markup import nested_spans, tag_words
from report import option_parser, print_values
from sacrebleu.metrics.chrf import CHRF
from serve import NO_REJECTION, service
from texts import DATA, read_lines

NUM_COMPARED = 3
"""Documents that go through the command line too."""
INLINE = ("b", "i", "em", "strong", "a", "span", "u", "mark", "small")
ATTRIBUTES = (
    "", ' class="note"', " class='a b'", ' id="x{0}" title="5 &gt; 3 &amp; 2"', ' href="https://example.org/?a={0}&amp;b=2"',
    " data-n={0}", ' lang="en" hidden', ' style="color: red; margin: 0"',
)  # fmt: skip
POINTS = ("<br>", "<br/>", '<img src="p{0}.png" alt="A dog">', "<!-- note {0} -->")
"""Tags without content, which stand between words."""
BLOCKS = ("p", "li", "td", "h2")
VOID = {"br", "img"}

PEOPLE = {
    "man": "Mann", "woman": "Frau", "dog": "Hund", "child": "Kind", "teacher": "Lehrer(in)?", "cat": "Katze",
    "doctor": "Arzt|Ärztin", "girl": "Mädchen", "boy": "Junge", "friend": "Freund(in)?", "brother": "Bruder",
    "sister": "Schwester", "student": "Schüler|Student|Studentin|Schülerin",
}  # fmt: skip
THINGS = {
    "book": "Buch", "car": "Auto|Wagen", "house": "Haus", "letter": "Brief", "apple": "Apfel", "key": "Schlüssel",
    "bicycle": "Fahrrad", "picture": "Bild|Foto", "newspaper": "Zeitung", "computer": "Computer|Rechner",
    "hat": "Hut", "flower": "Blume", "table": "Tisch|Tabelle", "camera": "Kamera",
}  # fmt: skip
PLACES = {
    "garden": "Garten", "kitchen": "Küche", "city": "Stadt", "school": "Schule", "park": "Park", "station": "Bahnhof",
    "library": "Bibliothek|Bücherei", "street": "Straße",
}  # fmt: skip
OF_PEOPLE = {"old": "alt", "young": "jung", "small": "klein", "new": "neu", "tall": "groß", "sad": "traurig"}
OF_THINGS = {
    "old": "alt", "red": "rot", "big": "groß", "small": "klein", "new": "neu", "black": "schwarz", "blue": "blau",
    "beautiful": "schön|wunderschön", "expensive": "teuer|teur", "green": "grün", "heavy": "schwer",
}  # fmt: skip
VERBS = {  # past, infinitive, participle: their German forms
    ("bought", "buy", "bought"): "kauf(en|t|te)|gekauft",
    ("saw", "see", "seen"): "sehen|sieht|sah|gesehen",
    ("found", "find", "found"): "finden|findet|fand|gefunden",
    ("lost", "lose", "lost"): "verlieren|verliert|verlor|verloren",
    ("sold", "sell", "sold"): "verkauf(en|t|te)",
    ("forgot", "forget", "forgotten"): "vergessen|vergisst|vergaß",
    ("painted", "paint", "painted"): "mal(en|t|te)|gemalt|strich|gestrichen|streichen|streicht",
    ("stole", "steal", "stolen"): "stehlen|stiehlt|stahl|gestohlen",
}
TIMES = {"Yesterday": "gestern", "Today": "heute", "Tomorrow": "morgen"}
ADVERBS = {"always": "immer|stets", "never": "nie|niemals", "often": "oft|häufig"}
ARTICLE = "der|die|das|den|dem|des|ein(e|en|em|er|es)?"
CONTRACTION = "im|am|ins|ans|zum|zur|beim|vom"
PREPOSITION = "in|an|auf|bei"
AUXILIARY = "ha(be|st|t|ben|bt|tte|tten)|wird|werden|würde|kann|können|konnte|muss|musste|müssen"


INFLECTION = "(e?[mnrs]|e)?"
WORD = re.compile(r"\w+")


class KnownWord(NamedTuple):
    """A word of a sentence: English, the pattern of its German forms ("" for none), and its part of speech."""

    text: str
    forms: str
    kind: str = "word"


class KnownSentence:
    """A sentence of known words, with elements around some of them."""

    def __init__(self, draw: random.Random) -> None:
        self.words = list(draw_words(draw))
        self.spans = nested_spans(draw, 0, len(self.words))

    @property
    def source(self) -> str:
        """The sentence as HTML."""
        texts = [word.text for word in self.words]
        return tag_words([texts[0][0].upper() + texts[0][1:], *texts[1:]], self.spans) + "."

    def find_targets(self, target: list[str]) -> tuple[list[set[int]], set[int]] | None:
        """Return the target words of each word, and those that may be inside or outside an element; None if unknown."""
        found: list[set[int]] = []
        for word in self.words:
            pattern = re.compile(f"({word.forms}){INFLECTION if word.kind in ('word', 'noun') else ''}", re.IGNORECASE)
            places = {j for j, text in enumerate(target) if word.forms and pattern.fullmatch(text)}
            found.append(places)
            if word.forms and word.kind not in ("article", "preposition") and len(places) != 1:
                return None
        optional = self._place_articles(found, target)
        if optional is None:
            return None
        (verb,) = (i for i, word in enumerate(self.words) if word.kind == "verb")
        for j in set(range(len(target))) - set().union(*found):
            if not re.fullmatch(AUXILIARY, target[j]):
                return None
            found[verb].add(j)
            optional.add(j)
        return found, optional

    def _place_articles(self, found: list[set[int]], target: list[str]) -> set[int] | None:
        """Keep the target words of articles and prepositions that stand before their noun; return contractions."""
        contractions = set()
        for i, word in enumerate(self.words):
            if word.kind != "article":
                continue
            noun = next(k for k in range(i, len(self.words)) if self.words[k].kind == "noun")
            before = min(j for k in range(i + 1, noun + 1) for j in found[k]) - 1
            has_preposition = i > 0 and self.words[i - 1].kind == "preposition"
            if before >= 0 and has_preposition and re.fullmatch(CONTRACTION, target[before]):
                contractions.add(before)
                found[i] = found[i - 1] = {before}
            elif before not in found[i] or (has_preposition and before - 1 not in found[i - 1]):
                return None
            else:
                found[i] = {before}
                if has_preposition:
                    found[i - 1] = {before - 1}
        return contractions

    def expected(self, found: list[set[int]], optional: set[int]) -> Iterator[tuple[int, set[int], set[int]]]:
        """Yield the number of each element that can be right, the words it must have, and those it may have."""
        for number, (start, end) in enumerate(self.spans):
            ours = set().union(*found[start:end])
            others = set().union(*found[:start], *found[end:])
            needed = ours - (optional & others)
            if len(needed - optional):
                needed -= {j for j in optional if len(found_by(j, found)) == 1}
            if needed and set(range(min(needed), max(needed) + 1)) <= ours:
                yield number, needed, ours


def found_by(j: int, found: list[set[int]]) -> list[int]:
    """Return the words that a target word belongs to."""
    return [i for i, places in enumerate(found) if j in places]


def draw_words(draw: random.Random) -> Iterator[KnownWord]:
    """Yield the words of a sentence."""
    (past, infinitive, participle), forms = draw.choice(list(VERBS.items()))
    form = draw.choice(("past", "past", "future", "perfect", "modal"))
    start = draw.choice(("", "", "time", "that"))
    if start == "time" and form != "perfect":
        time = draw.choice(list(TIMES)) if form != "past" else "Yesterday"
        yield KnownWord(time, TIMES[time])
    if start == "that":
        yield from (KnownWord("I", "ich"), KnownWord("know", "weiß"), KnownWord("that", "dass"))
    yield from noun_phrase("the", PEOPLE, OF_PEOPLE, draw)
    if form == "future":
        yield KnownWord("will", "wird", "auxiliary")
    elif form == "perfect":
        yield KnownWord("has", "hat", "auxiliary")
    elif form == "modal":
        yield from (KnownWord("wants", "will|möchte", "auxiliary"), KnownWord("to", "", "particle"))
    elif draw.random() < 0.3:
        yield KnownWord(*draw.choice(list(ADVERBS.items())))
    yield KnownWord({"past": past, "perfect": participle}.get(form, infinitive), forms, "verb")
    yield from noun_phrase(draw.choice(("the", "a")), THINGS, OF_THINGS, draw)
    if draw.random() < 0.4:
        yield KnownWord("in", PREPOSITION, "preposition")
        yield from noun_phrase("the", PLACES, {}, draw)


def noun_phrase(
    article: str, nouns: dict[str, str], adjectives: dict[str, str], draw: random.Random
) -> Iterator[KnownWord]:
    """Yield an article, an adjective or none, and a noun."""
    noun = draw.choice(list(nouns))
    adjective = draw.choice(list(adjectives)) if adjectives and draw.random() < 0.7 else ""
    yield KnownWord("an" if article == "a" and (adjective or noun)[0] in "aeiou" else article, ARTICLE, "article")
    if adjective:
        yield KnownWord(adjective, adjectives[adjective])
    yield KnownWord(noun, nouns[noun], "noun")


class Page(HTMLParser):
    """A document as Python reads it: its elements with attributes and ancestors, and the text of each block."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.is_well_formed = True
        self.tags: Counter[tuple[str, ...]] = Counter()
        self.texts: list[str] = []
        self.elements: list[dict[int, tuple[int, int]]] = []
        """The characters of each numbered element in the text of each block."""
        self._open: list[tuple[str, str, int, int]] = []
        self.feed(document)
        self.close()
        self.is_well_formed &= not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in BLOCKS:
            self.texts.append("")
            self.elements.append({})
        name = f"{tag} {attrs}"
        self._count(name)
        if tag not in VOID:
            number = next((int(value or 0) for key, value in attrs if key == "n"), -1)
            self._open.append((tag, name, number, len(self.texts[-1]) if self.texts else 0))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._count(f"{tag} {attrs}")

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1][0] != tag:
            self.is_well_formed = False
            return
        _, _, number, start = self._open.pop()
        if number >= 0:
            self.elements[-1][number] = (start, len(self.texts[-1]))

    def handle_comment(self, data: str) -> None:
        self._count(f"comment {data}")

    def handle_data(self, data: str) -> None:
        if any(tag in BLOCKS for tag, *_ in self._open):
            self.texts[-1] += data

    def _count(self, name: str) -> None:
        self.tags[(*(parent for _, parent, *_ in self._open), name)] += 1
        if name.startswith(tuple(VOID)) and self.texts:
            self.texts[-1] += " "


def make_document(pairs: list[tuple[str, str]], draw: random.Random) -> tuple[str, list[str], list[str]]:
    """Return a document, its paragraphs without tags, and their references."""
    parts, plain, references = [], [], []
    for block in draw.choices(BLOCKS, k=8):
        chosen = draw.sample(pairs, draw.randint(1, 3))
        plain.append(" ".join(source for source, _ in chosen))
        references.append(" ".join(target for _, target in chosen))
        parts.append(f"<{block}>{add_tags(plain[-1].split(), draw)}</{block}>")
        parts[-1] = {"li": f"<ul>{parts[-1]}</ul>", "td": f"<table><tr>{parts[-1]}</tr></table>"}.get(block, parts[-1])
    body = "\n  ".join(parts)
    return f'<!DOCTYPE html>\n<html lang="en"><body class=page>\n  {body}\n</body></html>\n', plain, references


def add_tags(words: list[str], draw: random.Random) -> str:
    """Return words with elements, and with tags without content between some of them."""
    words = [html.escape(word, quote=False) for word in words]
    spans = nested_spans(draw, 0, len(words))
    for number, (start, end) in reversed(list(enumerate(spans))):
        name = draw.choice(INLINE)
        words[start] = f"<{name}{draw.choice(ATTRIBUTES).format(number)}>{words[start]}"
        words[end - 1] += f"</{name}>"
    points = [draw.choice(POINTS).format(i) if i and draw.random() < 0.03 else "" for i in range(len(words))]
    return " ".join(f"{point} {word}" if point else word for point, word in zip(points, words, strict=True))


def translate_file(model: str, content: str, folder: Path, name: str) -> str:
    """Return what `dragoman translate` writes for a file."""
    source, target = folder / name, folder / f"out.{name}"
    source.write_bytes(content.encode())
    command = [sys.executable, "-m", "dragoman", "translate", model, "--input", str(source), "--output", str(target)]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    return target.read_bytes().decode()


def serve_files(model: str, contents: list[str]) -> Iterator[str]:
    """Yield what the service returns for each file."""
    with service(model, *NO_REJECTION) as (url, _), httpx.Client(timeout=700) as client:
        for content in contents:
            fields = {"source": "en", "target": "de"}
            sent = client.post(f"{url}translate_file", data=fields, files={"file": ("page.html", content.encode())})
            sent.raise_for_status()
            yield client.get(sent.json()["translatedFileUrl"]).content.decode()


def measure_documents(model: str, count: int, draw: random.Random, folder: Path) -> dict[str, float]:
    """Return the figures of whole documents."""
    sides = (read_lines(DATA / f"tatoeba-en-de/test_2021.{language}.gz") for language in ("en", "de"))
    pairs = [(source, target) for source, target in zip(*sides, strict=True) if source.strip() and target.strip()]
    documents, plain, references = zip(*(make_document(pairs, draw) for _ in range(count)), strict=True)
    results = list(serve_files(model, list(documents)))
    for document, result in zip(documents[:NUM_COMPARED], results, strict=False):
        if translate_file(model, document, folder, "page.html") != result:
            raise SystemExit(f"the service and the command line differ:\n{document}")
    before, after = ([Page(text) for text in texts] for texts in (documents, results))
    lines = [line for of_document in plain for line in of_document]
    expected = [line for of_document in references for line in of_document]
    content = "".join(f"{line}\n" for line in lines)
    translated = translate_file(model, content, folder, "plain.txt").removesuffix("\n").split("\n")
    texts = [" ".join(text.split()) for page in after for text in page.texts]
    return {
        "well_formed": sum(page.is_well_formed for page in after) / count,
        "kept": sum(page.tags == old.tags for page, old in zip(after, before, strict=True)) / count,
        "tags": sum(page.tags.total() for page in before),
        "text_chrf": CHRF().corpus_score(texts, [expected]).score,
        "plain_chrf": CHRF().corpus_score(translated, [expected]).score,
    }


def measure_known(model: str, count: int, draw: random.Random, folder: Path, show: bool) -> dict[str, float]:
    """Return the figures of sentences whose word links are known."""
    sentences = [KnownSentence(draw) for _ in range(count)]
    source = "\n".join(f"<p>{sentence.source}</p>" for sentence in sentences)
    page = Page(translate_file(model, source, folder, "known.html"))
    known = elements = right = 0
    for sentence, text, spans in zip(sentences, page.texts, page.elements, strict=True):
        words = list(WORD.finditer(text))
        found = sentence.find_targets([word[0].lower() for word in words])
        if found is None:
            continue
        known += 1
        for number, needed, allowed in sentence.expected(*found):
            start, end = spans[number]
            inside = {j for j, word in enumerate(words) if start <= word.start() and word.end() <= end}
            elements += 1
            right += needed <= inside <= allowed
            if show and not needed <= inside <= allowed:
                first, last = sentence.spans[number]
                ours = " ".join(word.text for word in sentence.words[first:last])
                print(f"{sentence.source}\n  {text}\n  {ours!r}: {text[start:end]!r}")
    return {"known": known / count, "right": right / max(1, elements), "elements": elements}


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("--model", default="demo", help="a model from English to German")
    parser.add_argument("--documents", type=int, default=500)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="print the elements that are not right")
    options = parser.parse_args()
    draw = random.Random(options.seed)
    values: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as place:
        if options.sentences:
            values |= measure_known(options.model, options.sentences, draw, Path(place), options.show)
            print("known sentences {known:.1%}, {elements} elements, right {right:.1%}".format(**values))
        if options.documents:
            values |= measure_documents(options.model, options.documents, draw, Path(place))
    print_values("documents", values)


if __name__ == "__main__":
    main()
