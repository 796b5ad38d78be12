"""A model in an engine process, which returns an answer or an error for each sentence of a batch."""

from base64 import b64encode
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

from dragoman.alignment.engine_links import find_engine_links
from dragoman.alignment.export_aligner import ExportAligner
from dragoman.api_schemas import ModelInfo
from dragoman.bundle import Bundle, open_bundle
from dragoman.decoding.ctranslate2_engine import CTranslate2Engine, ExportWeights, read_export
from dragoman.decoding.engine import open_engine
from dragoman.decoding.options import Compute, EngineOptions, SearchOptions
from dragoman.decoding.penalty import Penalty
from dragoman.device import AUTO
from dragoman.serving.engine_protocol import Answer, TranslationOptions
from dragoman.text.vocab import Vocab
from dragoman.translation.glossary import Glossary
from dragoman.translation.pipeline import Pipeline
from dragoman.translation.results import SentenceTranslation
from dragoman.translation.translator import Translator

UNDETERMINED: Final = "und"
"""The ISO 639 code of an undetermined language, for bundles without language codes."""


class LoadedModel(NamedTuple):
    """A model in memory: what happens to its folder later does not change the engines that are made from it."""

    name: str
    bundles: dict[str | None, Bundle]
    """The bundle by target language; None: without a chosen language."""
    weights: ExportWeights | None
    """None: the engine says why it cannot be used."""

    @staticmethod
    def read(name: str, folder: Path | str, compute: Compute = "float32") -> "LoadedModel":
        """Read a model; raise ValueError or OSError if the folder cannot be opened."""
        bundle = open_bundle(folder)
        languages = (None, *bundle.info.target_languages)
        bundles = {language: bundle.to(language) if language else bundle for language in languages}
        for one in bundles.values():
            one.vocab  # noqa: B018
        return LoadedModel(name, bundles, read_export(bundle, compute) if bundle.exports else None)


class ModelWorker:
    """A model that translates batches; the constructor raises ValueError if the engine cannot run it."""

    def __init__(self, model: LoadedModel, threads: int = 1, compute: Compute = "float32", device: str = AUTO) -> None:
        self._bundles = model.bundles
        bundle = model.bundles[None]
        search = SearchOptions.model_validate(bundle.info.search)
        options = EngineOptions("ctranslate2", threads, compute, device=device)
        opened = open_engine(bundle, search, options, weights=model.weights)
        assert isinstance(opened.engine, CTranslate2Engine)
        self._engine = opened.engine
        self._protects = bundle.info.protects
        self.warning = opened.warning
        """A message about a setting of the bundle that the engine cannot follow, if any."""
        self.search = opened.search
        """The default search options."""
        self.info = ModelInfo(
            name=model.name,
            sha256=bundle.model_sha256,
            source=next(iter(bundle.info.sources), UNDETERMINED),
            target=next(iter(bundle.info.targets), UNDETERMINED),
            sources=bundle.info.source_languages,
            targets=bundle.info.target_languages,
            title=bundle.card.title,
            beam_size=self.search.beam_size,
            formula=self.search.penalty.formula,
            alpha=self.search.penalty.alpha,
            aligns=bool(opened.engine.export.alignment_heads),
            protects=self._protects,
            compute=compute,
        )

    @property
    def source_vocabulary(self) -> str:
        """The SentencePiece model of the source in base64, with which the HTTP process counts tokens."""
        return b64encode(self._bundles[None].vocab.source.proto).decode()

    def translate(self, texts: Sequence[str], options: TranslationOptions) -> list[Answer]:
        """Translate a batch of texts, and return one answer or error per text."""
        return isolate_errors(lambda some: self._translate(some, options), texts)

    def _translate(self, texts: Sequence[str], options: TranslationOptions) -> list[Answer]:
        sentences = self._search(texts, options)
        answers = [self._answer(sentence, options) for sentence in sentences]
        if options.alignment:
            aligner = ExportAligner(self._engine, self._vocab(options))
            written = [one.text if one.kept or not one.segments else one.segments for one in sentences]
            links = aligner.links_of([one.source for one in sentences], written)
            for answer, some in zip(answers, links, strict=True):
                answer["alignment"] = sorted(some)
        return answers

    def _answer(self, sentence: SentenceTranslation, options: TranslationOptions) -> Answer:
        names = ("text", "score", "log_probability")
        hypotheses = [{name: getattr(one, name) for name in names} for one in sentence.hypotheses]
        # The probability of a given prefix or of a kept text does not say how sure the model is.
        own = () if options.prefix else [part for part in sentence.segments if not part.kept]
        num_tokens = sum(len(part.tokens) + 1 for part in own)
        requested: Answer = {"tokens": self._score_tokens(sentence, options)} if options.tokens else {}
        if options.terms:
            requested["terms"] = [term._asdict() for term in sentence.terms]
        return {"hypotheses": hypotheses, "num_tokens": num_tokens, "kept": sentence.kept, **requested}

    def _search(self, texts: Sequence[str], options: TranslationOptions) -> list[SentenceTranslation]:
        protects = self._protects if options.protect is None else options.protect
        translator = Translator(self._engine, self._vocab(options), self.search_options(options))
        glossary = Glossary(tuple((source, target) for source, target in options.terms)) if options.terms else None
        links_of = find_engine_links(self._bundles[options.to], self._engine) if glossary else None
        pipeline = Pipeline(translator, False, protects, glossary=glossary, links_of=links_of)
        if options.prefix:
            return [pipeline.translate_prefix(text, options.prefix).sentences[0] for text in texts]
        return [result.sentences[0] for result in pipeline.translate(texts)]

    def _vocab(self, options: TranslationOptions) -> Vocab:
        """Return the vocabulary, whose sources begin with the tag of the target language if there are several."""
        return self._bundles[options.to].vocab

    def _score_tokens(self, sentence: SentenceTranslation, options: TranslationOptions) -> list[dict[str, Any]]:
        """Return the tokens of the best translation, EOS included, with their log-probabilities."""
        vocab = self._vocab(options)
        target = vocab.target
        if sentence.segments:
            pairs = [(part.source, part.tokens) for part in sentence.segments if not part.kept]
        else:  # composed around protected words
            pairs = [(sentence.source, tuple(target.encode([sentence.text]).ids.tolist()[:-1]))]
        rows = vocab.source.encode([source for source, _ in pairs]).rows()
        scores = self._engine.score(rows, [tokens for _, tokens in pairs])
        pieces = [[*map(target.piece, tokens), "</s>"] for _, tokens in pairs]
        scored = zip(chain.from_iterable(pieces), chain.from_iterable(scores), strict=True)
        return [{"piece": piece, "log_probability": score} for piece, score in scored]

    def search_options(self, options: TranslationOptions) -> SearchOptions:
        """Return the model's search options, overridden by the options of a request."""
        penalty = self.search.penalty
        if options.formula is not None or options.alpha is not None:
            values = {"formula": options.formula or penalty.formula}
            penalty = Penalty.model_validate(values | ({} if options.alpha is None else {"alpha": options.alpha}))
        beam_size = max(options.beam_size or self.search.beam_size, options.num_best)
        return self.search.model_copy(update={"beam_size": beam_size, "num_best": options.num_best, "penalty": penalty})


def isolate_errors(work: Callable[[Sequence[str]], list[Answer]], texts: Sequence[str]) -> list[Answer]:
    """Translate texts as one batch; if the batch fails, bisect it so that only the failing texts get an error."""
    try:
        return work(texts)
    except (ValueError, RuntimeError, MemoryError, ArithmeticError, LookupError) as error:
        if len(texts) == 1:
            return [{"error": str(error) or type(error).__name__, "is_user_error": isinstance(error, ValueError)}]
    middle = len(texts) // 2
    return isolate_errors(work, texts[:middle]) + isolate_errors(work, texts[middle:])
