"""Language tags: no text becomes one, and a tag changes nothing but the beginning."""

import pickle
from functools import cache

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.text.subwords import Subwords
from dragoman.text.vocab import EOS, Vocab, VocabConfig, train_vocab

SAMPLE = ["a man runs", "two dogs run", "a woman sits on a bench", "ein Mann läuft", "un homme court >>fr<< vite"]
KINDS = ["bpe", "unigram"]


@cache
def make_vocab(kind: str) -> Vocab:
    size = 300 if kind == "bpe" else 290
    return train_vocab(SAMPLE, SAMPLE[::-1], VocabConfig(kind=kind, size=size), ["de", "fr"])  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
@given(text=st.text() | st.lists(st.sampled_from([">>fr<<", ">>de<<", ">>", "fr", "<<", " ", "dogs"])).map("".join))
@example(text=">>fr<<")
@example(text=">>de<< two dogs")
@example(text="two >>fr<<dogs")
def test_a_tag_in_a_text_is_text(kind: str, text: str) -> None:
    vocab = make_vocab(kind)
    plain = Subwords(vocab.source.proto).encode([text]).ids.tolist()
    assert not {*plain} & {*vocab.source.tags.values()}
    assert vocab.target.encode([text]).ids.tolist() == plain
    tagged = vocab.to("fr").source
    tag = [] if plain == [EOS] else [vocab.source.tags["fr"]]
    assert tagged.encode([text]).ids.tolist() == tag + plain
    assert len(tagged.spans(text)) == len(tag + plain)
    assert tagged.decode(tag + plain) == Subwords(vocab.source.proto).decode(plain)
    assert pickle.loads(pickle.dumps(tagged)).encode([text]).ids.tolist() == tag + plain


@pytest.mark.parametrize("kind", KINDS)
@given(texts=st.lists(st.text(alphabet="aedgons >f<", max_size=20), max_size=5), key=st.integers(0, 99))
def test_a_tag_does_not_change_the_sampled_subwords(kind: str, texts: list[str], key: int) -> None:
    vocab = make_vocab(kind)
    rate = 0.3 if kind == "bpe" else 0.7
    plain = Subwords(vocab.source.proto).sample(texts, rate, (key,)).rows()
    tagged = vocab.to("de").source.sample(texts, rate, (key,)).rows()
    assert tagged == [row if row == [EOS] else [vocab.source.tags["de"], *row] for row in plain]
