"""A model that cannot be imported is refused with the reason, and nothing is written."""

import json
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
from marian_packages import MarianFiles, Words, train_spm
from safetensors.numpy import load_file, save_file

from dragoman.bundle import demo_folder
from dragoman.pretrained.formats import choose_tags, read_package
from dragoman.pretrained.position_tables import position_table


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"model_type": "m2m_100"}, "model type m2m_100"),
        ({"model_type": "mbart"}, "model type mbart"),
        ({"decoder_ffn_dim": 44}, "encoder_ffn_dim 40 and decoder_ffn_dim 44 differ"),
        ({"decoder_attention_heads": 4}, "encoder_attention_heads 3 and decoder_attention_heads 4 differ"),
        ({"scale_embedding": False}, "scale_embedding is false"),
        ({"normalize_before": True}, "normalize_before is true"),
        ({"static_position_embeddings": False}, "trained positions"),
        ({"activation_function": "gelu_new"}, "activation gelu_new is unknown"),
        ({"eos_token_id": 5}, "eos_token_id 5 is not the id of </s>, 0"),
        ({"decoder_start_token_id": 9_999}, "decoder_start_token_id 9999 is not an id"),
        ({"alignment_heads": [[2, 3]]}, "3 decoder layers of 3 heads, counted from 0"),
        ({"alignment_heads": [[-1, 0]]}, "3 decoder layers of 3 heads, counted from 0"),
        ({"alignment_heads": [2, 0]}, "not pairs of layer and head"),
        ({"alignment_heads": [[2, 0]], "alignment_rows": "both"}, "not pairs of layer and head"),
        ({"vocab_size": 30}, "but the model has 30 ids"),
    ],
    ids=str,
)
def test_a_hugging_face_folder_is_refused(changes: dict[str, Any], reason: str, words: Words, tmp_path: Path) -> None:
    folder = MarianFiles(words, config=changes).hugging_face(tmp_path / "model")
    with pytest.raises(ValueError, match=reason):
        read_package(folder)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"type": "s2s"}, "option type is 's2s'"),
        ({"transformer-decoder-autoreg": "rnn"}, "transformer-decoder-autoreg is 'rnn'"),
        ({"transformer-decoder-dim-ffn": 44}, "transformer-dim-ffn 40 and transformer-decoder-dim-ffn 44 differ"),
        ({"transformer-train-position-embeddings": True}, "transformer-train-position-embeddings is True"),
        ({"transformer-postprocess-emb": "nd"}, "norm after the embedding"),
        ({"transformer-postprocess": "da"}, "-postprocess 'da'"),
        ({"transformer-ffn-activation": "tanh"}, "activation tanh is unknown"),
        ({"transformer-tied-layers": [1, 1, 2]}, "transformer-tied-layers"),
    ],
    ids=str,
)
def test_an_opus_mt_package_is_refused(
    changes: dict[str, Any], reason: str, files: MarianFiles, tmp_path: Path
) -> None:
    folder = files.opus_mt(tmp_path / "model", **changes)
    with pytest.raises(ValueError, match=reason):
        read_package(folder)


def test_trained_positions_are_refused_where_marian_stores_them_and_read_from_hugging_face(
    files: MarianFiles, tmp_path: Path
) -> None:
    folder = files.opus_mt(tmp_path / "npz")
    name = next(folder.glob("*.npz"))
    with np.load(name) as arrays:
        np.savez(name, **arrays, Wpos=np.zeros((96, 24), np.float32))
    with pytest.raises(ValueError, match="trained positions"):
        read_package(folder)
    folder = files.hugging_face(tmp_path / "hf")
    arrays = load_file(folder / "model.safetensors")
    arrays["model.encoder.embed_positions.weight"] = np.ones((96, 24), np.float32)
    save_file(arrays, folder / "model.safetensors")
    tables = read_package(folder).trained_positions
    assert tables is not None
    np.testing.assert_array_equal(tables[0], np.ones((96, 24)))
    np.testing.assert_allclose(tables[1], position_table("hf", 96, 24), atol=1e-6)
    with pytest.raises(ValueError, match="trained positions"):
        read_package(folder, "marian")
    save_file(
        arrays | {"model.decoder.embed_positions.weight": np.ones((95, 24), np.float32)}, folder / "model.safetensors"
    )
    with pytest.raises(ValueError, match=r"decoder\.embed_positions\.weight has the shape"):
        read_package(folder)


def test_a_part_that_would_be_lost_is_named(files: MarianFiles, tmp_path: Path) -> None:
    folder = files.hugging_face(tmp_path / "hf")
    arrays = load_file(folder / "model.safetensors")
    save_file(arrays | {"model.encoder.layer_norm.weight": np.ones(24, np.float32)}, folder / "model.safetensors")
    with pytest.raises(ValueError, match=r"model\.encoder\.layer_norm\.weight"):
        read_package(folder)
    del arrays["model.decoder.layers.1.fc2.bias"]
    save_file(arrays, folder / "model.safetensors")
    with pytest.raises(ValueError, match=r"no model\.decoder\.layers\.1\.fc2\.bias"):
        read_package(folder)


def test_a_pegasus_model_with_its_own_tokenizer_is_refused(words: Words, tmp_path: Path) -> None:
    changes = {"model_type": "pegasus", "normalize_before": True, "add_final_layer_norm": True}
    folder = MarianFiles(words, config=changes).hugging_face(tmp_path / "model")
    with pytest.raises(ValueError, match=r"no model\.encoder\.layer_norm\.weight"):
        read_package(folder)
    (folder / "source.spm").rename(folder / "spiece.model")
    with pytest.raises(ValueError, match="Pegasus model with another tokenizer"):
        read_package(folder)


def test_subwords_of_another_tool_are_refused(files: MarianFiles, tmp_path: Path) -> None:
    folder = files.opus_mt(tmp_path / "model")
    (folder / "source.spm").rename(folder / "source.bpe")
    with pytest.raises(ValueError, match="subword-nmt"):
        read_package(folder)


def test_a_sentencepiece_model_of_merges_is_refused(words: Words, tmp_path: Path) -> None:
    from dragoman.pretrained.conversion import convert

    spm = train_spm(["a man and a dog", "the old house"] * 20, 20, model_type="bpe")
    model = read_package(
        MarianFiles(Words((spm, words.spms[1]), words.source, words.target)).opus_mt(tmp_path / "model")
    )
    with pytest.raises(ValueError, match="not a unigram model"):
        convert(model, ())


def test_files_elsewhere_are_not_read(files: MarianFiles, tmp_path: Path) -> None:
    folder = files.opus_mt(tmp_path / "model")
    secret = tmp_path / "secret.yml"
    secret.write_text("</s>: 0\n<unk>: 1\n")
    decoder = (folder / "decoder.yml").read_text().replace("both.vocab.yml", "../secret.yml")
    (folder / "decoder.yml").write_text(decoder)
    with pytest.raises(ValueError, match=r"\.\./secret\.yml, but it is not beside"):
        read_package(folder)


def test_an_archive_is_read_where_its_files_are_and_unpacks_nothing(files: MarianFiles, tmp_path: Path) -> None:
    folder, archive = files.opus_mt(tmp_path / "model"), tmp_path / "opus.zip"
    with ZipFile(archive, "w") as file:
        file.writestr("../../outside.txt", "never written")
        for path in folder.iterdir():
            file.write(path, f"inside/{path.name}")
    before = set(tmp_path.rglob("*"))
    model = read_package(archive)
    assert set(tmp_path.rglob("*")) == before
    assert model.origin.name == "opus"
    assert model.origin.licence == "Attribution 4.0 International"
    np.testing.assert_array_equal(model.output, read_package(folder).output)


@pytest.mark.parametrize("content", [None, b"no archive"])
def test_what_is_no_package_is_refused(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "opus.zip"
    if content:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=r"give a folder or a \.zip of a model"):
        read_package(path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="a model of Dragoman already"):
        read_package(demo_folder())
    with pytest.raises(ValueError, match=r"neither config\.json"):
        read_package(tmp_path / "empty")


@pytest.mark.parametrize("name", ["model.safetensors", "vocab.json", "config.json", "source.spm"])
def test_a_missing_or_damaged_file_is_named(name: str, files: MarianFiles, tmp_path: Path) -> None:
    folder = files.hugging_face(tmp_path / "model")
    (folder / name).write_bytes(b"damaged")
    with pytest.raises(ValueError, match=name.replace(".", r"\.")):
        read_package(folder)
    (folder / name).unlink()
    with pytest.raises(ValueError, match=name.replace(".", r"\.")):
        read_package(folder)


def test_a_language_tag_is_chosen_by_its_code(words: Words, tmp_path: Path) -> None:
    tags = (">>deu<<", ">>nld<<")
    tagged = Words(words.spms, [*words.source[:2], *tags, *words.source[2:]], [])
    tagged.target = tagged.source
    folder = MarianFiles(tagged).hugging_face(tmp_path / "model")
    model = read_package(folder)
    assert choose_tags(folder, model, "nld") == choose_tags(folder, model, ">>nld<<") == [">>nld<<"]
    assert choose_tags(folder, model, None) == [">>deu<<", ">>nld<<"]
    with pytest.raises(ValueError, match="no language tag >>fra<<: choose one of deu, nld"):
        choose_tags(folder, model, "fra")
    plain = read_package(MarianFiles(words).hugging_face(tmp_path / "plain"))
    assert choose_tags(folder, plain, None) == []
    with pytest.raises(ValueError, match="leave out --to"):
        choose_tags(folder, plain, "deu")


def test_a_licence_is_found_in_the_readme(files: MarianFiles, tmp_path: Path) -> None:
    head = "---\nlanguage: en\nlicense: cc-by-4.0\n---\nlicense: none\n"
    model = read_package(files.hugging_face(tmp_path / "one", readme=head))
    assert (model.origin.licence, model.alignment_heads) == ("cc-by-4.0", ())
    (head,) = read_package(files.hugging_face(tmp_path / "two", readme="* model: transformer-align")).alignment_heads
    assert (head.layer_number, head.head, head.rows) == (2, 0, "written")
    assert json.loads((tmp_path / "two" / "config.json").read_text())["decoder_layers"] == 3
