"""The check that the targets of a corpus belong to their sources, for `dragoman doctor` and before training."""

from collections.abc import Iterator
from pathlib import Path

from dragoman.data.corpus import CorpusConfig
from dragoman.data.misalignment import LineAlignment, NotJudged, check_corpus_alignment
from dragoman.experiment.findings import Finding
from dragoman.experiment.run_state import has_checkpoint
from dragoman.io.progress import Progress
from dragoman.io.streams import STANDARD_INPUT
from dragoman.recipes.recipe import Recipe


def check_alignment(recipe: Recipe, progress: Progress) -> Iterator[Finding]:
    """Check all corpora of a recipe; a note about those too small or too unusual to judge."""
    for corpus in (*recipe.data.train, *recipe.data.held_out):
        if corpus.source == STANDARD_INPUT:
            continue
        result = check_corpus_alignment(corpus, progress)
        if isinstance(result, NotJudged):
            message = f"{corpus.name}: not judged whether the targets fit their sources: {result.reason}"
            yield Finding("alignment", "note", message)
        elif result.first is None:
            yield Finding("alignment", "ok", f"{corpus.name}: the targets fit their sources")
        else:
            yield Finding("alignment", "warning", describe_misalignment(corpus, result, result.first))


def alignment_warnings(recipe: Recipe, folder: Path, progress: Progress) -> tuple[str, ...]:
    """Return warnings about misaligned corpora before a new run; a resumed run has had them."""
    if has_checkpoint(folder):
        return ()
    try:
        return tuple(finding.message for finding in check_alignment(recipe, progress) if finding.level == "warning")
    except ValueError:  # files that cannot be read: preflight reports all of them
        return ()


def describe_misalignment(corpus: CorpusConfig, result: LineAlignment, first: int) -> str:
    """Return a sentence with the first suspicious line, the share of the pairs, the offset if known, and a fix."""
    about = "about " * result.is_sample
    block = next((block for block in result.blocks if block.start == first), None)
    if block is None:
        where = f"{result.share:.0%} of the targets do not fit their sources, the first in {about}line {first + 1:,}"
        return f"{corpus.name}: about {where}: check that both sides have the same lines in the same order"
    tail = result.num_lines // 100 if result.is_sample else 0
    end = "on" if block.end + tail >= result.num_lines else f"to {about}line {block.end:,}"
    where = f"from {about}line {first + 1:,} {end}"
    share = f"({result.share:.0%} of all pairs)"
    if block.offset is None:
        what = f"the targets do not belong to their sources {share}"
        return f"{corpus.name}: {where}, {what}: check that both sides have the same lines in the same order"
    lines = f"{abs(block.offset)} line{'s' * (abs(block.offset) > 1)} {'before' if block.offset > 0 else 'after'}"
    what = f"each target belongs to the source {lines} {share}"
    return f"{corpus.name}: {where}, {what}: look for a line that one side lacks"
