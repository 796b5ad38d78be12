"""Word links for guided alignment: learned from the training pairs and written into the run folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dragoman.alignment.learned_links import learn_links
from dragoman.alignment.moses import to_moses
from dragoman.data.corpus import CorpusConfig, read_chunks
from dragoman.io.durable import write_durably
from dragoman.io.progress import Progress

LINKS: Final = "links"
_LINES: Final = 50_000


def with_learned_links(corpora: Sequence[CorpusConfig], folder: Path) -> tuple[CorpusConfig, ...]:
    """Return the corpora of a run, each with a file of links: its own, or one in the run folder."""
    return tuple(
        corpus if corpus.links else corpus.model_copy(update={"links": str(folder / LINKS / f"{corpus.name}.links")})
        for corpus in corpora
    )


def learn_missing_links(corpora: Sequence[CorpusConfig], folder: Path, progress: Progress) -> None:
    """Write the files of links that are in the run folder and do not exist, learned from all these corpora.

    Corpora of different target languages are learned separately.
    """
    for language in dict.fromkeys(corpus.target_language for corpus in corpora):
        _learn_links([corpus for corpus in corpora if corpus.target_language == language], folder, progress)


def _learn_links(corpora: Sequence[CorpusConfig], folder: Path, progress: Progress) -> None:
    missing = [corpus for corpus in corpora if corpus.links and not Path(corpus.links).exists()]
    missing = [corpus for corpus in missing if Path(str(corpus.links)).parent == folder / LINKS]
    if not missing:
        return
    sides: tuple[list[str], list[str]] = ([], [])
    ends = []
    for corpus in corpora:
        for chunk in read_chunks(corpus, _LINES):
            for side, column in zip(sides, (chunk.source, chunk.target), strict=True):
                side += (line.decode(errors="replace") for line in column.to_pylist())
        ends.append(len(sides[0]))
    links = learn_links(*sides, progress=progress)
    (folder / LINKS).mkdir(exist_ok=True)
    for corpus, start, end in zip(corpora, [0, *ends], ends, strict=False):
        if corpus in missing:
            text = "".join(f"{to_moses(of_pair)}\n" for of_pair in links[start:end])
            write_durably(Path(str(corpus.links)), text.encode())
