"""Imported models against transformers and CTranslate2's own converter: ids, logits, translations."""

import gzip
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import ctranslate2
import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))  # for marian_packages.py
from marian_packages import ENGLISH, GERMAN, NAMES, MarianFiles, Words, sentences

from dragoman.bundle import open_bundle
from dragoman.decoding.engine import Engine, search
from dragoman.decoding.options import EngineOptions, LengthLimit, SearchOptions
from dragoman.models.transformer import Transformer
from dragoman.models.weights import load_weights
from dragoman.pretrained.conversion import ConvertedModel, convert
from dragoman.pretrained.formats import read_package
from dragoman.pretrained.marian_model import MarianModel
from dragoman.pretrained.position_tables import position_table
from dragoman.pretrained.reference import ReferenceModel
from dragoman.text.vocab import BOS, EOS
from dragoman.translation.import_check import ImportRequest, import_model
from dragoman.translation.translator import Translator

transformers = pytest.importorskip("transformers", reason="transformers is not installed: a test-only reference")
pytestmark = [
    pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
Made = Callable[..., Path]


@pytest.fixture(scope="module")
def joint() -> Words:
    return Words.made(sentences(ENGLISH, 300), sentences(GERMAN, 300), (60, 70))


@pytest.fixture(scope="module")
def separate() -> Words:
    return Words.made(sentences(ENGLISH, 300), sentences(GERMAN, 300), (60, 70), joint=False)


def old_ids(rows: list[int], order: list[int | None]) -> list[int]:
    return [number for number in (order[row] for row in rows) if number is not None]


def our_model(converted: ConvertedModel) -> Transformer:
    model = Transformer(converted.config).eval()
    load_weights(model, converted.weights)
    return model


def their_model(folder: Path, dtype: torch.dtype = torch.float32) -> Any:
    model = transformers.MarianMTModel.from_pretrained(folder).eval().to(dtype)
    for side in (model.model.encoder, model.model.decoder):  # its own table is rounded to float32
        side.embed_positions.weight.data = torch.from_numpy(
            position_table("hf", *side.embed_positions.weight.shape)
        ).to(dtype)
    return model


def logits_of(folder: Path, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Both models' logits of a random pair, ours by their ids."""
    model = read_package(folder)
    converted, theirs = convert(model, ()), their_model(folder, dtype)
    ours = our_model(converted).to(dtype)
    draw = np.random.default_rng(3)
    source = [*draw.integers(4, len(converted.source_order), 11).tolist(), EOS]
    target = draw.integers(4, len(converted.target_order), 8).tolist()
    start = theirs.config.decoder_start_token_id
    with torch.no_grad():
        mine = ours(torch.tensor([source]), torch.tensor([[BOS, *target]]))[0]
        other = theirs(
            input_ids=torch.tensor([old_ids(source, converted.source_order)]),
            decoder_input_ids=torch.tensor([[start, *old_ids(target, converted.target_order)]]),
        ).logits[0]
    kept = [number for number, old in enumerate(converted.target_order) if old not in (None, model.target.pad)]
    return mine[:, kept], other[:, [converted.target_order[number] for number in kept]]


LARGE = {
    512: {"d_model": 512, "d_ff": 2048, "num_heads": 8, "layers": (1, 1)},
    1024: {"d_model": 1024, "d_ff": 4096, "num_heads": 16, "layers": (1, 1)},
}
"""Layers as in OPUS-MT's usual and in its large models, by d_model."""


@pytest.mark.parametrize("activation", ["relu", "swish", "gelu"])
@pytest.mark.parametrize("vocabulary", ["joint", "separate"])
@pytest.mark.parametrize("start", [False, True], ids=["zero start", "moved start"])
def test_logits_are_those_of_transformers(
    activation: str, vocabulary: str, start: bool, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    words: Words = request.getfixturevalue(vocabulary)
    check_logits(MarianFiles(words, activation=activation, start=start).hugging_face(tmp_path / "model"))


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["relu", "swish", "gelu"])
@pytest.mark.parametrize("vocabulary", ["joint", "separate"])
@pytest.mark.parametrize("d_model", LARGE)
def test_logits_of_large_layers_are_those_of_transformers(
    d_model: int, activation: str, vocabulary: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    words: Words = request.getfixturevalue(vocabulary)
    check_logits(MarianFiles(words, **LARGE[d_model], activation=activation).hugging_face(tmp_path / "model"))


def check_logits(folder: Path) -> None:
    torch.set_default_dtype(torch.float64)
    try:
        ours, theirs = logits_of(folder, torch.float64)
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    finally:
        torch.set_default_dtype(torch.float32)
    ours, theirs = logits_of(folder, torch.float32)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_logits_of_a_model_of_the_usual_size_are_those_of_transformers(joint: Words, tmp_path: Path) -> None:
    files = MarianFiles(joint, d_model=512, d_ff=2048, num_heads=8, layers=(6, 6))
    ours, theirs = logits_of(files.hugging_face(tmp_path / "model"), torch.float32)
    scale = theirs.abs().max()
    torch.testing.assert_close(ours / scale, theirs / scale, rtol=0, atol=1e-5)


def test_the_formulas_in_numpy_are_those_of_transformers(joint: Words, tmp_path: Path) -> None:
    folder = MarianFiles(joint, activation="gelu", start=True).hugging_face(tmp_path / "model")
    model, theirs = read_package(folder), their_model(folder)
    source, target = [7, 12, 31, 9, 0], [22, 41, 8, 0]
    start = theirs.config.decoder_start_token_id
    with torch.no_grad():
        logits = theirs(
            input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([[start, *target[:-1]]])
        ).logits[0]
    logits[:, theirs.config.pad_token_id] = -torch.inf
    found = ReferenceModel(model).log_probabilities(source, target, model.target.never)
    np.testing.assert_allclose(found, logits.log_softmax(-1).numpy(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("vocabulary", ["joint", "separate"])
def test_greedy_translations_are_those_of_transformers(
    vocabulary: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    words: Words = request.getfixturevalue(vocabulary)
    folder = MarianFiles(words, start=True).hugging_face(tmp_path / "model")
    imported = import_model(ImportRequest(folder, tmp_path / "base"))
    converted = convert(read_package(folder), ())
    texts = sentences(ENGLISH, 200, seed=9)
    tokenizer, theirs = transformers.MarianTokenizer.from_pretrained(folder), their_model(folder)
    limit = 30
    encoded = tokenizer(texts, return_tensors="pt", padding=True)
    with torch.no_grad():
        written = theirs.generate(**encoded, num_beams=1, do_sample=False, max_new_tokens=limit)
    expected = [row[1:].tolist() for row in written]
    options = SearchOptions(beam_size=1, max_length=LengthLimit(ratio=0, extra=limit))
    for engine in ("ctranslate2", "torch"):
        translator = Translator.load(imported.bundle, EngineOptions(engine, threads=1))
        rows = imported.bundle.vocab.source.encode(texts).rows()
        found = search(translator.engine, rows, options)
        for result, theirs_row in zip(found, expected, strict=True):
            mine = old_ids([*result.best.tokens, EOS], converted.target_order)
            assert mine == theirs_row[: theirs_row.index(0) + 1]
    assert len({tuple(row) for row in expected}) > 20, "a comparison of translations that are all alike says little"


def read_lines(folder: Path, name: str, count: int) -> list[str]:
    with gzip.open(folder / "multi30k" / name, "rt", encoding="utf-8") as file:
        return [line.rstrip("\n") for line, _ in zip(file, range(count), strict=False)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["joint", "separate"])
def test_twelve_thousand_lines_have_the_ids_of_transformers(
    kind: Literal["joint", "separate"], shared_data: Path, tmp_path: Path
) -> None:
    english, german = (read_lines(shared_data, f"train.{code}.gz", 12_000) for code in ("en", "de"))
    words = Words.made(english, german, (1_500, 1_800), joint=kind == "joint")
    folder = MarianFiles(words).hugging_face(tmp_path / "model")
    converted = convert(read_package(folder), ())
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    for lines, side, order, options in (
        (english, converted.vocab.source, converted.source_order, {}),
        (german, converted.vocab.target, converted.target_order, {"text_target": True}),
    ):
        given = {"text_target": lines} if options else {"text": lines}
        expected = tokenizer(**given)["input_ids"]
        found = [old_ids(row, order) for row in side.encode(lines).rows()]
        assert sum(one != other for one, other in zip(found, expected, strict=True)) == 0
        if kind == "separate" and not options:
            continue  # transformers decodes with the target's vocabulary alone
        texts = [side.decode(row) for row in side.encode(lines[:500]).rows()]
        assert texts == [
            tokenizer.decode(row, skip_special_tokens=True, clean_up_tokenization_spaces=False)
            for row in expected[:500]
        ]


def test_odd_characters_have_the_ids_of_transformers(joint: Words, tmp_path: Path) -> None:
    folder = MarianFiles(joint).hugging_face(tmp_path / "model")
    converted = convert(read_package(folder), ())
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    texts = [
        "a ü b",
        "ß",
        "\uff21 \uff54\uff57\uff4f",
        "  two  spaces ",
        "犬 the 犬犬",
        "x\u00a0y",
        "</s> <unk> <pad>",
        "",
        "▁the",
        "tab\there",
    ]
    found = [old_ids(row, converted.source_order) for row in converted.vocab.source.encode(texts).rows()]
    special = {"</s> <unk> <pad>"}  # transformers turns these words of a text into special ids
    for text, ours, theirs in zip(texts, found, tokenizer(texts)["input_ids"], strict=True):
        assert ours == theirs or text in special, text


def test_a_language_tag_begins_every_source(joint: Words, tmp_path: Path) -> None:
    tags = (">>deu<<", ">>nld<<")
    words = Words(joint.spms, [*joint.source[:2], *tags, *joint.source[2:]], [])
    words.target = words.source
    folder = MarianFiles(words).hugging_face(tmp_path / "model")
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    converted = convert(read_package(folder), [">>nld<<"])
    texts = sentences(ENGLISH, 20)
    found = [old_ids(row, converted.source_order) for row in converted.vocab.source.encode(texts).rows()]
    assert found == tokenizer([f">>nld<< {text}" for text in texts])["input_ids"]
    spans = converted.vocab.source.spans(texts[0])
    assert len(spans) == len(found[0])
    assert spans[0] == (0, 0)
    assert "".join(texts[0][start:end] for start, end in spans) == texts[0]
    assert converted.vocab.source.encode([""]).ids.tolist() == [EOS]
    assert converted.vocab.target.prefix == ()


def test_a_model_of_several_languages_is_imported_with_all_tags(joint: Words, tmp_path: Path) -> None:
    tags = (">>deu<<", ">>nld<<")
    words = Words(joint.spms, [*joint.source[:2], *tags, *joint.source[2:]], [])
    words.target = words.source
    folder = MarianFiles(words).hugging_face(tmp_path / "model")
    imported = import_model(ImportRequest(folder, tmp_path / "base", languages=("en",)))
    info = imported.bundle.info
    assert (info.source_language, info.target_language, info.target_languages) == ("en", None, ("deu", "nld"))
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    order = convert(read_package(folder), tags).source_order
    for language in ("deu", "nld"):
        found = imported.bundle.to(language).vocab.source.encode(sentences(ENGLISH, 5)).rows()
        theirs = tokenizer([f">>{language}<< {text}" for text in sentences(ENGLISH, 5)])["input_ids"]
        assert [old_ids(row, order) for row in found] == theirs
    with pytest.raises(ValueError, match=r"choose one with --to, .*: deu, nld"):
        imported.bundle.to(None)
    one = import_model(ImportRequest(folder, tmp_path / "one", to="nld"))
    assert (one.bundle.info.target_language, one.tags) == ("nld", [">>nld<<"])
    assert (
        one.bundle.vocab.source.encode(["two"]).rows() == imported.bundle.to("nld").vocab.source.encode(["two"]).rows()
    )
    with pytest.raises(ValueError, match="2 target languages: give --languages en for the source"):
        import_model(ImportRequest(folder, tmp_path / "no", languages=("en", "de")))


@pytest.mark.parametrize("activation", ["relu", "swish", "gelu"])
@pytest.mark.parametrize("vocabulary", ["joint", "separate"])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_an_opus_mt_package_scores_as_ctranslate2s_own_converter_lets_it(
    activation: str, vocabulary: str, norm: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """CTranslate2's converter has transformers' positions, and 1e-5 in its norms where Marian has 1e-6."""
    words: Words = request.getfixturevalue(vocabulary)
    steps = {"transformer-preprocess": "n", "transformer-postprocess": "da", "transformer-postprocess-top": "n"}
    files = MarianFiles(words, activation=activation)
    check_scores(files.opus_mt(tmp_path / "model", **(steps if norm == "pre" else {})), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["relu", "swish", "gelu"])
@pytest.mark.parametrize("vocabulary", ["joint", "separate"])
@pytest.mark.parametrize("d_model", LARGE)
def test_an_opus_mt_package_of_large_layers_scores_as_ctranslate2s_own_converter_lets_it(
    d_model: int, activation: str, vocabulary: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    words: Words = request.getfixturevalue(vocabulary)
    check_scores(MarianFiles(words, **LARGE[d_model], activation=activation).opus_mt(tmp_path / "model"), tmp_path)


def check_scores(folder: Path, tmp_path: Path) -> None:
    imported = import_model(ImportRequest(folder, tmp_path / "base", positions="hf"))
    converter = ctranslate2.converters.OpusMTConverter(str(folder))
    converter.convert(str(tmp_path / "theirs"))
    theirs = ctranslate2.Translator(str(tmp_path / "theirs"), compute_type="float32")
    model = read_package(folder)
    assert isinstance(model, MarianModel)
    texts = sentences(ENGLISH, 40, seed=4)
    tokens = [[model.source.tokens[number] for number in model.source.encode(text)[:-1]] for text in texts]
    found = theirs.translate_batch(tokens, beam_size=1, max_decoding_length=25, return_end_token=True)
    vocab = imported.bundle.vocab
    ids = {vocab.target.piece(number): number for number in range(vocab.target.size)}
    targets = [[token for token in result.hypotheses[0] if token != "</s>"] for result in found]
    expected = [scores.log_probs for scores in theirs.score_batch(tokens, targets)]
    engine: Engine = Translator.load(imported.bundle, EngineOptions("ctranslate2", threads=1)).engine
    rows = vocab.source.encode(texts).rows()
    for ours, other in zip(engine.score(rows, [[ids[one] for one in row] for row in targets]), expected, strict=True):
        np.testing.assert_allclose(ours, other, rtol=0, atol=2e-3)


def test_marians_positions_are_the_default_of_its_packages(joint: Words, tmp_path: Path) -> None:
    files = MarianFiles(joint)
    folder = files.opus_mt(tmp_path / "model")
    assert read_package(folder).positions == "marian"
    assert read_package(files.hugging_face(tmp_path / "hf")).positions == "hf"
    converted = convert(read_package(folder), ())
    assert (converted.config.positions, converted.config.norm_epsilon) == ("sinusoidal-halves", 1e-6)
    np.testing.assert_array_equal(
        converted.weights["encoder.embedding.tokens.weight"][EOS], files.arrays()["model.shared.weight"][0]
    )


def test_a_model_fine_tuned_with_transformers_is_imported(joint: Words, tmp_path: Path) -> None:
    folder = MarianFiles(joint).hugging_face(tmp_path / "model")
    tokenizer, model = transformers.MarianTokenizer.from_pretrained(folder), their_model(folder).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    batch = tokenizer(sentences(ENGLISH, 8), text_target=sentences(GERMAN, 8), return_tensors="pt", padding=True)
    labels = batch.pop("labels")
    pad = model.config.pad_token_id
    # The embedding of the padding id has no gradient of its own: the tied output matrix moves the row.
    for _ in range(3):
        model(**batch, labels=labels.masked_fill(labels == pad, -100)).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    tuned = tmp_path / "tuned"
    model.eval().save_pretrained(tuned)
    tokenizer.save_pretrained(tuned)
    assert model.model.shared.weight[pad].abs().max() > 1e-3
    ours, theirs = logits_of(tuned, torch.float32)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
    assert import_model(ImportRequest(tuned, tmp_path / "base")).check.largest_difference < 1e-4


def test_weights_in_a_file_of_torchs_are_read_without_running_code(joint: Words, tmp_path: Path) -> None:
    files = MarianFiles(joint)
    folder = files.hugging_face(tmp_path / "model")
    expected = read_package(folder).layers
    (folder / "model.safetensors").unlink()
    torch.save({name: torch.from_numpy(array) for name, array in files.arrays().items()}, folder / "pytorch_model.bin")
    found = read_package(folder).layers
    assert expected.keys() == found.keys()
    assert all(np.array_equal(found[name], array) for name, array in expected.items())
    torch.save({"a": files}, folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match="more than weights"):
        read_package(folder)


def test_the_bundle_says_where_it_comes_from(joint: Words, tmp_path: Path) -> None:
    import hashlib

    folder = MarianFiles(joint).opus_mt(tmp_path / "opus-mt-en-de")
    import_model(ImportRequest(folder, tmp_path / "base", languages=("en", "de")))
    bundle = open_bundle(tmp_path / "base")
    sha256 = hashlib.sha256(next(folder.glob("*.npz")).read_bytes()).hexdigest()
    assert bundle.card.licence == "Attribution 4.0 International"
    assert "opus-mt-en-de" in bundle.card.notes[0]
    assert sha256 in bundle.card.notes[0]
    assert (bundle.info.source_language, bundle.info.target_language) == ("en", "de")
    search_options = SearchOptions.model_validate(bundle.info.search)
    assert (search_options.beam_size, search_options.penalty.formula, search_options.penalty.alpha) == (
        6,
        "length",
        0.6,
    )
    (head,) = bundle.info.alignment_heads
    assert (head.layer, head.head, head.rows) == ("decoder.layers.2.cross_attention", 0, "written")
    assert bundle.exports[0].alignment_heads == (head,)
    with pytest.raises(ValueError, match="not an empty folder"):
        import_model(ImportRequest(folder, tmp_path / "base"))


@pytest.fixture(scope="module")
def named() -> Words:
    """Both languages have the same names."""
    return Words.made(sentences(ENGLISH + NAMES, 300), sentences(GERMAN + NAMES, 300), (120, 130))


def aligning(words: Words, aligned: tuple[int, int, str], heads: list[list[int]], rows: str) -> MarianFiles:
    config = {"alignment_heads": heads, "alignment_rows": rows}
    shape = {"d_model": 64, "d_ff": 64, "num_heads": 4, "layers": (1, 2)}
    return MarianFiles(words, **shape, aligned=aligned, config=config)


@pytest.mark.parametrize("aligned", [(1, 0, "written"), (1, 2, "written"), (0, 3, "written"), (1, 2, "read")], ids=str)
def test_the_alignment_head_that_a_package_names_is_set_and_confirmed(
    aligned: tuple[int, int, str], named: Words, tmp_path: Path
) -> None:
    layer, head, rows = aligned
    files = aligning(named, aligned, [[layer, head]], rows)
    imported = import_model(ImportRequest(files.hugging_face(tmp_path / "model"), tmp_path / "base"))
    (stored,) = imported.bundle.info.alignment_heads
    assert (stored.layer, stored.head, stored.rows) == (f"decoder.layers.{layer}.cross_attention", head, rows)
    check = imported.head_check
    assert check is not None
    assert check.is_confirmed
    assert (check.found, check.best) == (check.tokens, stored)
    assert check.tokens > 50, "the tokens of all copies count, not of one"
    vocab = imported.bundle.vocab  # the export shows the same head
    engine = Translator.load(imported.bundle, EngineOptions("ctranslate2", threads=1)).engine
    names = [vocab.source.encode([f"{name}"]).ids.tolist()[0] for name in NAMES[:12]]
    targets = {vocab.target.piece(number): number for number in range(vocab.target.size)}
    copied = [targets[vocab.source.piece(number)] for number in names[3:]]
    (weights,) = engine.attention([[*names, EOS]], [copied])
    seen = weights[1:-1] if rows == "written" else weights[2:]
    assert seen.argmax(-1).tolist() == list(range(4, 12))


def test_the_doubt_about_an_alignment_head_names_a_better_one(named: Words, tmp_path: Path) -> None:
    wrong = aligning(named, (1, 2, "written"), [[1, 0]], "written").hugging_face(tmp_path / "model")
    check = import_model(ImportRequest(wrong, tmp_path / "base")).head_check
    assert check is not None
    assert not check.is_confirmed
    assert check.found < 0.3 * check.tokens
    assert (check.best.layer_number, check.best.head, check.found_by_best) == (1, 2, check.tokens)
    shifted = aligning(named, (1, 2, "written"), [[1, 2]], "read").hugging_face(tmp_path / "shifted")
    check = import_model(ImportRequest(shifted, tmp_path / "other")).head_check
    assert check is not None
    assert not check.is_confirmed, "the row of a token is the one before"


def test_without_common_tokens_an_alignment_head_is_not_checked(joint: Words, tmp_path: Path) -> None:
    folder = MarianFiles(joint).hugging_face(tmp_path / "model")
    imported = import_model(ImportRequest(folder, tmp_path / "base"))
    assert imported.bundle.info.alignment_heads
    assert imported.head_check is None


def test_an_import_that_computes_otherwise_is_not_written(
    joint: Words, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = MarianFiles(joint).hugging_face(tmp_path / "model")
    order = np.arange(24)
    monkeypatch.setattr("dragoman.pretrained.conversion.residual_order", lambda *_: order)
    with pytest.raises(ValueError, match="Marian's formulas"):
        import_model(ImportRequest(folder, tmp_path / "base"))
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_subword_sampling_is_refused(joint: Words, tmp_path: Path) -> None:
    converted = convert(read_package(MarianFiles(joint).hugging_face(tmp_path / "model")), ())
    with pytest.raises(ValueError, match="subword sampling"):
        converted.vocab.source.sample(["two dogs"], 0.1, (1, 2))
