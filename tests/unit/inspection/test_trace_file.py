"""One file for one trace: what comes back, without the model and without torch, and what is refused."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from dragoman.alignment.tokens import Tokens
from dragoman.bundle.alignment_head import AlignmentHead
from dragoman.decoding.hypothesis import Candidate
from dragoman.inspection.inspector import Inspector
from dragoman.inspection.interventions import HeadsOff, HeadsUniform
from dragoman.inspection.trace import ModelIdentity, Trace

GOLDEN = Path(__file__).parents[2] / "golden"
CROSS = "decoder.layers.{}.cross_attention"


@pytest.fixture(scope="module", params=["v1", "v1-recurrent", "v1-convolutional"])
def trace(request: pytest.FixtureRequest) -> Trace:
    return Inspector.load(GOLDEN / request.param).trace("four green women.", history=True, vectors=True)


@pytest.fixture(scope="module")
def plain() -> Trace:
    return Inspector.load(GOLDEN / "v1").trace("two red dogs.", "zwei Hunde")


def test_what_is_read_is_what_was_written(trace: Trace, tmp_path: Path) -> None:
    trace.save(tmp_path / "a.trace")
    read = Trace.load(tmp_path / "a.trace")
    for name in ("source", "target", "free", "cut", "model", "pieces", "history"):
        assert getattr(read, name) == getattr(trace, name), name
    for name in ("log_probabilities", "alternative_ids", "alternative_log_probabilities"):
        np.testing.assert_array_equal(getattr(read, name), getattr(trace, name))
    assert [*read.attention] == [*trace.attention]
    assert [*read.norms] == [*read.vectors] == [*trace.norms]


def test_maps_come_back_in_half_precision(trace: Trace, tmp_path: Path) -> None:
    trace.save(tmp_path / "a.trace")
    read = Trace.load(tmp_path / "a.trace")
    for name, weights in trace.attention.items():
        np.testing.assert_array_equal(read.attention[name], weights.astype(np.float16))
        assert abs(read.attention[name] - weights).max() < 0.0003
        np.testing.assert_allclose(read.norms[name], trace.norms[name], rtol=2e-3, atol=1e-5)


def test_compact_maps_come_back_within_a_hundredth_with_the_same_largest_weights_and_sums(
    trace: Trace, tmp_path: Path
) -> None:
    trace.save(tmp_path / "a.trace", is_compact=True)
    read = Trace.load(tmp_path / "a.trace")
    for name, weights in trace.attention.items():
        assert abs(read.attention[name] - weights).max() < 0.01
        assert (read.attention[name].argmax(-1) == weights.argmax(-1)).all()
        np.testing.assert_allclose(read.attention[name].sum(-1), weights.sum(-1), atol=1e-6)
        by_key = trace.norms[name].max(axis=1, keepdims=True) / weights.max(axis=1, keepdims=True)
        assert (abs(read.norms[name] - trace.norms[name]) <= 0.01 * by_key).all()
    name = next(iter(trace.vectors))
    for part, array in vars(trace.vectors[name]).items():
        np.testing.assert_allclose(vars(read.vectors[name])[part], array, rtol=1e-3, atol=1e-6)


def test_what_a_trace_does_not_hold_stays_out_of_the_file(plain: Trace, tmp_path: Path) -> None:
    bare = replace(plain, norms={}, free=True, cut=True)
    bare.save(tmp_path / "a.trace")
    read = Trace.load(tmp_path / "a.trace")
    assert (read.norms, read.vectors, read.history) == ({}, {}, ())
    assert read.free
    assert read.cut
    with safe_open(tmp_path / "a.trace", framework="numpy") as file:
        assert {name.split(".")[0] for name in file.keys()} == {  # noqa: SIM118
            "attention", "log_probabilities", "alternatives"
        }  # fmt: skip


def test_a_step_of_the_search_without_candidates_keeps_its_place(plain: Trace, tmp_path: Path) -> None:
    history = ((), (Candidate(0, 7, -0.1, None, True), Candidate(1, 5, -1 / 3, 0, False)))
    replace(plain, history=history).save(tmp_path / "a.trace")
    assert Trace.load(tmp_path / "a.trace").history == history


def test_the_header_says_what_it_is_in_words(plain: Trace, tmp_path: Path) -> None:
    plain.save(tmp_path / "a.trace")
    with safe_open(tmp_path / "a.trace", framework="numpy") as file:
        metadata = file.metadata()
    header = json.loads(metadata["trace"])
    assert metadata["schema"] == "3"
    assert len(metadata["sha256"]) == 64
    assert (header["rows"], header["target_is"]) == ("written", "forced")
    assert "after the softmax" in header["measure"]
    assert header["model"] == plain.model.model_dump()
    assert (header["source"]["text"], header["target"]["text"]) == ("two red dogs.", "zwei Hunde")


@pytest.mark.slow
def test_it_opens_without_torch_and_without_the_model(trace: Trace, tmp_path: Path) -> None:
    trace.save(tmp_path / "a.trace")
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from pathlib import Path\n"
        "from dragoman.inspection.trace import Trace\n"
        f"trace = Trace.load(Path({str(tmp_path / 'a.trace')!r}))\n"
        "print(trace.target.text, sum(len(heads) for heads in trace.attention.values()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout == f"{trace.target.text} {sum(len(heads) for heads in trace.attention.values())}\n"


def test_a_hundred_tokens_of_a_base_model_fit_into_6_mb_and_compact_into_3(tmp_path: Path) -> None:
    words, heads = 100, 8
    text = " ".join(["wort"] * (words - 1))
    spans = [(max(5 * i - 1, 0), 5 * i + 4) for i in range(words - 1)]
    end = (len(text), len(text))
    side = Tokens(text, (9,) * words, ("▁wort",) * words, (*spans, end), (*range(words - 1), -1))
    generator = np.random.default_rng(1)
    kinds = ["encoder.layers.{}.self_attention", "decoder.layers.{}.self_attention", CROSS]
    maps = {
        kind.format(layer): generator.dirichlet(np.full(words, 0.1), (heads, words)).astype(np.float32)
        for kind in kinds
        for layer in range(6)
    }
    norms = {name: weights * generator.uniform(1, 9, (heads, 1, words)) for name, weights in maps.items()}
    best = generator.integers(4, 37_000, (words, 5))
    trace = Trace(
        side, side, True, np.full(words, -0.1), best, np.full((words, 5), -2.5), maps, norms,
        ModelIdentity(sha256="a" * 64, vocabulary="b" * 64, family="transformer"),
        pieces={int(token): "▁wörter" for token in best.flatten()},
    )  # fmt: skip
    trace.save(tmp_path / "a.trace")
    assert (tmp_path / "a.trace").stat().st_size <= 6_000_000
    trace.save(tmp_path / "a.trace", is_compact=True)
    assert (tmp_path / "a.trace").stat().st_size <= 3_000_000
    read = Trace.load(tmp_path / "a.trace").attention
    assert abs(read[CROSS.format(5)] - maps[CROSS.format(5)]).max() < 0.01


# What is refused


def rewritten(path: Path, **changes: str) -> None:
    """The same arrays under another header."""
    with safe_open(path, framework="numpy") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        metadata = {**file.metadata(), **changes}
    save_file(arrays, path, metadata)


def test_another_schema_is_refused_before_anything_is_read(plain: Trace, tmp_path: Path) -> None:
    plain.save(tmp_path / "a.trace")
    rewritten(tmp_path / "a.trace", schema="4", trace="{}")
    with pytest.raises(ValueError, match=r"a\.trace: .*schema 4 is not supported.*trace the sentence again"):
        Trace.load(tmp_path / "a.trace")


def test_a_changed_header_is_refused(plain: Trace, tmp_path: Path) -> None:
    plain.save(tmp_path / "a.trace")
    with safe_open(tmp_path / "a.trace", framework="numpy") as file:
        header = file.metadata()["trace"]
    rewritten(tmp_path / "a.trace", trace=header.replace("zwei", "drei"))
    with pytest.raises(ValueError, match="sha256 differs"):
        Trace.load(tmp_path / "a.trace")


def test_a_changed_number_is_refused(plain: Trace, tmp_path: Path) -> None:
    plain.save(tmp_path / "a.trace")
    content = bytearray((tmp_path / "a.trace").read_bytes())
    content[-1] ^= 1
    (tmp_path / "a.trace").write_bytes(content)
    with pytest.raises(ValueError, match="sha256 differs"):
        Trace.load(tmp_path / "a.trace")


CUTS: dict[str, Callable[[bytes], bytes]] = {
    "its end is missing": lambda content: content[:-1],
    "only the beginning is there": lambda content: content[:100],
    "nothing is there": lambda content: b"",
    "there is something after it": lambda content: content + b"\0",
    "a JSON file": lambda content: b'{"source": "two red dogs."}',
}


@pytest.mark.parametrize("what", CUTS)
def test_a_file_that_is_not_whole_is_refused(plain: Trace, tmp_path: Path, what: str) -> None:
    plain.save(tmp_path / "a.trace")
    (tmp_path / "a.trace").write_bytes(CUTS[what]((tmp_path / "a.trace").read_bytes()))
    with pytest.raises(ValueError, match=r"a\.trace: the file cannot be read as a trace .*; trace the sentence again"):
        Trace.load(tmp_path / "a.trace")


def test_other_safetensors_are_refused(tmp_path: Path) -> None:
    save_file({"weights": np.zeros(3)}, tmp_path / "a.trace")
    with pytest.raises(ValueError, match=r"a\.trace: this is not a trace; make a trace"):
        Trace.load(tmp_path / "a.trace")
    with pytest.raises(ValueError, match="this is not a trace"):
        Trace.load(GOLDEN / "v1" / "model.safetensors")


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no such file"):
        Trace.load(tmp_path / "a.trace")
    with pytest.raises(ValueError, match="cannot be read as a trace"):
        Trace.load(tmp_path)


WRONG: dict[str, Callable[[Trace], Trace]] = {
    "log-probabilities": lambda trace: replace(trace, log_probabilities=trace.log_probabilities[1:]),
    "differ in shape": lambda trace: replace(
        trace, alternative_log_probabilities=trace.alternative_log_probabilities[:, 1:]
    ),
    "differ in number": lambda trace: replace(trace, source=replace(trace.source, words=trace.source.words[1:])),
    r"cross_attention has the shape \(": lambda trace: replace(
        trace, norms={}, attention={name: weights[:, 1:] for name, weights in trace.attention.items()
                                    if "cross" in name}
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_parts_that_do_not_fit_each_other_are_refused(plain: Trace, tmp_path: Path, what: str) -> None:
    WRONG[what](plain).save(tmp_path / "a.trace")
    with pytest.raises(ValueError, match=f"not a valid trace .*{what}"):
        Trace.load(tmp_path / "a.trace")


def test_a_failed_save_leaves_what_was_there(plain: Trace, tmp_path: Path) -> None:
    plain.save(tmp_path / "a.trace")
    before = (tmp_path / "a.trace").read_bytes()
    name, weights = next(iter(plain.attention.items()))
    with pytest.raises(ValueError, match="negative or not finite"):
        replace(plain, attention={name: -weights}, norms={}).save(tmp_path / "a.trace")
    assert (tmp_path / "a.trace").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.trace"]


# What was added later


def test_interventions_and_alignment_heads_are_kept(plain: Trace, tmp_path: Path) -> None:
    changes = (HeadsOff(where="cross", heads=(1,)), HeadsUniform(where=CROSS.format(0)))
    heads = (AlignmentHead(layer=CROSS.format(0), head=None, rows="read", measure="norm"),)
    replace(plain, interventions=changes, alignment_heads=heads).save(tmp_path / "a.trace")
    read = Trace.load(tmp_path / "a.trace")
    assert (read.interventions, read.alignment_heads) == (changes, heads)


def test_a_file_of_the_first_schema_still_opens() -> None:
    with safe_open(GOLDEN / "schema-1.trace", framework="numpy") as file:
        assert file.metadata()["schema"] == "1"
    read = Trace.load(GOLDEN / "schema-1.trace")
    again = Inspector.load(GOLDEN / "v1").trace("two red dogs.")
    assert (read.target, read.model, read.pieces) == (again.target, again.model, again.pieces)
    assert (read.interventions, read.alignment_heads) == ((), ())
    for name, weights in again.attention.items():
        assert abs(read.attention[name] - weights).max() < 0.01
    np.testing.assert_allclose(read.log_probabilities, again.log_probabilities, atol=1e-5)


def test_a_file_of_the_second_schema_still_opens() -> None:
    with safe_open(GOLDEN / "schema-2.trace", framework="numpy") as file:
        assert file.metadata()["schema"] == "2"
    read = Trace.load(GOLDEN / "schema-2.trace")
    assert (read.target.text, read.num_forced) == ('Zwei Hunde laufen, "Das.', 0)
    assert [len(step) for step in read.history] == [8] * 11
    (off,), (head,) = read.interventions, read.alignment_heads
    assert (off.where, off.heads, head.layer, head.head) == (CROSS.format(2), (0,), CROSS.format(0), 2)
    sums = {name: weights.sum(-1) for name, weights in read.attention.items()}
    assert (sums[off.where][0] == 0).all()
    assert all(np.allclose(rows[name == off.where :], 1) for name, rows in sums.items())


def test_the_file_says_how_many_tokens_were_forced(tmp_path: Path) -> None:
    trace = Inspector.load(GOLDEN / "v1").trace("two red dogs.", prefix="zwei")
    assert trace.target.text.startswith("zwei")
    assert trace.num_forced > 0
    trace.save(tmp_path / "a.trace")
    assert Trace.load(tmp_path / "a.trace").num_forced == trace.num_forced
    again = Inspector.load(GOLDEN / "v1").trace("two red dogs.", prefix=trace.target.ids[: trace.num_forced])
    assert (again.target, again.num_forced) == (trace.target, trace.num_forced)


def test_a_file_cannot_pass_for_one_of_another_schema(plain: Trace, tmp_path: Path) -> None:
    plain.save(tmp_path / "a.trace")
    rewritten(tmp_path / "a.trace", schema="1")
    with pytest.raises(ValueError, match="sha256 differs"):
        Trace.load(tmp_path / "a.trace")
