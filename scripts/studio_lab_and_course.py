"""Write what the studio's Lab and Lesson show: the experiments with their stored results, and the course.

python scripts/studio_lab_and_course.py [FOLDER]

The experiments are those of dragoman.lab, their results in docs/lab, the chapters in docs/course. Without a folder, the
committed files are written.
"""

import json
import re
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlencode

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from dragoman.lab.run_experiment import ExperimentResult, experiment_names, load_experiment, read_result
from dragoman.studio.lab_and_course import (
    COURSE_FILE,
    LAB_FILE,
    Block,
    Chapter,
    CodeBlock,
    FigureBlock,
    LabExperiment,
    LabLine,
    LabPanel,
    ListBlock,
    OpenBlock,
    QuizBlock,
    Span,
    TableBlock,
    Text,
    TextBlock,
)

ROOT: Final = Path(__file__).parents[1]
RESULTS: Final = ROOT / "docs" / "lab"
COURSE: Final = ROOT / "docs" / "course"
_MARKDOWN: Final = MarkdownIt("commonmark").enable("table")
_FILE: Final = re.compile(r"(\d\d)-[a-z-]+\.md")
_INDEX_ROW: Final = re.compile(r"^\| \[[^]]+\]\((\d\d-[a-z-]+\.md)\) \| (.+) \|$", re.MULTILINE)
_LAB_LINK: Final = re.compile(r"\.\./lab\.md#([a-z-]+)")
_LAB_PICTURE: Final = re.compile(r"\.\./lab/([a-z-]+)\.svg")
_LAB_COMMAND: Final = re.compile(r"^dragoman lab run ([a-z-]+)", re.MULTILINE)
_STUDIO_LINK: Final = re.compile(r"^<!-- studio: (.+) -->$")
_ANSWER: Final = re.compile(r"^<details><summary>Answer</summary>([A-D])\. (.+)</details>$", re.DOTALL)
_QUESTION: Final = re.compile(r"^\*\*(.+?)\*\*\s(.+)$", re.DOTALL)
_STYLES: Final = {"strong": "strong", "em": "em", "<sub>": "sub", "<sup>": "sup"}


def main() -> None:
    """Write lab.json and course.json."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "src" / "dragoman" / "studio"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / LAB_FILE).write_text(lab_json(), encoding="utf-8")
    (folder / COURSE_FILE).write_text(course_json(), encoding="utf-8")


def lab_json() -> str:
    """Return all experiments with their stored results, one per line."""
    lines = [load(name).model_dump_json(exclude_defaults=True) for name in experiment_names()]
    return '{"experiments": [\n' + ",\n".join(lines) + "\n]}\n"


def course_json() -> str:
    """Return the chapters of the course, one block per line."""
    chapters = [
        f'{{"title": {_quoted(chapter.title)}, "question": {_quoted(chapter.question)}, "blocks": [\n'
        + ",\n".join(block.model_dump_json(exclude_defaults=True) for block in chapter.blocks)
        + "\n]}"
        for chapter in read_course()
    ]
    return '{"chapters": [\n' + ",\n".join(chapters) + "\n]}\n"


def load(name: str) -> LabExperiment:
    """Return an experiment with its stored result, if there is one."""
    experiment, file = load_experiment(name), RESULTS / f"{name}.json"
    result = read_result(file) if file.exists() else None
    criteria = result.criteria if result else experiment.criteria
    return LabExperiment(
        name=name,
        claim=_parse_text(experiment.claim),
        source=_parse_text(experiment.source),
        prediction=_parse_text(experiment.prediction),
        method=_parse_text(experiment.method),
        lesson=_parse_text(experiment.lesson) if result else (),
        numbers=dict(experiment.numbers),
        criteria=criteria,
        verdict=result.verdict if result else None,
        num_seeds=len(result.seeds) if result else 0,
        seconds=max(seed.processor_seconds for seed in result.seeds) if result else 0.0,
        intervals=result.intervals if result else {},
        outcomes=tuple(each.is_met(result.intervals[each.number]) for each in criteria) if result else (),
        panels=tuple(_panels(result)) if result else (),
    )


def _panels(result: ExperimentResult) -> Iterator[LabPanel]:
    for panels in zip(*(seed.measurement.panels for seed in result.seeds), strict=True):
        lines = []
        for name in panels[0].lines:
            columns = list(zip(*(panel.lines[name] for panel in panels), strict=True))
            values = [[_round(of(column)) for column in columns] for of in (statistics.fmean, min, max)]
            lines.append(LabLine(name=name, mean=tuple(values[0]), low=tuple(values[1]), high=tuple(values[2])))
        first = panels[0]
        texts = {"title": first.title, "x_label": first.x_label, "y_label": first.y_label}
        yield LabPanel(**texts, x=first.x, lines=tuple(lines), log_x=first.log_x, log_y=first.log_y)


def _round(value: float) -> float:
    return float(f"{value:.6g}")


def read_course() -> list[Chapter]:
    """Return the chapters, in the order of the index."""
    rows = _INDEX_ROW.findall((COURSE / "index.md").read_text(encoding="utf-8"))
    return [read_chapter((COURSE / name).read_text(encoding="utf-8"), question) for name, question in rows]


def read_chapter(markdown: str, question: str) -> Chapter:
    """Return a chapter; raise ValueError if it has something that the studio cannot show."""
    title, *nodes = SyntaxTreeNode(_MARKDOWN.parse(markdown)).children
    return Chapter(title=title.children[0].content, question=question, blocks=tuple(_blocks(nodes)))


def _blocks(nodes: Sequence[SyntaxTreeNode]) -> Iterator[Block]:
    rest, drawn = iter(nodes), set[str]()
    for node in rest:
        match node.type:
            case "heading":
                yield TextBlock(kind="heading", text=_text(node.children[0]))
            case "paragraph" if node.children[0].children[0].type == "image":
                caption = _text(next(rest).children[0])
                picture = _LAB_PICTURE.fullmatch(str(node.children[0].children[0].attrs["src"]))
                if picture:  # others are pictures of the studio itself
                    plain = tuple(span if span.style != "em" else Span(text=span.text) for span in caption)
                    drawn.add(picture[1])
                    yield FigureBlock(kind="figure", experiment=picture[1], caption=plain)
            case "paragraph" if _is_question(node):
                yield _quiz(node.children[0].content, next(rest).content)
            case "paragraph":
                yield TextBlock(kind="paragraph", text=_text(node.children[0]))
            case "blockquote":
                for paragraph in node.children:
                    yield TextBlock(kind="quote", text=_text(paragraph.children[0]))
            case "bullet_list":
                yield ListBlock(kind="list", items=tuple(_text(item.children[0].children[0]) for item in node.children))
            case "fence":
                yield CodeBlock.model_validate({"kind": "code", "language": node.info, "code": node.content})
                for name in set(_LAB_COMMAND.findall(node.content)) - drawn:  # a figure has a link
                    yield OpenBlock(kind="open", link=urlencode({"view": "lab", "experiment": name}))
            case "table":
                rows = [row for part in node.children for row in part.children]
                cells = tuple(tuple(_text(cell.children[0]) for cell in row.children) for row in rows)
                yield TableBlock(kind="table", rows=cells)
            case "html_block" if link := _STUDIO_LINK.match(node.content.strip()):
                yield OpenBlock(kind="open", link=urlencode(parse_qsl(link[1], strict_parsing=True)))
            case _:
                raise ValueError(f"the studio cannot show {node.type}: {node.content[:60]!r}")


def _is_question(paragraph: SyntaxTreeNode) -> bool:
    content = paragraph.children[0].content
    return _QUESTION.match(content) is not None and re.search(r"\sA:\s", content) is not None


def _quiz(question: str, answer: str) -> QuizBlock:
    with_choices, with_reason = _QUESTION.match(question), _ANSWER.match(answer.strip())
    if with_choices is None or with_reason is None:
        raise ValueError(f"a question without choices, or without an answer: {question[:60]!r}")
    _, *choices = re.split(r"(?:^|\s)([A-D]):\s", with_choices[2])
    letters, texts = choices[::2], choices[1::2]
    if letters != list("ABCDE"[: len(letters)]) or with_reason[1] not in letters:
        raise ValueError(f"choices are to be named A, B, C, and the answer is one of them: {question[:60]!r}")
    return QuizBlock(
        kind="quiz",
        question=_parse_text(with_choices[1]),
        choices=tuple(_parse_text(text) for text in texts),
        answer=letters.index(with_reason[1]),
        reason=_parse_text(with_reason[2]),
    )


def _parse_text(markdown: str) -> Text:
    (paragraph,) = SyntaxTreeNode(_MARKDOWN.parse(markdown)).children
    return _text(paragraph.children[0])


def _text(inline: SyntaxTreeNode) -> Text:
    """Return the parts of a text; of nested styles, the innermost is kept."""
    return tuple(_join(_spans(inline.children, "plain", None)))


def _spans(nodes: Sequence[SyntaxTreeNode], style: str, link: str | None) -> Iterator[Span]:
    outer = style
    for node in nodes:
        match node.type:
            case "text":
                yield _span(node.content, style, link)
            case "softbreak":
                yield _span(" ", style, link)
            case "code_inline":
                yield _span(node.content, "code", link)
            case "strong" | "em":
                yield from _spans(node.children, _STYLES[node.type], link)
            case "link":
                yield from _spans(node.children, style, _link(str(node.attrs["href"])))
            case "html_inline" if node.content in _STYLES:
                style = _STYLES[node.content]
            case "html_inline" if node.content in ("</sub>", "</sup>"):
                style = outer
            case _:
                raise ValueError(f"the studio cannot show {node.type}: {node.content!r}")


def _span(text: str, style: str, link: str | None) -> Span:
    return Span.model_validate({"text": text, "style": style, "link": link})


def _join(spans: Iterator[Span]) -> Iterator[Span]:
    last: Span | None = None
    for span in filter(lambda one: one.text, spans):
        if last and (last.style, last.link) == (span.style, span.link):
            last = last.model_copy(update={"text": last.text + span.text})
        else:
            if last:
                yield last
            last = span
    if last:
        yield last


def _link(address: str) -> str | None:
    """Return where a link leads in the studio; None for pages that it has not."""
    if chapter := _FILE.fullmatch(address):
        return urlencode({"view": "lesson", "chapter": int(chapter[1])})
    if experiment := _LAB_LINK.fullmatch(address):
        return urlencode({"view": "lab", "experiment": experiment[1]})
    return None


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


if __name__ == "__main__":
    main()
