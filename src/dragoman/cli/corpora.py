"""The corpora that --source and --target name: what `prepare`, `train` and `doctor` are given in the same way."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.data.corpus import CorpusConfig


def corpora_of(
    name: str, sources: Sequence[str], targets: Sequence[str], weights: Sequence[float] = ()
) -> tuple["CorpusConfig", ...]:
    """One corpus for each source; targets go to the sources that are plain text, in order."""
    from pydantic import ValidationError

    from dragoman.data.corpus import CorpusConfig

    if targets and len(targets) != len(sources):
        raise ValueError(f"{len(sources)} --source but {len(targets)} --target: give them in pairs")
    if weights and len(weights) != len(sources):
        raise ValueError(f"{len(sources)} corpora but {len(weights)} --weight: give one for each")
    corpora = []
    for i, path in enumerate(sources):
        fields: dict[str, object] = {"name": name if i == 0 else f"{name}-{i + 1}", "source": path}
        fields |= {"target": targets[i]} if targets else {}
        fields |= {"weight": weights[i]} if weights else {}
        try:
            corpora.append(CorpusConfig.model_validate(fields))
        except ValidationError as error:
            raise ValueError("; ".join(_said(problem) for problem in error.errors())) from error
    return tuple(corpora)


def _said(problem: Mapping[str, Any]) -> str:
    """What is wrong, in our own words where we have some."""
    ours = problem.get("ctx", {}).get("error")
    return str(ours) if ours else f"--{problem['loc'][0]} {problem['input']}: {problem['msg']}"
