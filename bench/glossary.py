"""Measure glossaries: terms that a model misses, mined from references, and the translations with and without them.

The word aligner links the words of the pairs. A term is two words that are linked in several pairs. A sentence is
used if its reference has a term that the translation lacks; its glossary is that one term.

- `NAME_used`: share of the sentences whose translation with the glossary uses the term as often as the source has it,
  by the report of the translation; without the glossary, the share is 0. The others are printed.
- `NAME_missing`, `NAME_listed`: number of translations that lack the term, found in the text, and how many of these the
  report lists.
- `NAME_chrf`, `NAME_plain_chrf`: chrF against the references, with and without the glossary.
- `NAME_ms`, `NAME_plain_ms`: CPU milliseconds per sentence, one sentence at a time, on one thread.

    python bench/glossary.py [--model demo] [--sentences 60] [--pairs 4000] [--engine auto] [--show]

NAME is a corpus of $DRAGOMAN_DATA: tatoeba (tatoeba-en-de/dev) or libreoffice (libreoffice-en-de/train, on which the
demo was trained; its terms are those that it misses nevertheless).
"""

import time
from collections import Counter
from typing import NamedTuple

from report import option_parser, print_values
from sacrebleu.metrics.chrf import CHRF
from texts import DATA, read_lines

import dragoman
from dragoman.alignment.learned_links import learn_links
from dragoman.api import Model
from dragoman.translation.document import TextDocument
from dragoman.translation.glossary import find_uses
from dragoman.translation.results import TextTranslation

CORPORA = {"tatoeba": "tatoeba-en-de/dev", "libreoffice": "libreoffice-en-de/train"}
SHORTEST, LONGEST = 4, 25
"""Words of the shortest and the longest sentence."""
SHORTEST_TERM = 4
PUNCTUATION = ".,;:!?\"'()„“”…"


class GlossaryCase(NamedTuple):
    """A sentence, its reference, and a term that the translation without a glossary lacks."""

    source: str
    reference: str
    term: dict[str, str]


def read_pairs(name: str, count: int) -> list[tuple[str, str]]:
    """Return the first pairs of one sentence each, every pair once."""
    path = DATA / CORPORA[name]
    sides = ([line.strip() for line in read_lines(f"{path}.{language}.gz")] for language in ("en", "de"))
    single = (
        pair
        for pair in zip(*sides, strict=True)
        if SHORTEST <= len(pair[0].split()) <= LONGEST and TextDocument.of(pair[0]).sentences == pair[:1]
    )
    return list(dict.fromkeys(single))[:count]


def mine_terms(pairs: list[tuple[str, str]], least: int) -> list[list[tuple[str, str]]]:
    """Return the terms of each pair: linked words, each linked once, that `least` or more pairs link."""
    words = [tuple([word.strip(PUNCTUATION) or "." for word in side.split()] for side in pair) for pair in pairs]
    sides = ([" ".join(pair[side]) for pair in words] for side in (0, 1))
    found = [
        [(source[i].lower(), target[j]) for i, j in sorted(of_pair) if is_term(source[i]) and is_term(target[j])]
        for (source, target), of_pair in zip(words, learn_links(*sides, "intersection"), strict=True)
    ]
    counts = Counter(term for terms in found for term in set(terms))
    return [[term for term in terms if counts[term] >= least] for terms in found]


def is_term(word: str) -> bool:
    return len(word) >= SHORTEST_TERM and word.isalpha()


def choose_cases(model: Model, pairs: list[tuple[str, str]], count: int, least: int) -> list[GlossaryCase]:
    """Return sentences whose translation lacks a term of the reference."""
    cases: list[GlossaryCase] = []
    mined = mine_terms(pairs, least)
    for (source, reference), terms, translation in zip(
        pairs, mined, model.details(source for source, _ in pairs), strict=True
    ):
        missed = [(word, target) for word, target in terms if not find_uses(target, translation.text)]
        if missed and len(cases) < count:
            cases.append(GlossaryCase(source, reference, dict(missed[:1])))
        if len(cases) == count:
            break
    return cases


def translate_each(model: Model, cases: list[GlossaryCase], with_terms: bool) -> tuple[list[TextTranslation], float]:
    """Translate each sentence alone; return the translations and the CPU milliseconds per sentence."""
    begin = time.process_time()
    found = [next(model.details(case.source, glossary=case.term if with_terms else None)) for case in cases]
    return found, 1000 * (time.process_time() - begin) / len(cases)


def list_unused(text: TextTranslation) -> list[tuple[str, str]]:
    """Return the terms that the report of a translation lists as not used."""
    return [(term.source, term.target) for term in text.terms if not term.used]


def measure(model: Model, name: str, cases: list[GlossaryCase], show: bool) -> dict[str, float]:
    """Translate with and without the glossary, print the figures and return them by name."""
    if not cases:
        print(f"{name}: no sentence lacks a term", flush=True)
        return {f"{name}_sentences": 0}
    list(model.translate_iter(case.source for case in cases[:2]))  # warm
    plain, plain_ms = translate_each(model, cases, False)
    found, ms = translate_each(model, cases, True)
    pairs = list(zip(cases, found, strict=True))
    unused = [(case, text) for case, text in pairs if any(not term.used for term in text.terms)]
    missing = [(case, text) for case, text in pairs if not find_uses(*case.term.values(), text.text)]
    listed = [text for case, text in missing if list_unused(text) == [*case.term.items()]]
    used = 1 - len(unused) / len(cases)
    references = [[case.reference for case in cases]]
    chrf, plain_chrf = (CHRF().corpus_score([t.text for t in some], references).score for some in (found, plain))
    for case, before, after in zip(cases, plain, found, strict=True) if show else ():
        print(case.source, case.term, before.text, after.text, case.reference, "", sep="\n")
    print(f"{name}: {len(cases)} sentences, {used:.0%} of the terms used, chrF {plain_chrf:.1f} to {chrf:.1f}")
    for case, text in unused:
        print(f"{name}: not used: {case.term} in {case.source!r}: {text.text!r}")
    print(f"{name}: {len(missing)} translations lack the term, and the report lists {len(listed)} of them")
    print(f"{name}: {plain_ms:.0f} ms per sentence without, {ms:.0f} ms with the glossary", flush=True)
    counts = {"sentences": len(cases), "used": used, "missing": len(missing), "listed": len(listed)}
    values = {**counts, "chrf": chrf, "plain_chrf": plain_chrf, "ms": ms}
    return {f"{name}_{key}": value for key, value in (values | {"plain_ms": plain_ms}).items()}


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("--model", default="demo")
    parser.add_argument("--sentences", type=int, default=60)
    parser.add_argument("--pairs", type=int, default=4000, help="pairs of each corpus for the word aligner")
    parser.add_argument("--least", type=int, default=3, help="pairs that link the words of a term, at least")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--show", action="store_true", help="print the sentences, terms and translations")
    options = parser.parse_args()
    model = dragoman.load(options.model, engine=options.engine, threads=1)
    values: dict[str, float] = {}
    for name in CORPORA:
        cases = choose_cases(model, read_pairs(name, options.pairs), options.sentences, options.least)
        values |= measure(model, name, cases, options.show)
    print_values("glossary", values)


if __name__ == "__main__":
    main()
