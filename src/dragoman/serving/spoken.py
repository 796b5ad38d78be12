"""What an engine process does with a batch: every sentence gets an answer or a reason, whatever its neighbours are."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from dragoman.bundle import Bundle
from dragoman.data.vocab import Vocab
from dragoman.decoding.alternatives import completed
from dragoman.decoding.ctranslate2_engine import CTranslate2Engine
from dragoman.decoding.model import Model
from dragoman.decoding.options import SearchOptions
from dragoman.decoding.penalty import Penalty
from dragoman.decoding.translated import Sentence
from dragoman.decoding.translator import Translator
from dragoman.inspection.export_aligner import ExportAligner
from dragoman.serving.facts import UNDETERMINED, Facts
from dragoman.serving.piece import Wish

Answer = dict[str, Any]

NO_HEADS: Final = "this model does not know which of its heads align words: ask without alignment"


class Spoken:
    """A model that is open, and answers wishes."""

    def __init__(self, name: str, bundle: Bundle, engine: CTranslate2Engine, compute: str) -> None:
        self.engine = engine
        self.vocab: Vocab = bundle.vocab
        self.options = SearchOptions.model_validate(bundle.info.search)
        self.language = bundle.info.source_language
        self.facts = Facts(
            name=name,
            sha256=bundle.sha256,
            source=self.language or UNDETERMINED,
            target=bundle.info.target_language or UNDETERMINED,
            title=bundle.card.title,
            beam_size=self.options.beam_size,
            formula=self.options.penalty.formula,
            alpha=self.options.penalty.alpha,
            aligns=bool(engine.export.alignment_heads),
            compute=compute,
        )

    def answers(self, texts: Sequence[str], wish: Wish) -> list[Answer]:
        """One for each text. Of a batch that fails, its halves are tried, and theirs."""
        return each_or_reason(lambda some: self._answers(some, wish), texts)

    def _answers(self, texts: Sequence[str], wish: Wish) -> list[Answer]:
        translator = Translator(self.engine, self.vocab, self._options(wish))
        sentences = self._sentences(translator, texts, wish)
        found = [self._answer(sentence) for sentence in sentences]
        if wish.tokens:
            for answer, sentence in zip(found, sentences, strict=True):
                answer["tokens"] = self._tokens(sentence)
        if wish.alignment:
            if not self.facts.aligns:
                raise ValueError(NO_HEADS)
            aligner = ExportAligner(self.engine, self.vocab)
            links = aligner.links_of([one.source for one in sentences], [one.parts for one in sentences])
            for answer, some in zip(found, links, strict=True):
                answer["alignment"] = sorted(some)
        return found

    def _sentences(self, translator: Translator, texts: Sequence[str], wish: Wish) -> list[Sentence]:
        if wish.prefix:
            return [completed(translator, text, wish.prefix) for text in texts]
        found = Model(translator, self.language).details(texts, split=False, protect=wish.protect)
        return [translated.sentences[0] for translated in found]

    def _answer(self, sentence: Sentence) -> Answer:
        hypotheses = [[one.text, one.score, one.log_probability] for one in sentence.hypotheses]
        return {"hypotheses": hypotheses, "num_tokens": sum(len(part.tokens) + 1 for part in sentence.parts)}

    def _tokens(self, sentence: Sentence) -> list[tuple[str, float]]:
        """Of the best translation: each token and how likely it was after those before; EOS last."""
        target = self.vocab.target
        if sentence.parts:
            sides = [(part.source, part.tokens) for part in sentence.parts]
        else:  # begun as given, or put together around what was protected
            sides = [(sentence.source, tuple(target.encode([sentence.text]).ids.tolist()[:-1]))]
        rows = self.vocab.source.encode([source for source, _ in sides]).rows()
        scores = self.engine.score(rows, [tokens for _, tokens in sides])
        return [
            (piece, score)
            for (_, tokens), scored in zip(sides, scores, strict=True)
            for piece, score in zip([*map(target.piece, tokens), "</s>"], scored, strict=True)
        ]

    def _options(self, wish: Wish) -> SearchOptions:
        own = self.options
        beam = max(wish.beam_size or own.beam_size, wish.num_best)
        penalty = own.penalty
        if wish.formula is not None or wish.alpha is not None:
            given = {"formula": wish.formula or penalty.formula}
            penalty = Penalty.model_validate(given | ({} if wish.alpha is None else {"alpha": wish.alpha}))
        return own.model_copy(update={"beam_size": beam, "num_best": wish.num_best, "penalty": penalty})


def each_or_reason(work: Callable[[Sequence[str]], list[Answer]], texts: Sequence[str]) -> list[Answer]:
    """One bad text never hurts its neighbours: what fails together is tried in halves, down to the one to blame."""
    try:
        return work(texts)
    except (ValueError, RuntimeError, MemoryError, ArithmeticError, LookupError) as error:
        if len(texts) == 1:
            return [{"wrong": str(error) or type(error).__name__, "mendable": isinstance(error, ValueError)}]
    middle = len(texts) // 2
    return each_or_reason(work, texts[:middle]) + each_or_reason(work, texts[middle:])
