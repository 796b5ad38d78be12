"""The vocabulary of both sides: saved, loaded, and known by its hash."""

import io
import subprocess
import sys
from pathlib import Path

import pytest
import sentencepiece

from dragoman.io.durable import hash_file
from dragoman.text.vocab import BOS, EOS, NUM_SPECIALS, PAD, UNK, Vocab, VocabConfig, train_vocab

ENGLISH = ["a man runs", "two dogs run", "a woman sits on a bench"]
GERMAN = ["ein Mann läuft", "zwei Hunde laufen", "eine Frau sitzt auf einer Bank"]


@pytest.fixture(scope="module")
def joint() -> Vocab:
    return train_vocab(ENGLISH, GERMAN, VocabConfig(size=295))


@pytest.fixture(scope="module")
def separate() -> Vocab:
    return train_vocab(ENGLISH, GERMAN, VocabConfig(size=285, joint=False))


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_the_special_ids_stand_first() -> None:
    assert (PAD, BOS, EOS, UNK, NUM_SPECIALS) == (0, 1, 2, 3, 4)


def test_a_vocabulary_needs_nothing_of_the_training_stack() -> None:
    code = "import sys, dragoman.text.vocab; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = set(done.stdout.split())
    assert "sentencepiece" in modules
    assert modules & {"torch", "pyarrow", "jaxtyping", "fsspec", "zstandard"} == set()


def test_a_joint_vocabulary_is_one_file_and_comes_back(joint: Vocab, tmp_path: Path) -> None:
    saved = joint.save(tmp_path)
    assert [info.file for info in saved] == ["vocab.model"]
    assert names(tmp_path) == {"vocab.model"}
    assert saved[0].sha256 == hash_file(tmp_path / "vocab.model")
    loaded = Vocab.load(tmp_path)
    assert loaded.joint
    assert loaded.sha256 == joint.sha256
    assert loaded.source.encode(ENGLISH).ids.tolist() == joint.source.encode(ENGLISH).ids.tolist()


def test_separate_vocabularies_are_two_files_and_come_back_each_on_its_side(separate: Vocab, tmp_path: Path) -> None:
    assert [info.file for info in separate.save(tmp_path)] == ["vocab.source.model", "vocab.target.model"]
    loaded = Vocab.load(tmp_path)
    assert not loaded.joint
    assert (loaded.source.proto, loaded.target.proto) == (separate.source.proto, separate.target.proto)


def test_symbols_with_signs_can_be_single_pieces() -> None:
    commands, actions = ["turn left twice", "jump"] * 9, ["I_TURN_LEFT I_TURN_LEFT", "I_JUMP (NP )NP"] * 9

    def pieces(split: bool) -> list[str]:
        subwords = train_vocab(commands, actions, VocabConfig(size=320, split_by_script=split)).target
        return [subwords.piece(int(token)) for token in subwords.encode(["I_TURN_LEFT )NP"]).ids]

    assert pieces(split=False) == ["▁I_TURN_LEFT", "▁)NP", "</s>"]
    assert len(pieces(split=True)) > 5


def test_saving_replaces_the_vocabulary_that_was_there(joint: Vocab, separate: Vocab, tmp_path: Path) -> None:
    for vocab in (joint, separate, joint):
        vocab.save(tmp_path)
        assert Vocab.load(tmp_path).sha256 == vocab.sha256


def test_the_hash_knows_the_sides(joint: Vocab, separate: Vocab) -> None:
    swapped = Vocab(separate.target, separate.source)
    assert len({joint.sha256, separate.sha256, swapped.sha256}) == 3


@pytest.mark.parametrize("missing", ["vocab.source.model", "vocab.target.model"])
def test_half_a_vocabulary_is_refused(separate: Vocab, tmp_path: Path, missing: str) -> None:
    separate.save(tmp_path)
    (tmp_path / missing).unlink()
    with pytest.raises(ValueError, match=r"has vocab\.\w+\.model: .*vocab\.source\.model and vocab\.target\.model$"):
        Vocab.load(tmp_path)


def test_a_folder_without_a_vocabulary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no vocabulary"):
        Vocab.load(tmp_path)


def test_a_file_that_is_no_model_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "vocab.model").write_bytes(b"nothing of the kind")
    with pytest.raises(ValueError, match=r"vocab\.model: not a SentencePiece model"):
        Vocab.load(tmp_path)


def test_a_model_with_other_special_ids_is_refused(tmp_path: Path) -> None:
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(ENGLISH), model_writer=written, vocab_size=24, minloglevel=2
    )
    (tmp_path / "vocab.model").write_bytes(written.getvalue())
    with pytest.raises(ValueError, match=r"are \(-1, 1, 2, 0\) instead of \(0, 1, 2, 3\)"):
        Vocab.load(tmp_path)


@pytest.mark.parametrize("is_joint", [True, False])
def test_a_source_of_several_languages_begins_with_the_tag_of_the_chosen_one(is_joint: bool, tmp_path: Path) -> None:
    config = VocabConfig(size=290, joint=is_joint)
    trained = train_vocab(ENGLISH, GERMAN, config, ["de", "pt-BR"])
    trained.save(tmp_path)
    vocab = Vocab.load(tmp_path)
    assert vocab.languages == ("de", "pt-BR")
    assert (vocab.joint, vocab.sha256) == (is_joint, trained.sha256)
    chosen = vocab.to("pt-BR")
    assert [chosen.source.piece(row[0]) for row in chosen.source.encode(ENGLISH).rows()] == [">>pt-BR<<"] * 3
    assert chosen.to("de").source.encode(ENGLISH).rows() != chosen.source.encode(ENGLISH).rows()
    assert not {*chosen.target.encode(ENGLISH).ids.tolist()} & {*vocab.source.tags.values()}
    assert chosen.sha256 == vocab.sha256  # the same vocabulary: only the choice differs
    with pytest.raises(ValueError, match="no target language is chosen: choose one of de, pt-BR"):
        vocab.source.encode(ENGLISH)
    with pytest.raises(ValueError, match="no tag for the language 'fr': choose one of de, pt-BR"):
        vocab.to("fr")


def test_a_vocabulary_without_tags_needs_no_choice(joint: Vocab) -> None:
    assert joint.languages == ()
    assert joint.to("de").source.encode(ENGLISH).rows() == joint.to(None).source.encode(ENGLISH).rows()
