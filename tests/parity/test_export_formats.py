"""Exported models in the programs they are for: transformers, CTranslate2 alone, and Argos Translate's formulas."""

import copy
import gzip
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import ctranslate2
import numpy as np
import pytest
import sentencepiece
import torch

sys.path.insert(0, str(Path(__file__).parent))  # for marian_packages.py
from marian_packages import ENGLISH, GERMAN, MarianFiles, Words, sentences

from dragoman.bundle import Bundle, BundleInfo, Card, open_bundle, write_bundle
from dragoman.bundle.alignment_head import AlignmentHead, Heads
from dragoman.bundle.info import Export
from dragoman.decoding.ctranslate2_engine import CTranslate2Engine
from dragoman.decoding.engine import search
from dragoman.decoding.options import LengthLimit, SearchOptions
from dragoman.decoding.torch_engine import TorchEngine
from dragoman.export.ctranslate2 import weights_file
from dragoman.models.build import build
from dragoman.models.config import RecurrentConfig, TransformerConfig
from dragoman.models.transformer import Transformer
from dragoman.models.weights import load_weights, weights_of
from dragoman.text.vocab import BOS, EOS, PAD, Vocab, VocabConfig, train_vocab
from dragoman.translation.export_formats import ExportFormatRequest, export_as
from dragoman.translation.import_check import ImportRequest, import_model

transformers = pytest.importorskip("transformers", reason="transformers is not installed: a test-only reference")
pytestmark = [
    pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
GOLDEN = Path(__file__).parents[1] / "golden" / "v1"
LIMIT = 24
CARD = Card(title="A small model", licence="CC-BY-4.0: as its data")
OWN: dict[str, dict[str, Any]] = {
    "as in the paper": {"tie": "all"},
    "with biases": {
        "attention_bias": True,
        "output_bias": True,
        "norm_epsilon": 1e-5,
        "activation": "swish",
        "seed": 11,
        "heads": [
            AlignmentHead(layer="decoder.layers.1.cross_attention", head=number, rows="read") for number in (2, 0)
        ],
    },
    "sines first": {"positions": "sinusoidal-halves", "activation": "gelu-sigmoid"},
    "trained positions": {"positions": "learned", "activation": "gelu", "norm_epsilon": 1e-5},
    "two matrices": {"tie": "target"},
    "two vocabularies": {"tie": "target", "joint": False},
    "three matrices": {"tie": "none", "joint": False, "output_bias": True},
    "norms before": {"norm": "pre", "attention_bias": True},
    "norms before, with biases": {
        "norm": "pre",
        "attention_bias": True,
        "output_bias": True,
        "norm_epsilon": 1e-5,
        "activation": "gelu",
    },
    "norms before, sines first": {"norm": "pre", "positions": "sinusoidal-halves", "norm_epsilon": 1e-5},
    "norms before, trained positions": {"norm": "pre", "positions": "learned", "norm_epsilon": 1e-5},
}
IMPORTED = ("imported", "imported with two vocabularies", "imported from Marian", "imported with tags")


def random_weights(model: torch.nn.Module, seed: int) -> dict[str, np.ndarray]:
    """Weights with which translations differ from each other, biases and norms included."""
    draw, made = np.random.default_rng(seed), {}
    for name, array in weights_of(model).items():
        if array.ndim == 1:
            made[name] = draw.normal(float("norm.weight" in name), 0.1, array.shape)
        else:
            size = 1.0 if "embedding" in name or "tokens" in name else 5.0 if "cross" in name else 2.0
            made[name] = draw.normal(0, size / np.sqrt(array.shape[1]), array.shape)
    return {name: array.astype(np.float32) for name, array in made.items()}


def make_vocab(joint: bool = True) -> Vocab:
    config = VocabConfig(size=330, joint=joint, character_coverage=1.0)
    return train_vocab(sentences(ENGLISH, 300), sentences(GERMAN, 300), config)


def make_own(
    folder: Path,
    joint: bool = True,
    norm: str = "post",
    seed: int = 12,
    vocab: Vocab | None = None,
    heads: Heads = (),
    **shape: Any,
) -> Bundle:
    vocab = vocab or make_vocab(joint)
    options = {"d_model": 24, "d_ff": 40, "num_heads": 3, "num_encoder_layers": 2, "num_decoder_layers": 3}
    sizes = {"source_vocabulary": vocab.source.size, "target_vocabulary": vocab.target.size, "max_positions": 96}
    model = TransformerConfig.model_validate({**options, **sizes, "norm": norm, **shape})
    # Random weights have near-ties, which rounding decides: more of them in a beam, and in long translations.
    search_options = {"beam_size": 1, "max_length": {"ratio": 0, "extra": LIMIT}}
    codes = {"source_language": "en", "target_language": "de"}
    info = BundleInfo(model=model, search=search_options, alignment_heads=heads, **codes)
    return write_bundle(folder, info, random_weights(build(model), seed), vocab, CARD)


def make_imported(name: str, folder: Path) -> Bundle:
    is_joint, tags = "two vocabularies" not in name, (">>deu<<", ">>nld<<") if "tags" in name else ()
    words = Words.made(sentences(ENGLISH, 300), sentences(GERMAN, 300), (60, 70), is_joint, tags)
    files, package = MarianFiles(words, start=True), folder / "package"
    package = files.opus_mt(package) if "Marian" in name else files.hugging_face(package)
    request = ImportRequest(package, folder / "base", to="nld" if tags else None, languages=("en", "de"))
    return import_model(request).bundle


class Case(NamedTuple):
    """A model and its export for transformers."""

    name: str
    bundle: Bundle
    folder: Path
    tag: str | None


@pytest.fixture(scope="module", params=[*OWN, *IMPORTED])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    place, name = tmp_path_factory.mktemp("case"), request.param
    bundle = make_own(place / "own", **OWN[name]) if name in OWN else make_imported(name, place)
    exported = export_as(bundle, ExportFormatRequest("transformers", place / "hf"))
    assert exported.check is not None
    assert exported.check.identical == exported.check.texts > 20
    is_lost = bundle.info.model.positions != "sinusoidal" and "before" not in name
    assert len(exported.warnings) == int(is_lost) + int("tags" in name)
    return Case(name, bundle, place / "hf", ">>nld<<" if "tags" in name else None)


def load_theirs(folder: Path) -> tuple[Any, Any]:
    """The model and the tokenizer in transformers, which must miss nothing and leave nothing out."""
    model, report = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, output_loading_info=True)
    assert {name: list(found) for name, found in report.items() if found} == {}
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert isinstance(model, transformers.MarianMTModel | transformers.PegasusForConditionalGeneration)
    assert isinstance(tokenizer, transformers.MarianTokenizer)
    return model.eval(), tokenizer


def test_an_import_of_the_export_has_the_same_weights_bit_by_bit(case: Case, tmp_path: Path) -> None:
    back = import_model(ImportRequest(case.folder, tmp_path / "back", to=case.tag and "nld")).bundle
    ours, theirs = case.bundle.weights(), back.weights()
    if "projection.bias" in ours:
        assert "imported" not in case.name or (ours["projection.bias"][[PAD, BOS]] == -100).all()
        ours["projection.bias"][[PAD, BOS]] = -100  # an import removes both from the softmax
    for name, array in ours.items():
        np.testing.assert_array_equal(theirs[name], array, strict=True, err_msg=name)
    for name in theirs.keys() - ours.keys():
        assert name.endswith(".bias")
        assert not np.delete(theirs[name], [PAD, BOS] if name == "projection.bias" else []).any()
    assert (back.vocab.source.proto, back.vocab.target.proto) == (
        case.bundle.vocab.source.proto,
        case.bundle.vocab.target.proto,
    )
    always = {"attention_bias": True, "output_bias": True, "norm_epsilon": 1e-5}
    assert back.info.model == case.bundle.info.model.model_copy(update=always)
    assert back.info.alignment_heads == case.bundle.info.alignment_heads
    # The tag that is imported names the language.
    assert (back.info.source_language, back.info.target_language) == ("en", "nld" if case.tag else "de")
    assert back.card.licence == case.bundle.card.licence


def test_logits_and_greedy_translations_are_those_of_our_engines(case: Case) -> None:
    theirs, tokenizer = load_theirs(case.folder)
    texts = sentences(ENGLISH, 120, seed=9)
    encoded = tokenizer(
        [f"{case.tag} {text}" if case.tag else text for text in texts], return_tensors="pt", padding=True
    )
    rows = case.bundle.vocab.source.encode(texts).rows()
    assert [[token for token in row if token != PAD] for row in encoded["input_ids"].tolist()] == rows
    model = Transformer(case.bundle.info.model).eval()
    load_weights(model, case.bundle.weights())
    target = torch.tensor([[BOS, 9, 40, 31, 12]])
    with torch.no_grad():
        mine = model(torch.tensor([rows[0]]), target)
        other = theirs(input_ids=torch.tensor([rows[0]]), decoder_input_ids=target).logits
        written = theirs.generate(**encoded, num_beams=1, do_sample=False, max_new_tokens=LIMIT)
    torch.testing.assert_close(other, mine, rtol=0, atol=2e-4)  # transformers' norms have another epsilon
    exact = Transformer(case.bundle.info.model.model_copy(update={"norm_epsilon": 1e-5})).eval()
    load_weights(exact, case.bundle.weights())
    with torch.no_grad():
        mine = exact.double()(torch.tensor([rows[0]]), target)
        other = copy.deepcopy(theirs).double()(input_ids=torch.tensor([rows[0]]), decoder_input_ids=target).logits
    torch.testing.assert_close(other, mine, rtol=0, atol=1e-10)
    expected = [row[1 : row.index(EOS) + 1] for row in written.tolist()]
    options = SearchOptions(beam_size=1, max_length=LengthLimit(ratio=0, extra=LIMIT))
    content = weights_file(case.bundle)
    for engine in (TorchEngine(model), CTranslate2Engine.of(case.bundle, Export.unchecked(content), content, 1)):
        assert [[*result.best.tokens, EOS] for result in search(engine, rows, options)] == expected
    assert len(set(map(tuple, expected))) > 10, "a comparison of translations that are all alike says little"
    decoded = tokenizer.batch_decode(written, skip_special_tokens=True)
    tag = str(case.tag)  # transformers leaves a tag out of a text
    ours = [case.bundle.vocab.target.decode(row).replace(tag, "") for row in expected]
    assert decoded == [" ".join(text.split()) if "imported" in case.name else text.strip() for text in ours]


@pytest.mark.parametrize("name", ["as in the paper", "norms before", "norms before, sines first"])
def test_a_fine_tuned_export_comes_back(name: str, tmp_path: Path) -> None:
    heads = (AlignmentHead(layer="decoder.layers.1.cross_attention", head=2, rows="read"),)
    bundle = make_own(tmp_path / "own", heads=heads, **OWN[name])
    export_as(bundle, ExportFormatRequest("transformers", tmp_path / "hf"))
    model, tokenizer = load_theirs(tmp_path / "hf")
    batch = tokenizer(sentences(ENGLISH, 8), text_target=sentences(GERMAN, 8), return_tensors="pt", padding=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    batch["labels"] = batch["labels"].masked_fill(batch["labels"] == PAD, -100)
    losses = []
    for _ in range(4):
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    model.save_pretrained(tmp_path / "tuned")
    tokenizer.save_pretrained(tmp_path / "tuned")
    back = import_model(ImportRequest(tmp_path / "tuned", tmp_path / "back")).bundle
    assert back.info.model.positions == bundle.info.model.positions
    assert back.info.alignment_heads == heads
    again = export_as(back, ExportFormatRequest("transformers", tmp_path / "again"))
    assert again.check is not None
    found, _ = load_theirs(tmp_path / "again")
    for name, tensor in model.state_dict().items():
        if name != "final_logits_bias":
            torch.testing.assert_close(found.state_dict()[name], tensor, rtol=0, atol=0, msg=name)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "norms before and two matrices": ({"norm": "pre", "tie": "target"}, "tie: target"),
    "other widths": ({"d_k": 5, "d_v": 7}, "d_k 5 and d_v 7"),
    "an odd dimension": ({"d_model": 15}, "d_model 15 is odd"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_transformers_cannot_express_is_refused_with_the_reason(name: str, tmp_path: Path) -> None:
    shape, reason = REFUSED[name]
    bundle = make_own(tmp_path / "own", **shape)
    with pytest.raises(ValueError, match=reason):
        export_as(bundle, ExportFormatRequest("transformers", tmp_path / "hf"))
    assert [path.name for path in tmp_path.iterdir()] == ["own"]


def test_a_recurrent_model_is_refused(tmp_path: Path) -> None:
    own = make_own(tmp_path / "own")
    config = RecurrentConfig(source_vocabulary=330, target_vocabulary=330, d_model=8, d_embedding=6)
    bundle = write_bundle(tmp_path / "rnn", BundleInfo(model=config), weights_of(build(config)), own.vocab, CARD)
    for kind in ("transformers", "argos", "ctranslate2"):
        with pytest.raises(ValueError, match="recurrent"):
            export_as(bundle, ExportFormatRequest(kind, tmp_path / "out"))  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_another_epsilon_that_changes_translations_is_refused(tmp_path: Path) -> None:
    bundle = make_own(tmp_path / "own", norm_epsilon=0.3)
    with pytest.raises(ValueError, match=r"epsilon of 1e-05, not 0\.3"):
        export_as(bundle, ExportFormatRequest("transformers", tmp_path / "hf"))
    assert [path.name for path in tmp_path.iterdir()] == ["own"]


def run_readme(folder: Path) -> str:
    """Run the code of the exported model card, for the text "A text."."""
    code = (folder / "README.md").read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.rstrip("\n")


@pytest.mark.parametrize("joint", [True, False])
def test_a_folder_for_ctranslate2_alone_gives_our_answers(joint: bool, tmp_path: Path) -> None:
    bundle = make_own(tmp_path / "own", joint=joint, tie="target", norm="pre")
    heads = (AlignmentHead(layer="decoder.layers.1.cross_attention", head=2),)
    bundle = write_bundle(
        tmp_path / "own",
        bundle.info.model_copy(update={"alignment_heads": heads}),
        bundle.weights(),
        bundle.vocab,
        CARD,
    )
    exported = export_as(bundle, ExportFormatRequest("ctranslate2", tmp_path / "plain"))
    assert exported.check is not None
    assert exported.num_bytes == sum(path.stat().st_size for path in (tmp_path / "plain").rglob("*") if path.is_file())
    names = ("vocab.model", "vocab.model") if joint else ("vocab.source.model", "vocab.target.model")
    source, target = (sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "plain" / name)) for name in names)
    translator = ctranslate2.Translator(str(tmp_path / "plain"), inter_threads=1, intra_threads=1)
    texts = sentences(ENGLISH, 110, seed=3)
    found = translator.translate_batch(
        [source.encode(text, out_type=str) for text in texts],
        beam_size=1,
        max_decoding_length=LIMIT,
        suppress_sequences=[["<pad>"], ["<s>"]],
    )
    model = Transformer(bundle.info.model).eval()
    load_weights(model, bundle.weights())
    options = SearchOptions(beam_size=1, max_length=LengthLimit(ratio=0, extra=LIMIT + 1))
    expected = search(TorchEngine(model), bundle.vocab.source.encode(texts).rows(), options)
    ours = [[bundle.vocab.target.piece(token) for token in result.best.tokens] for result in expected]
    assert [result.hypotheses[0] for result in found] == ours
    assert len({tuple(row) for row in ours}) > 10
    rows = [source.encode("A text.", out_type=str)]
    plain = translator.translate_batch(rows, max_decoding_length=96)[0].hypotheses[0]
    assert run_readme(tmp_path / "plain") == target.decode(plain)


@pytest.mark.parametrize("joint", [True, False])
def test_an_argos_package_has_what_argos_reads_and_its_decoder_gives_our_text(joint: bool, tmp_path: Path) -> None:
    """Argos has one SentencePiece model: it cuts the source, and its `decode_pieces` joins the target's tokens."""
    bundle = open_bundle(GOLDEN) if joint else make_own(tmp_path / "own", joint=False, tie="target")
    store = None if joint else "float32"  # rounding changes random weights too much
    exported = export_as(bundle, ExportFormatRequest("argos", tmp_path / "out", store))
    again = export_as(bundle, ExportFormatRequest("argos", tmp_path / "again", store))
    assert exported.path == tmp_path / "out" / "translate-en_de-1_0.argosmodel"
    assert exported.path.read_bytes() == again.path.read_bytes()
    assert exported.store == (store or "int8")
    (warning,) = exported.warnings
    assert "max_positions" in warning
    with zipfile.ZipFile(exported.path) as archive:
        archive.extractall(tmp_path / "packages")
    (package,) = (tmp_path / "packages").iterdir()
    metadata = json.loads((package / "metadata.json").read_text())
    assert {key: metadata[key] for key in ("from_code", "from_name", "to_code", "to_name")} == {
        "from_code": "en",
        "from_name": "English",
        "to_code": "de",
        "to_name": "German",
    }
    assert (bundle.card.licence or "") in (package / "README.md").read_text(encoding="utf-8")
    processor = sentencepiece.SentencePieceProcessor(model_file=str(package / "sentencepiece.model"))
    translator = ctranslate2.Translator(str(package / "model"), inter_threads=1, intra_threads=1)
    texts = sentences(ENGLISH, 40, seed=3)
    tokens = [processor.encode(text, out_type=str) for text in texts]
    found = translator.translate_batch(tokens, beam_size=4, length_penalty=0.2, max_decoding_length=LIMIT)
    ids = {bundle.vocab.target.piece(token): token for token in range(bundle.vocab.target.size)}
    for result in found:
        pieces = [piece for piece in result.hypotheses[0] if piece != "<unk>"]  # for which Argos puts the source
        text = processor.decode_pieces(pieces).replace("▁", " ").replace("_", " ").removeprefix(" ")
        assert text == bundle.vocab.target.decode([ids[piece] for piece in pieces])


@pytest.mark.parametrize("kind", ["transformers", "ctranslate2"])
def test_a_model_of_several_languages_is_exported_with_all_tags(kind: str, tmp_path: Path) -> None:
    tags = (">>deu<<", ">>nld<<")
    words = Words.made(sentences(ENGLISH, 300), sentences(GERMAN, 300), (60, 70), tags=tags)
    package = MarianFiles(words).hugging_face(tmp_path / "package")
    import_model(ImportRequest(package, tmp_path / "base", languages=("en",)))
    arguments = [str(tmp_path / "base"), "--as", kind, "--out", str(tmp_path / "out")]
    command = [sys.executable, "-m", "dragoman", "export", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert ", ".join(tags) in done.stderr
    vocabularies = [path.read_text(encoding="utf-8") for path in (tmp_path / "out").glob("*vocab*.json")]
    assert vocabularies
    assert all(tag in vocabulary for tag in tags for vocabulary in vocabularies)


def test_argos_needs_languages_and_no_tags_and_underscores_are_warned_of(tmp_path: Path) -> None:
    own = make_own(tmp_path / "own")
    nameless = own.info.model_copy(update={"target_language": None})
    bundle = write_bundle(tmp_path / "nameless", nameless, own.weights(), own.vocab, CARD)
    with pytest.raises(ValueError, match="--languages"):
        export_as(bundle, ExportFormatRequest("argos", tmp_path / "out"))
    named = export_as(bundle, ExportFormatRequest("argos", tmp_path / "out", "float32", ("en", "tlh")))
    assert named.path.name == "translate-en_tlh-1_0.argosmodel"
    tagged = make_imported("imported with tags", tmp_path / "tagged")
    with pytest.raises(ValueError, match="language tag"):
        export_as(tagged, ExportFormatRequest("argos", tmp_path / "other"))
    texts = [f"file_name {text}" for text in sentences(ENGLISH, 200)]
    vocab = train_vocab(texts, texts, VocabConfig(size=330, character_coverage=1.0))
    bundle = write_bundle(tmp_path / "underscores", own.info, own.weights(), vocab, CARD)
    warnings = export_as(bundle, ExportFormatRequest("argos", tmp_path / "third", "float32")).warnings
    assert "underscore" in warnings[0]


def test_a_folder_with_files_is_left_alone(tmp_path: Path) -> None:
    bundle = make_own(tmp_path / "own")
    before = {path: path.read_bytes() for path in (tmp_path / "own").iterdir()}
    with pytest.raises(ValueError, match="not an empty folder"):
        export_as(bundle, ExportFormatRequest("ctranslate2", tmp_path / "own"))
    assert {path: path.read_bytes() for path in (tmp_path / "own").iterdir()} == before


def read_lines(path: Path, count: int) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line.rstrip("\n") for line, _ in zip(file, range(count), strict=False)]


@pytest.mark.slow
def test_the_demo_has_our_ids_and_translations_in_transformers(shared_data: Path, tmp_path: Path) -> None:
    bundle = open_bundle("demo")
    export_as(bundle, ExportFormatRequest("transformers", tmp_path / "hf"))
    theirs, tokenizer = load_theirs(tmp_path / "hf")
    english, german = (read_lines(shared_data / "multi30k" / f"train.{code}.gz", 6_000) for code in ("en", "de"))
    english += read_lines(shared_data / "tatoeba-en-de" / "train.en.gz", 6_000)
    for lines, given in ((english, {"text": english}), (german, {"text_target": german})):
        assert tokenizer(**given)["input_ids"] == bundle.vocab.source.encode(lines).rows()
    texts = [*read_lines(shared_data / "tatoeba-en-de" / "dev.en.gz", 100), *english[:20]]
    rows = bundle.vocab.source.encode(texts).rows()
    limit = 100
    with torch.no_grad():
        encoded = tokenizer(texts, return_tensors="pt", padding=True)
        written = theirs.generate(**encoded, num_beams=1, do_sample=False, max_new_tokens=limit).tolist()
    expected = [row[1 : row.index(EOS)] for row in written]
    options = SearchOptions(beam_size=1, max_length=LengthLimit(ratio=0, extra=limit))
    model, content = Transformer(bundle.info.model).eval(), weights_file(bundle)
    load_weights(model, bundle.weights())
    for engine in (TorchEngine(model), CTranslate2Engine.of(bundle, Export.unchecked(content), content, 1)):
        assert [list(result.best.tokens) for result in search(engine, rows, options)] == expected
    back = import_model(ImportRequest(tmp_path / "hf", tmp_path / "back")).bundle.weights()
    for name, array in bundle.weights().items():
        np.testing.assert_array_equal(back[name], array, strict=True, err_msg=name)
