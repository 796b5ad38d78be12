"""Score a model on everyday texts, by category, and on a dev set in other letter cases and with typing errors.

    python bench/everyday.py MODEL [--texts FILE.tsv] [--show] [--dev SOURCE TARGET [--lines 1000]]

MODEL is a model's folder, a run's folder or demo. All texts are translated as `dragoman translate` does, with spans
protected. The texts are a table with a header and the columns category, training (seen: the English is also in the
training text; new), english, german and german_2. Scores use both references. BLEU counts sequences of up to four
words, so it is 0 in a category of shorter texts.

--dev scores BLEU on a corpus of one reference four times: as it is; in upper case, source and reference alike; and with
the source alone in title case, or with typing errors, about one per 8 words. A line has the same errors in every
run, with and without --lines.
"""

import random
import string
from pathlib import Path
from typing import NamedTuple

from report import option_parser, print_values
from texts import read_lines

import dragoman
from dragoman.data.text_changes import TextPair, to_title_case, to_upper_case
from dragoman.evaluation.metrics import MetricScore, score_translations

TEXTS = Path(__file__).parent / "everyday_dev.tsv"
WORDS_PER_ERROR = 8
SHORTEST_WORD = 4
AROUND_WORDS = ".,;:!?()\"'„“”\u2019»«-"
"""Characters that may stand beside a word with a typing error; a word with others may be a span, such as {name}."""


class EverydayText(NamedTuple):
    """A row of the table: an English text and two German references."""

    category: str
    training: str
    english: str
    german: str
    german_2: str


def read_texts(path: Path) -> list[EverydayText]:
    """Return the rows of a table of everyday texts."""
    header, *rows = (line.split("\t") for line in read_lines(path))
    if tuple(header) != EverydayText._fields or not rows:
        columns = ", ".join(EverydayText._fields)
        raise SystemExit(f"{path} is no table of texts: give a header, {columns}, and one row per text, tab-separated")
    for number, row in enumerate(rows, 2):
        if len(row) != len(header):
            raise SystemExit(f"{path}, line {number}: {len(row)} columns: give {len(header)}, separated by tabs")
    return [EverydayText(*row) for row in rows]


def mistype(word: str, draw: random.Random) -> str:
    """Return the word with one typing error after its first letter: letters swapped, or one dropped, doubled, replaced.

    A swap of equal letters becomes a drop, so that the word always changes.
    """
    place = draw.randrange(1, len(word) - 1)
    before, letter, following, after = word[:place], word[place], word[place + 1], word[place + 2 :]
    match draw.choice(["swap", "drop", "double", "replace"]):
        case "swap" if letter != following:
            return before + following + letter + after
        case "double":
            return before + letter + letter + following + after
        case "replace":
            other = draw.choice([each for each in string.ascii_lowercase if each != letter.lower()])
            return before + (other.upper() if letter.isupper() else other) + following + after
        case _:
            return before + following + after


def add_typing_errors(line: str, number: int) -> str:
    """Return the line with about one typing error per 8 words; the same line number always draws the same errors."""
    draw, words = random.Random(number), line.split(" ")
    cores = [word.strip(AROUND_WORDS) for word in words]
    places = [place for place, core in enumerate(cores) if core.isalpha() and len(core) >= SHORTEST_WORD]
    count = int(len(words) / WORDS_PER_ERROR + draw.random())
    for place in draw.sample(places, min(count, len(places))):
        words[place] = words[place].replace(cores[place], mistype(cores[place], draw), 1)
    return " ".join(words)


def format_score(score: MetricScore) -> str:
    return f"{score.value:5.1f} ({score.low:5.1f} to {score.high:5.1f})"


def score_groups(texts: list[EverydayText], translations: list[str]) -> dict[str, float]:
    """Print the scores of each category, of all texts and of the new ones; return the figures."""
    pairs = list(zip(texts, translations, strict=True))
    categories = dict.fromkeys(text.category for text in texts)
    groups = {category: [pair for pair in pairs if pair[0].category == category] for category in categories}
    groups |= {"all": pairs, "new": [pair for pair in pairs if pair[0].training == "new"]}
    values: dict[str, float] = {}
    print(f"{'category':10}{'texts':>6}  {'chrF (95 % interval)':24}BLEU (95 % interval)")
    for group, members in groups.items():
        if not members:
            continue
        references = [[text.german for text, _ in members], [text.german_2 for text, _ in members]]
        scores = score_translations([translation for _, translation in members], references, ("chrf", "bleu"))
        chrf, bleu = scores["chrf"], scores["bleu"]
        print(f"{group:10}{len(members):6}  {format_score(chrf):24}{format_score(bleu)}")
        values |= {f"{group}_texts": len(members), f"{group}_chrf": chrf.value, f"{group}_bleu": bleu.value}
        if group == "all":
            signatures = [f"{score.metric}: {score.signature}" for score in (chrf, bleu)]
    empty = sum(not translation.strip() for translation in translations)
    print(f"{empty} of {len(texts)} translations are empty", *signatures, sep="\n", flush=True)
    return values | {"empty": empty}


def score_variants(
    model: dragoman.Model, sources: list[str], references: list[str], protect: bool | None = None
) -> dict[str, float]:
    """Print BLEU of a dev set as it is, in upper case, in title case and with typing errors; return the figures."""
    mistyped = [add_typing_errors(line, number) for number, line in enumerate(sources, 1)]
    pairs = list(map(TextPair, sources, references))
    upper, title = [list(map(change, pairs)) for change in (to_upper_case, to_title_case)]
    variants = {
        "as it is": (sources, references),
        "upper case": ([pair.source for pair in upper], [pair.target for pair in upper]),
        "title case": ([pair.source for pair in title], [pair.target for pair in title]),
        "typing errors": (mistyped, references),
    }
    changed = sum(line != source for line, source in zip(mistyped, sources, strict=True))
    print(f"\ndev set of {len(sources)} lines, {changed} of them with typing errors: BLEU (95 % interval)")
    values: dict[str, float] = {"dev_lines": len(sources)}
    for name, (lines, targets) in variants.items():
        bleu = score_translations(model.translate(lines, protect=protect), [targets], ("bleu",))["bleu"]
        print(f"{name:16}{format_score(bleu)}", flush=True)
        values["dev_" + name.replace(" ", "_")] = bleu.value
    print(f"{bleu.metric}: {bleu.signature}")
    return values


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("model")
    parser.add_argument("--texts", type=Path, default=TEXTS, metavar="FILE", help="table (default: everyday_dev.tsv)")
    parser.add_argument("--show", action="store_true", help="print all texts with translation and references")
    parser.add_argument("--dev", type=Path, nargs=2, metavar=("SOURCE", "TARGET"), help="aligned lines of text")
    parser.add_argument("--lines", type=int, metavar="N", help="only the first N lines of --dev")
    options = parser.parse_args()
    if options.lines is not None and not options.dev:
        parser.error("--lines without --dev: give the files as well")
    texts = read_texts(options.texts)
    sources, references = map(read_lines, options.dev) if options.dev else ([], [])
    if len(sources) != len(references):
        parser.error(f"{len(sources)} lines of source but {len(references)} of target: give aligned files")
    model = dragoman.load(options.model)
    translations = model.translate(text.english for text in texts)
    if options.show:
        for text, translation in zip(texts, translations, strict=True):
            expected = " | ".join(dict.fromkeys([text.german, text.german_2]))
            print(f"{text.category}, {text.training}: {text.english}\n  {translation}\n  ({expected})")
    values = score_groups(texts, translations)
    if options.dev:
        values |= score_variants(model, sources[: options.lines], references[: options.lines])
    print_values("everyday", values, 2)


if __name__ == "__main__":
    main()
