"""Measure what survives a translation: texts with spans of 12 kinds, on the command line and over HTTP.

- `translate_intact`, `http_intact`: share of the spans that come through `dragoman translate` and `/v1/translate`.
  URLs, e-mail addresses, placeholders, tags, code and emoji must be equal; numbers and times must keep their digits.
- `unprotected_intact`: the same share with --no-protect.
- `chrf`, `unprotected_chrf`: chrF of the words around the spans, with and without protection.
- `seconds`, `unprotected_seconds`: time of the two commands, start included.

    python bench/protection.py [--texts 300] [--seed 1] [--model demo] [--show]
"""

import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from report import option_parser, print_values
from sacrebleu.metrics.chrf import CHRF
from serve import service

from dragoman.client import Client

NAMES = ["anna", "tom", "maria", "info", "support", "peter.b", "lisa+news"]
HOSTS = ["example.com", "shop.example.org", "news.example.net", "docs.example.io"]
WORDS = ["user", "count", "title", "city", "price", "item", "date", "file"]
EMOJI = ["😀", "🎉", "👍🏽", "❤️", "👩‍💻", "🇩🇪", "😂😂", "☀️", "🚀", "1️⃣"]

PLACE = [
    ("You can find more information at {}.", "Mehr Informationen finden Sie unter {}."),
    ("I saw the picture at {} yesterday.", "Ich habe das Bild gestern auf {} gesehen."),
    ("Please look at {} before you buy a ticket.", "Bitte sehen Sie sich {} an, bevor Sie eine Karte kaufen."),
    ("We have a new page: {}", "Wir haben eine neue Seite: {}"),
]
MAILBOX = [
    ("Please write to {} if you need help.", "Bitte schreiben Sie an {}, wenn Sie Hilfe brauchen."),
    ("She sent the letter to {} last week.", "Sie hat den Brief letzte Woche an {} geschickt."),
    ("My new address is {}.", "Meine neue Adresse ist {}."),
]
PERSON = [
    ("{} has a new car.", "{} hat ein neues Auto."),
    ("Where is {} now?", "Wo ist {} jetzt?"),
    ("I met {} at the station.", "Ich habe {} am Bahnhof getroffen."),
    ("Hello {}, how are you today?", "Hallo {}, wie geht es dir heute?"),
    ("I want to speak to {} about the book.", "Ich möchte mit {} über das Buch sprechen."),
]
CODE = [
    ("What does {} mean?", "Was bedeutet {}?"),
    ("Do not write {} in this file.", "Schreiben Sie {} nicht in diese Datei."),
    ("The program begins with {}.", "Das Programm beginnt mit {}."),
]
MARKED = [
    ("This is a very {}old{} house.", "Das ist ein sehr {}altes{} Haus."),
    ("Please close {}the window{}.", "Bitte schließen Sie {}das Fenster{}."),
    ("I {}really{} love you.", "Ich liebe dich {}wirklich{}."),
]
FEELING = [
    ("Thank you very much {}", "Vielen Dank {}"),
    ("I love you {} and I miss you.", "Ich liebe dich {} und ich vermisse dich."),
    ("{} Good morning!", "{} Guten Morgen!"),
    ("It is very hot today. {}", "Es ist heute sehr heiß. {}"),
]
COUNTED = [
    ("There are {} people in the room.", "Es sind {} Menschen im Zimmer."),
    ("I bought {} books.", "Ich habe {} Bücher gekauft."),
    ("My father worked here for {} years.", "Mein Vater hat hier {} Jahre gearbeitet."),
]
PRICED = [
    ("The house costs {} euros.", "Das Haus kostet {} Euro."),
    ("He paid {} dollars for the car.", "Er hat {} Dollar für das Auto bezahlt."),
]
TIMED = [
    ("The train leaves at {}.", "Der Zug fährt um {} ab."),
    ("I will be at home at {}.", "Ich werde um {} zu Hause sein."),
    ("Can you come to the station at {}?", "Kannst du um {} zum Bahnhof kommen?"),
]
FENCED = [("Here is an example.\n{}\nDo you understand it?", "Hier ist ein Beispiel.\n{}\nVerstehst du es?")]
PLAIN = [
    ("It was cold yesterday.", "Gestern war es kalt."),
    ("The children are in the garden.", "Die Kinder sind im Garten."),
    ("I do not know what to say.", "Ich weiß nicht, was ich sagen soll."),
    ("We will go home soon.", "Wir gehen bald nach Hause."),
]


def draw_url(draw: random.Random) -> list[str]:
    tail = draw.choice(["", "/", "/a/b.html", "/search?q=red+car&page=2", "/de/index.php#top", ":8080/x_y-z/"])
    return [f"{draw.choice(['https', 'http'])}://{draw.choice(['www.', ''])}{draw.choice(HOSTS)}{tail}"]


def draw_amount(draw: random.Random) -> list[str]:
    return [draw.choice([f"{draw.randint(1, 99)}.{draw.randint(10, 99)}", f"{draw.randint(1000, 999_999):,}"])]


def draw_fence(draw: random.Random) -> list[str]:
    lines = [f"{draw.choice(WORDS)} = {draw.randint(1, 9)}", f"print({draw.choice(WORDS)}, 'Hello world.')"]
    fence = draw.choice(["```", "~~~"])
    return ["\n".join([fence + draw.choice(["", "python"]), *draw.sample(lines, draw.randint(1, 2)), fence])]


def draw_tag(draw: random.Random) -> list[str]:
    name, more = draw.choice([("b", ""), ("em", ""), ("a", ' href="https://example.com/x"'), ("span", ' class="w"')])
    return [f"<{name}{more}>", f"</{name}>"]


def draw_code(draw: random.Random) -> list[str]:
    inside = ["pip install x", "for i in range(3):", "ls -l", "x = 5", "a.b()", "NULL"]
    return [f"`{draw.choice(inside)}`"]


Draw = Callable[[random.Random], list[str]]
KINDS: dict[str, tuple[list[tuple[str, str]], Draw]] = {
    "url": (PLACE, draw_url),
    "e-mail": (MAILBOX, lambda draw: [f"{draw.choice(NAMES)}@{draw.choice(HOSTS)}"]),
    "brace": (PERSON, lambda draw: [draw.choice(["{{{}}}", "${{{}}}", "{{{}_name}}"]).format(draw.choice(WORDS))]),
    "template": (PERSON, lambda draw: [f"{{{{ {draw.choice(WORDS)}.name }}}}"]),
    "printf": (PERSON, lambda draw: [draw.choice(["%s", "%1$s", f"%({draw.choice(WORDS)})s", "%@"])]),
    "tag": (MARKED, draw_tag),
    "code": (CODE, draw_code),
    "fence": (FENCED, draw_fence),
    "emoji": (FEELING, lambda draw: [draw.choice(EMOJI)]),
    "number": (COUNTED, lambda draw: [str(draw.choice([draw.randint(2, 99), draw.randint(100, 99_999)]))]),
    "amount": (PRICED, draw_amount),
    "time": (TIMED, lambda draw: [f"{draw.randint(1, 23)}:{draw.randint(0, 59):02}"]),
}
DIGITS = {"number", "amount", "time"}
"""Kinds whose separators may change."""


class SpanText(NamedTuple):
    """A text with its spans by kind, and a reference translation with the same spans."""

    source: str
    reference: str
    spans: list[tuple[str, str]]


def make_texts(count: int, seed: int) -> list[SpanText]:
    """Return texts of one to three sentences; the kinds take turns."""
    draw, texts = random.Random(seed), []
    for i in range(count):
        first = list(KINDS)[i % len(KINDS)]
        kinds = [first] if first == "fence" else [first, *draw.sample([k for k in KINDS if k != "fence"], i % 2)]
        source, reference, spans = [], [], []
        for kind in kinds:
            carriers, draw_spans = KINDS[kind]
            values = draw_spans(draw)
            english, german = draw.choice(carriers)
            source.append(english.format(*values))
            reference.append(german.format(*values))
            spans += [(kind, value) for value in values]
        english, german = draw.choice(PLAIN)
        glue = "\n" if first == "fence" else " "
        texts.append(SpanText(glue.join([*source, english]), glue.join([*reference, german]), spans))
    return texts


def span_pattern(kind: str, span: str) -> str:
    """Return a pattern of the span; the separators of a number may be others."""
    if kind not in DIGITS:
        return re.escape(span)
    digits = r"[.,:'\u2019\xa0\u202f ]".join(re.split(r"\D", span))
    return rf"(?<!\d){digits}(?!\d)"


def take_out(text: SpanText, written: str) -> tuple[str, list[bool]]:
    """Return the translation without the text's spans, and for each span True if it was there."""
    is_intact = []
    for kind, span in text.spans:
        written, found = re.subn(span_pattern(kind, span), "", written, count=1)
        is_intact.append(found == 1)
    return written, is_intact


def run_command(texts: list[SpanText], model: str, *words: str) -> tuple[list[str], float]:
    """Translate with the command line, as JSON lines; return the translations and the seconds."""
    with tempfile.TemporaryDirectory() as folder:
        given, written = Path(folder) / "in.jsonl", Path(folder) / "out.jsonl"
        given.write_text("".join(json.dumps({"text": text.source}) + "\n" for text in texts), encoding="utf-8")
        command = [sys.executable, "-m", "dragoman", "translate", model, "--input", str(given)]
        begin = time.perf_counter()
        subprocess.run([*command, "--output", str(written), *words], check=True)
        seconds = time.perf_counter() - begin
        return [json.loads(line)["translation"] for line in written.read_text("utf-8").splitlines()], seconds


def run_service(texts: list[SpanText], model: str) -> list[str]:
    with service(model) as (url, _), Client(url) as client:
        return [client.translate(text.source).text for text in texts]


def measure(name: str, texts: list[SpanText], written: list[str]) -> tuple[float, float]:
    """Return the share of spans that are intact and the chrF of the rest; print the spans lost by kind."""
    rests, lost, total = [], Counter[str](), 0
    for text, translation in zip(texts, written, strict=True):
        rest, is_intact = take_out(text, translation)
        rests.append(rest)
        total += len(is_intact)
        lost += Counter(kind for (kind, _), intact in zip(text.spans, is_intact, strict=True) if not intact)
    references = [take_out(text, text.reference)[0] for text in texts]
    chrf = CHRF().corpus_score(rests, [references]).score
    losses = ", ".join(f"{kind} {count}" for kind, count in lost.most_common()) or "none"
    print(f"{name}: {total - lost.total()} of {total} spans intact, chrF of the rest {chrf:.1f}; lost: {losses}")
    return 1 - lost.total() / total, chrf


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("--texts", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", default="demo")
    parser.add_argument("--show", action="store_true", help="print the texts and their translations")
    options = parser.parse_args()
    texts = make_texts(options.texts, options.seed)
    protected, seconds = run_command(texts, options.model)
    plain, unprotected_seconds = run_command(texts, options.model, "--no-protect")
    if options.show:
        for text, *translations in zip(texts, plain, protected, strict=True):
            print(text.source, *translations, text.reference, "", sep="\n")
    intact, chrf = measure("translate", texts, protected)
    http_intact, _ = measure("http", texts, run_service(texts, options.model))
    unprotected_intact, unprotected_chrf = measure("translate --no-protect", texts, plain)
    values = {
        "texts": len(texts),
        "translate_intact": intact,
        "http_intact": http_intact,
        "unprotected_intact": unprotected_intact,
        "chrf": chrf,
        "unprotected_chrf": unprotected_chrf,
        "seconds": seconds,
        "unprotected_seconds": unprotected_seconds,
    }
    print_values("protection", values)


if __name__ == "__main__":
    main()
