"""Distillation: a student learns from a teacher's translations (Kim and Rush, 2016). Does not import torch.

Most of the time of a translation goes into the decoder, so a student has a deep encoder and a shallow decoder (Kasai et
al., 2021).
"""

import hashlib
import re
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import Field

from dragoman.bundle import Bundle, open_bundle
from dragoman.config import Config
from dragoman.evaluation.metric_options import MetricOptions
from dragoman.evaluation.report import EvaluationReport, ModelOptions, evaluate_outputs, gather_outputs
from dragoman.evaluation.text_files import read_text
from dragoman.experiment.autopilot import SIZES
from dragoman.experiment.dev_split import DEV
from dragoman.io.durable import Sink, hash_file, write_durably
from dragoman.io.progress import Progress
from dragoman.models.config import TransformerShape
from dragoman.models.cost import parameters
from dragoman.translation.file_formats import read_lines
from dragoman.translation.translator import Translator

COMPARISON: Final = "comparison.json"
_SHARD_LINES: Final = 2_000
"""The lines of a shard: what a killed run translates again at most, in each process."""

_TURNS: Final = 3
_TIMED_LINES: Final = 500


class DistillFolder(NamedTuple):
    """The folder of a distillation: shards of the text, their translations, both joined, and the student's run."""

    folder: Path

    @property
    def shards(self) -> Path:
        """The shards of the source text."""
        return self.folder / "source"

    @property
    def translations(self) -> Path:
        """The shards as the teacher translates them."""
        return self.folder / "target"

    @property
    def student(self) -> Path:
        """The run folder of the student."""
        return self.folder / "student"

    def joined(self, teacher: Bundle) -> tuple[Path, Path]:
        """Return the files of all source lines and of their translations, named by the languages of the teacher."""
        source, target = teacher.info.source_language, teacher.language or teacher.info.target_language
        return self.folder / f"text.{source or 'source'}", self.folder / f"text.{target or 'target'}"


class DistillReport(Config):
    """The student compared with its teacher: scores, sizes, and speeds that were measured in turns."""

    report: EvaluationReport = Field(description="scores of teacher and student")
    parameters: tuple[int, int] = Field(description="parameters of teacher and student")
    sentences_per_second: tuple[float, float] = Field(description="speed of teacher and student, best of three turns")
    engines: tuple[str, str] = Field(description="inference engines of teacher and student")


def parse_size(text: str) -> tuple[int, int]:
    """Return the layers of encoder and decoder of a size such as `6+1`."""
    match = re.fullmatch(r"([1-9]\d?)\+([1-9]\d?)", text)
    if not match:
        raise ValueError(f"--size {text}: give the layers of encoder and decoder, such as 6+1")
    return int(match[1]), int(match[2])


def cut_shards(source: Path, folder: Path) -> int:
    """Write the lines of a text that are not blank to shards, unless they are there; return the number of lines."""
    folder.mkdir(parents=True, exist_ok=True)
    names, num_lines = set(), 0
    for number, lines in enumerate(_blocks(source)):
        shard = folder / f"{number:06}.txt"
        names.add(shard.name)
        num_lines += len(lines)
        content = "".join(f"{line}\n" for line in lines).encode()
        if not shard.is_file() or shard.read_bytes() != content:
            write_durably(shard, content)
    for path in folder.glob("*.txt"):
        if path.name not in names:  # of a text that was longer
            path.unlink()
    return num_lines


def _blocks(source: Path) -> Iterator[list[str]]:
    lines = (line.text.strip() for line in read_lines(source))
    texts = (line for line in lines if line)
    while block := list(islice(texts, _SHARD_LINES)):
        yield block


def join_shards(folder: DistillFolder, teacher: Bundle) -> None:
    """Write the lines of all shards and their translations to one file each, unless they are there."""
    names = sorted(path.name for path in folder.shards.glob("*.txt"))
    for parts, path in zip((folder.shards, folder.translations), folder.joined(teacher), strict=True):
        digest = hashlib.sha256()
        for content in _contents(parts, names):
            digest.update(content)
        if not path.is_file() or hash_file(path) != digest.hexdigest():
            write_durably(path, partial(_write_all, parts, names))


def _contents(folder: Path, names: Sequence[str]) -> Iterator[bytes]:
    return ((folder / name).read_bytes() for name in names)


def _write_all(folder: Path, names: Sequence[str], sink: Sink) -> None:
    for content in _contents(folder, names):
        sink.write(content)


def student_overrides(teacher: Bundle, size: tuple[int, int]) -> tuple[str, ...]:
    """Return what differs from the automatic recipe: the given layers, and the width and heads of the teacher."""
    changes: dict[str, object] = {"model.num_encoder_layers": size[0], "model.num_decoder_layers": size[1]}
    if isinstance(shape := teacher.info.model, TransformerShape):
        changes |= {f"model.{key}": getattr(shape, key) for key in ("d_model", "d_ff", "num_heads")}
        narrower = [each for each in SIZES if each.shape().d_model <= shape.d_model]
        changes["training.schedule.rate"] = (narrower or SIZES[:1])[-1].rate
    return tuple(f"{key}={value}" for key, value in changes.items())


def compare_with_teacher(
    teacher: str, folder: DistillFolder, test: tuple[str, str] | None, to: str | None, command: str, progress: Progress
) -> DistillReport:
    """Return scores and speeds of teacher and student.

    Without `test`, on the pairs that were held out of the student's training, whose references are the teacher's.
    """
    student = folder.student
    source, reference = map(read_text, test or (str(student / f"{DEV}.source"), str(student / f"{DEV}.target")))
    outputs = gather_outputs([teacher, str(student)], source, [reference], progress, ModelOptions(to=to))
    report = evaluate_outputs(outputs, source, [reference], ("bleu", "chrf"), MetricOptions(), command)
    bundles = [open_bundle(model).to(to) for model in (teacher, str(student))]
    first, second = map(Translator.load, bundles)
    return DistillReport(
        report=report,
        parameters=(parameters(bundles[0].info.model), parameters(bundles[1].info.model)),
        sentences_per_second=measure_in_turns(first, second, source.lines[:_TIMED_LINES], progress),
        engines=(first.engine.name, second.engine.name),
    )


def measure_in_turns(
    first: Translator, second: Translator, lines: Sequence[str], progress: Progress
) -> tuple[float, float]:
    """Return the sentences that two models translate per second: the fastest of several turns, taken alternately."""
    best = [float("inf")] * 2
    for turn in range(_TURNS):
        for number, translator in enumerate((first, second)):
            progress("measure the speed", 2 * turn + number, 2 * _TURNS)
            begin = time.perf_counter()
            translator.translate(lines)
            best[number] = min(best[number], time.perf_counter() - begin)
    return len(lines) / best[0], len(lines) / best[1]
