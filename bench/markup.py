"""Measure where inline tags go: sentences with elements, in another word order, whose word links are known.

A made-up translation moves groups of words, and translates a word as none, one or two words. Elements, nested up to
three deep, are put around 1 to 4 words of the source. An element is right if exactly the words that come from its words
are inside it; elements whose words are apart in the translation cannot be right, and are not counted.

- `right`: share of the elements that are right, with all links.
- `right_noisy`: the same if NOISE of the target words are linked to a wrong word.
- `right_by_position`: the same without links.
- `kept`: share of the documents with every tag exactly once.
- `ms`: CPU milliseconds per sentence to read it and to place its tags.

    python bench/markup.py [--sentences 2000] [--noise 0.1] [--seed 1]
"""

import random
import re
import time

from report import option_parser, print_values

from dragoman.translation.inline_tags import LinkedSentence, Links
from dragoman.translation.markup import parse_html

NAMES = ("b", "i", "a", "span")
TAG = re.compile(r"<(/?)\w+ ?(?:n=(\d+))?>")


def nested_spans(draw: random.Random, start: int, end: int, depth: int = 0) -> list[tuple[int, int]]:
    """Return spans of 1 to 4 words side by side, each possibly followed by spans inside it."""
    spans, position = [], start
    while position < end:
        length = min(draw.randint(1, 4), end - position)
        if draw.random() < 0.3:
            spans.append((position, position + length))
            if depth < 2 and length > 1:
                spans += nested_spans(draw, position, position + length, depth + 1)
        position += length
    return spans


def tag_words(words: list[str], spans: list[tuple[int, int]]) -> str:
    """Return words with an element around each span; its number is its attribute."""
    words = words.copy()
    for number, (start, end) in reversed(list(enumerate(spans))):
        name = NAMES[number % len(NAMES)]
        words[start] = f"<{name} n={number}>{words[start]}"
        words[end - 1] = f"{words[end - 1]}</{name}>"
    return " ".join(words)


class Case:
    """A sentence with elements, its translation and its links."""

    def __init__(self, draw: random.Random, noise: float) -> None:
        self.num_words = draw.randint(5, 20)
        self.spans = nested_spans(draw, 0, self.num_words)
        groups = self._groups(draw)
        draw.shuffle(groups)
        order = [word for group in groups for word in group]
        self.origins = [word for word in order for _ in range(draw.choice((0, 1, 1, 1, 1, 1, 1, 1, 2)))] or order
        self.links: Links = frozenset((i, j) for j, i in enumerate(self.origins))
        self.noisy: Links = frozenset(
            (draw.randrange(self.num_words) if draw.random() < noise else i, j) for j, i in enumerate(self.origins)
        )
        self.target = " ".join(f"t{j}" for j in range(len(self.origins)))

    def _groups(self, draw: random.Random) -> list[range]:
        """Return the groups of words that move together: most elements stay whole."""
        groups, start = [], 0
        whole = dict(reversed(self.spans))  # of two that begin together, the outer
        while start < self.num_words:
            end = max(whole.get(start, 0), start + draw.randint(1, 3))
            groups.append(range(start, min(end, self.num_words)))
            start = groups[-1].stop
        return groups

    @property
    def source(self) -> str:
        """The sentence as HTML."""
        return tag_words([f"word{i}" for i in range(self.num_words)], self.spans)

    def expected(self, number: int) -> set[int] | None:
        """Return the target words of an element; None if they are apart, or if there are none."""
        start, end = self.spans[number]
        words = {j for j, i in enumerate(self.origins) if start <= i < end}
        return words if words and max(words) - min(words) + 1 == len(words) else None


def read_elements(text: str) -> dict[int, set[int]]:
    """Return the words inside each element, by the element's number."""
    found: dict[int, set[int]] = {}
    stack: list[int] = []
    position = 0
    for tag in [*TAG.finditer(text), None]:
        words = {int(word) for word in re.findall(r"t(\d+)", text[position : tag.start() if tag else len(text)])}
        for number in stack:
            found[number] |= words
        if tag and tag[1]:
            stack.pop()
        elif tag:
            stack.append(int(tag[2]))
            found[stack[-1]] = set()
        position = tag.end() if tag else position
    return found


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--noise", type=float, default=0.1, help="share of target words with a wrong link")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    cases = [Case(draw, options.noise) for _ in range(options.sentences)]
    right = {"right": 0, "right_noisy": 0, "right_by_position": 0}
    elements = kept = 0
    begin = time.process_time()
    for case in cases:
        is_kept = True
        for name, links in zip(right, (case.links, case.noisy, None), strict=True):
            document = parse_html(case.source)
            (text,) = document.texts
            result = document.join([[LinkedSentence((0, len(text)), case.target, links)]])
            found = read_elements(result)
            is_kept &= sorted(TAG.findall(result)) == sorted(TAG.findall(case.source))
            right[name] += sum(found.get(number) == case.expected(number) for number in range(len(case.spans)))
        kept += is_kept
        elements += sum(case.expected(number) is not None for number in range(len(case.spans)))
    ms = 1000 * (time.process_time() - begin) / 3 / len(cases)
    values = {name: count / max(1, elements) for name, count in right.items()}
    print(f"{elements:,} elements: " + ", ".join(f"{name} {share:.1%}" for name, share in values.items()))
    print_values("markup", values | {"kept": kept / len(cases), "ms": ms, "elements": elements})


if __name__ == "__main__":
    main()
