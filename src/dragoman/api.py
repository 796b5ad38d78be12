"""The public Python API, exported by `dragoman`.

Translating needs no torch; sampling, alignment, traces, taps and training do.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from dragoman.alignment.engine_links import find_engine_links
from dragoman.bundle import Bundle, open_bundle
from dragoman.decoding.options import Compute, EngineName, EngineOptions, SamplingOptions
from dragoman.device import AUTO
from dragoman.io.progress import Progress, ignore_progress
from dragoman.translation.alternatives import Alternative, find_alternatives, score_target
from dragoman.translation.glossary import Glossary
from dragoman.translation.pipeline import WINDOW, Pipeline
from dragoman.translation.results import TextHypothesis, TextTranslation
from dragoman.translation.translator import Translator

if TYPE_CHECKING:
    from dragoman.alignment.aligner import Aligner
    from dragoman.attention.tap import Edit, Tap
    from dragoman.evaluation.metrics import MetricScore
    from dragoman.experiment.run_training import TrainResult
    from dragoman.inspection.inspector import Inspector
    from dragoman.inspection.trace import Trace
else:  # imported where they are used: they need torch, or take long
    Aligner = Edit = Inspector = MetricScore = Tap = Trace = TrainResult = Any

GlossaryInput = Glossary | Mapping[str, str] | Path | str
"""Terms that translations use: a mapping of source terms to target terms, or the path of a table."""

Sample = bool | SamplingOptions | Mapping[str, Any]


class TranslateOptions(TypedDict, total=False):
    """The options of all methods that translate; the `Model` docstring describes each option."""

    to: str | None
    split: bool
    protect: bool | None
    prefix: str
    glossary: GlossaryInput | None
    sample: Sample
    window: int
    progress: Progress


class Model:
    """A trained model that translates texts, scores and aligns translations, and records attention.

    `to` is the target language of a model that translates into several: every method that uses the model needs it then.

    All methods that translate take the same options. `split`: split a text into sentences and keep its layout; if
    False, each line is one sentence, as in a test set. `protect`: keep placeholders, tags, addresses, code and emoji
    unchanged, and the digits of numbers, and translate capitals by their usual letter case; None: if the model
    translates between languages. `prefix`: the beginning of the translation, for a single sentence. `glossary`: terms
    that translations use, as a mapping of source terms to target terms, or the path of a table with a source term, a
    tab and a target term per line. `sample`: sample a translation instead of searching for the best: True, or options
    such as `{"temperature": 0.8, "top_k": 10, "top_p": 0.9, "seed": 1}`; the same seed and sentence give the same
    translation in every batch. Sampling needs torch. `window`: the number of sentences translated at once; a stream
    holds at most two windows. `progress`: called with the number of texts done.
    """

    def __init__(self, bundle: Bundle, options: EngineOptions | None = None) -> None:
        self.bundle = bundle
        self.translator = Translator.load(bundle, options)
        self._device = options.device if options else AUTO
        self._num_taps = 0

    @staticmethod
    def load(model: str | Path, options: EngineOptions | None = None) -> "Model":
        """Load a model from a model folder or a training run; "demo" is the built-in model."""
        return Model(open_bundle(model), options)

    def __repr__(self) -> str:
        info = self.bundle.info
        languages = "-".join("/".join(codes) or "unknown" for codes in (info.sources, info.targets))
        engine, beam = self.translator.engine.name, self.translator.options.beam_size
        return f"<Model {self.bundle.folder}: {self.bundle.info.model.family}, {languages}, {engine}, beam {beam}>"

    @property
    def language(self) -> str | None:
        """The code of the source language; None if unknown."""
        return self.translator.language

    @overload
    def translate(self, texts: str, **options: Unpack[TranslateOptions]) -> str: ...  # type: ignore[overload-overlap]
    @overload
    def translate(self, texts: Iterable[str], **options: Unpack[TranslateOptions]) -> list[str]: ...
    @overload
    def translate(  # type: ignore[overload-overlap]
        self, texts: str, *, num_best: int, **options: Unpack[TranslateOptions]
    ) -> list[TextHypothesis]: ...
    @overload
    def translate(
        self, texts: Iterable[str], *, num_best: int, **options: Unpack[TranslateOptions]
    ) -> list[list[TextHypothesis]]: ...
    def translate(
        self, texts: str | Iterable[str], *, num_best: int | None = None, **options: Unpack[TranslateOptions]
    ) -> str | list[str] | list[TextHypothesis] | list[list[TextHypothesis]]:
        """Return the translation of a text, or a list of translations for several texts.

        With `num_best`, return a list of the best translations with scores in place of each translation.
        """
        details = self.details(texts, num_best=num_best, **options)
        if num_best is None:
            found = [translation.text for translation in details]
            return found[0] if isinstance(texts, str) else found
        ranked = [[hypothesis for hypothesis, _ in translation.best(num_best)] for translation in details]
        return ranked[0] if isinstance(texts, str) else ranked

    def translate_iter(self, texts: Iterable[str], **options: Unpack[TranslateOptions]) -> Iterator[str]:
        """Yield one translation per text, in order and in constant memory."""
        return (translation.text for translation in self.details(texts, **options))

    def details(
        self,
        texts: str | Iterable[str],
        *,
        num_best: int | None = None,
        to: str | None = None,
        split: bool = True,
        protect: bool | None = None,
        prefix: str = "",
        glossary: GlossaryInput | None = None,
        sample: Sample = False,
        window: int = WINDOW,
        progress: Progress = ignore_progress,
    ) -> Iterator[TextTranslation]:
        """Yield the translation of each text, with the sentences, hypotheses, scores and glossary terms."""
        translator = self._translator_for(to, num_best, sample)
        terms = None if glossary is None else Glossary.of(glossary)
        links_of = find_engine_links(self.bundle.to(to), translator.engine) if terms else None
        pipeline = Pipeline(translator, split, protect, window, progress, terms, links_of)
        several = [texts] if isinstance(texts, str) else texts
        if terms and (prefix or sample):
            raise ValueError("glossary cannot be combined with prefix or sample: give only one of them")
        if not prefix:
            return pipeline.translate(several)
        if sample:
            raise ValueError("prefix and sample cannot be combined: give only one of them")
        return iter([pipeline.translate_prefix("\n".join(several), prefix)])

    def score(self, source: str, target: str, *, to: str | None = None) -> tuple[float, ...]:
        """Return the log-probabilities of the tokens of a given translation, EOS included."""
        return score_target(self._translator_for(to), source, target)

    def alternatives(self, source: str, prefix: str = "", num: int = 5, *, to: str | None = None) -> list[Alternative]:
        """Return the most probable next tokens after `prefix`, each with the best translation that continues it."""
        return find_alternatives(self._translator_for(to), source, prefix, num)

    def align(self, source: str | Sequence[str], target: str | Sequence[str], *, to: str | None = None) -> Any:
        """Return the word alignment of a source and a target as a list of pairs of word indices.

        (0, 1) links the first source word to the second target word. For lists of sources and targets, return one
        alignment per sentence pair.
        """
        aligner = self._aligner_for(to)
        if isinstance(source, str) and isinstance(target, str):
            return sorted(aligner.links([source], [target])[0])
        return [sorted(links) for links in aligner.links(source, target)]

    def evaluate(
        self,
        sources: Sequence[str],
        references: Sequence[str],
        metrics: Sequence[Any] = ("bleu", "chrf"),
        *,
        to: str | None = None,
    ) -> "dict[Any, MetricScore]":
        """Translate a test set line by line, and return the scores by metric, with 95 % confidence intervals."""
        _require("sacrebleu", "evaluate")
        from dragoman.evaluation.metrics import score_translations

        if len(sources) != len(references):
            raise ValueError(f"{len(sources):,} sources but {len(references):,} references: give equal numbers")
        return score_translations(self.translate(sources, to=to, split=False, protect=False), [references], metrics)

    def trace(
        self,
        source: str,
        target: str | None = None,
        *,
        to: str | None = None,
        prefix: str = "",
        without: str | None = None,
        alternatives: int = 5,
        history: bool = False,
        vectors: bool = False,
    ) -> "Trace":
        """Return a trace: the attention and probabilities for a sentence and its translation, or for a given target.

        `prefix` is the beginning of the translation. `without` sets the output of attention heads to zero: a kind
        ("cross"), a layer ("decoder.layers.2") or a head ("cross.2"); separate several with commas. `alternatives` is
        the number of alternatives kept per token. `history` adds every candidate of the search, and `vectors` adds the
        queries, keys and values of every head.
        """
        inspector = self._inspector.to(self.bundle.to(to).language)
        return inspector.trace(
            source,
            target,
            prefix=prefix,
            interventions=inspector.interventions(without),
            alternatives=alternatives,
            history=history,
            vectors=vectors,
        )

    @contextmanager
    def tap(self, edit: "Edit | None" = None) -> "Iterator[Tap]":
        """Record all attention maps by name while the model runs in the `with` block, on torch.

        `edit` is a function that replaces maps.

        with model.tap() as maps:
            model.score("A text.", "Ein Text.")
        maps["decoder.layers.0.cross_attention"]  # [batch, heads, queries, keys]
        """
        inspector = self._inspector
        from dragoman.attention.tap import Tap

        self._num_taps += 1
        try:
            with Tap(inspector.model, edit) as maps:
                yield maps
        finally:
            self._num_taps -= 1

    def _translator_for(self, to: str | None = None, num_best: int | None = None, sample: Sample = False) -> Translator:
        """Return the translator for these options; it uses torch to sample or while a tap is open."""
        translator = self._torch_translator if sample is not False or self._num_taps else self.translator
        translator = replace(translator, vocab=translator.vocab.to(self.bundle.to(to).language))
        if num_best is not None:
            translator = replace(translator, options=translator.options.replace(num_best=num_best))
        if sample is False:
            return translator
        if num_best is not None:
            raise ValueError("num_best and sample cannot be combined: call with several seeds for several samples")
        if isinstance(sample, SamplingOptions):
            return replace(translator, sampling=sample)
        return replace(translator, sampling=SamplingOptions.model_validate({} if sample is True else sample))

    @cached_property
    def _torch_translator(self) -> Translator:
        if self.translator.engine.name == "torch":
            return self.translator
        _require("torch", "sample")
        from dragoman.decoding.torch_engine import TorchEngine

        return replace(self.translator, engine=TorchEngine(self._inspector.model))

    @cached_property
    def _inspector(self) -> "Inspector":
        _require("torch", "inspect a model")
        from dragoman.inspection.inspector import Inspector

        return Inspector.of(self.bundle, self.translator.options.beam_size, self._device)

    def _aligner_for(self, to: str | None) -> "Aligner":
        _require("torch", "align")
        from dragoman.alignment.aligner import Aligner

        bundle = self.bundle.to(to)
        return Aligner(self._inspector.model, bundle.vocab, bundle.info.alignment_heads)


def load(
    model: str | Path = "demo",
    *,
    engine: EngineName = "auto",
    threads: int | None = None,
    compute: Compute | None = None,
    beam_size: int | None = None,
    device: str = AUTO,
) -> Model:
    """Load a model that is ready to translate.

    `model` is the folder of a model or a training run; "demo" is the built-in small English-German model, "./demo" a
    folder named demo. `engine` is "ctranslate2", "torch", or "auto" for CTranslate2 if it supports the model. `threads`
    defaults to one per core. `compute` is the compute type of CTranslate2: "float32", "int16" or "int8", and
    "float16" on a GPU. `beam_size` is the number of hypotheses that the search keeps, by default as in the model's
    search options. `device` is a device of torch, as for `--device`; "auto" is a GPU if there is one.
    """
    return Model.load(model, EngineOptions(engine, threads, compute, beam_size, device))


def open_trace(path: str | Path) -> "Trace":
    """Load a trace from a file written by `Trace.save`, without the model."""
    from dragoman.inspection.trace import Trace

    return Trace.load(path)


def train(
    recipe: str | Path | None = None,
    *,
    out: str | Path,
    source: str | Sequence[str] = (),
    target: str | Sequence[str] = (),
    pairs: str | Sequence[str] = (),
    fields: str | None = None,
    init: str | Path | None = None,
    keep: tuple[str, str] | None = None,
    keep_source: str | None = None,
    to: str | None = None,
    time: str | None = None,
    device: str = AUTO,
    progress: Progress = ignore_progress,
) -> "TrainResult":
    """Train a model in the folder `out`, and return the finished run; `load(out)` opens the model.

    `recipe` is a file, or the name of a built-in recipe (`dragoman recipes`). Without a recipe, give text files with
    one sentence per line as `source` and `target`, or files of pairs such as TMX or CSV as `pairs`, with the columns or
    languages to read as `fields`, such as "en,de". Their size and `time`, such as "45m", determine the settings.
    `device` is a device of torch, as for `--device`; "auto" is all GPUs, or the CPU without one.

    `init` is a trained model to begin with: a folder, or "demo". Against forgetting what it knows, give old text: its
    source and target files as `keep`, or only a source file as `keep_source`, which the model itself translates. If
    it translates into several languages, `to` is the language of the new text; by default, as in the file names.

    The same call resumes a training that ended early. Training starts worker processes: in a script, call `train` under
    `if __name__ == "__main__":`.
    """
    _require("torch", "train")
    from dragoman.experiment.request import TrainRequest
    from dragoman.experiment.run_training import run_training

    request = TrainRequest(
        out=Path(out),
        recipe=None if recipe is None else Path(recipe),
        source=(source,) if isinstance(source, str) else tuple(source),
        target=(target,) if isinstance(target, str) else tuple(target),
        pairs=(pairs,) if isinstance(pairs, str) else tuple(pairs),
        fields=fields,
        init=None if init is None else str(init),
        keep=keep,
        keep_source=keep_source,
        to=to,
        time=time,
        device=device,
    )
    return run_training(request, progress=progress)


def _require(module: str, task: str) -> None:
    if find_spec(module) is None:
        raise ValueError(f"{module} is needed to {task}, and is not installed: pip install 'dragoman[train]'")
