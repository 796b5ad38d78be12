"""Opening a bundle: what is in it, what is refused, and that none of it needs torch."""

import hashlib
import json
import os
import pickle
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dragoman.bundle import demo_folder, open_bundle
from dragoman.bundle.file_names import CARD, CONFIG, MANIFEST, WEIGHTS
from dragoman.io import hashed_json

GOLDEN = Path(__file__).parents[2] / "golden" / "v1"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN, tmp_path / "model"))


def sealed(folder: Path, **changes: object) -> None:
    """As whoever means harm would do it: the manifest fits the files, and its hash fits the manifest."""
    body = json.loads((folder / MANIFEST).read_text())["manifest"]
    for info in body["files"]:
        if (folder / info["file"]).is_file():
            content = (folder / info["file"]).read_bytes()
            info |= {"sha256": hashlib.sha256(content).hexdigest(), "num_bytes": len(content)}
    (folder / MANIFEST).write_bytes(hashed_json.render(body | changes))


def changed(folder: Path, file: str, **changes: object) -> None:
    content = json.loads((folder / file).read_text(encoding="utf-8")) | changes
    (folder / file).write_text(json.dumps(content), encoding="utf-8")
    sealed(folder)


def test_a_bundle_gives_its_weights_in_float32_each_once(folder: Path) -> None:
    bundle = open_bundle(folder)
    weights = bundle.weights()
    assert {array.dtype for array in weights.values()} == {np.dtype(np.float32)}
    assert sum(array.size for array in weights.values()) == bundle.card.sizes["parameters"] == 18_320
    assert [name for name in weights if "tokens" in name] == ["encoder.embedding.tokens.weight"]
    assert bundle.sha256 == hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()


def test_a_run_is_opened_by_the_bundle_in_it(folder: Path) -> None:
    run = folder.parent / "run"
    run.mkdir()
    folder.rename(run / "bundle")
    assert open_bundle(run).folder == run / "bundle"
    assert open_bundle(run).sha256 == open_bundle(run / "bundle").sha256


def test_demo_names_the_built_in_model_and_a_path_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_bundle("demo").folder == demo_folder()
    with pytest.raises(ValueError, match="there is no such folder"):
        open_bundle("./demo")


def test_nothing_of_the_training_stack_is_needed(folder: Path) -> None:
    code = f"""
import sys
for name in ("torch", "pyarrow", "jaxtyping", "fsspec", "zstandard", "sacrebleu", "matplotlib"):
    sys.modules[name] = None
from pathlib import Path
from dragoman.bundle import open_bundle
bundle = open_bundle(Path({str(folder)!r}))
print(sum(array.size for array in bundle.weights().values()), bundle.vocab.source.size, bundle.info.model.family)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["18320", "300", "transformer"], done.stderr


def test_a_file_that_the_manifest_does_not_know_is_left_alone(folder: Path) -> None:
    (folder / "notes.txt").write_text("mine")
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    assert open_bundle(folder).vocab.joint


def test_a_folder_that_is_not_there_or_is_a_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere: there is no such folder; give a folder"):
        open_bundle(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"file: this is a file, not a model folder"):
        open_bundle(tmp_path / "file")
    with pytest.raises(ValueError, match=r"manifest\.json: the file is missing, so this is not a complete bundle"):
        open_bundle(tmp_path)
    (tmp_path / "source.spm").write_text("")
    with pytest.raises(ValueError, match=r"dragoman import .* --out"):
        open_bundle(tmp_path)


def test_a_prepared_folder_is_told_apart(folder: Path) -> None:
    (folder / MANIFEST).write_bytes(hashed_json.render({"format_version": 1, "corpora": [], "vocabulary": []}))
    with pytest.raises(ValueError, match="this is a prepared folder, not a model"):
        open_bundle(folder)


def test_a_later_format_says_so(folder: Path) -> None:
    sealed(folder, format_version=2)
    with pytest.raises(ValueError, match="unknown format version 2; install a newer dragoman"):
        open_bundle(folder)


def test_sealing_alone_is_accepted(folder: Path) -> None:
    """So that what the tests below refuse is refused for what it is."""
    sealed(folder)
    assert open_bundle(folder).sha256 == open_bundle(GOLDEN).sha256


def test_a_vocabulary_of_another_size_is_refused(folder: Path) -> None:
    shutil.copy(GOLDEN.with_name("v1-recurrent") / "vocab.source.model", folder / "vocab.model")
    sealed(folder)
    with pytest.raises(ValueError, match=r"the vocabulary sizes are \(285, 285\), but the model has \(300, 300\)"):
        open_bundle(folder).vocab  # noqa: B018


def test_without_a_demo_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("dragoman.bundle.reading.files", lambda _: tmp_path)
    with pytest.raises(ValueError, match="has no demo model: train"):
        demo_folder()
    shutil.copytree(GOLDEN, tmp_path / "demo")
    assert demo_folder() == tmp_path / "demo"


class Canary:
    """Unpickled, it leaves a file behind."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.path}",)

    def __init__(self, path: Path) -> None:
        self.path = path


Attack = Callable[[Path], None]


def weights(content: bytes) -> Attack:
    def attack(folder: Path) -> None:
        (folder / WEIGHTS).write_bytes(content)
        sealed(folder)

    return attack


def header(**tensors: object) -> bytes:
    text = json.dumps(tensors).encode()
    return struct.pack("<Q", len(text)) + text


def pickled(folder: Path) -> None:
    weights(pickle.dumps(Canary(folder / "canary")))(folder)


def linked(file: str) -> Attack:
    def attack(folder: Path) -> None:
        (folder / file).rename(folder.parent / "outside")
        (folder / file).symlink_to(folder.parent / "outside")

    return attack


def listed(name: str) -> Attack:
    def attack(folder: Path) -> None:
        (folder.parent / "secret").write_text("")
        files = json.loads((folder / MANIFEST).read_text())["manifest"]["files"]
        sealed(folder, files=[*files, {"file": name, "sha256": hashlib.sha256().hexdigest(), "num_bytes": 0}])

    return attack


def unlisted(name: str) -> Attack:
    def attack(folder: Path) -> None:
        files = json.loads((folder / MANIFEST).read_text())["manifest"]["files"]
        sealed(folder, files=[info for info in files if info["file"] != name])

    return attack


def deep(file: str) -> Attack:
    def attack(folder: Path) -> None:
        (folder / file).write_text("[" * 100_000)
        if file != MANIFEST:
            sealed(folder)

    return attack


def with_model(**changes: object) -> Attack:
    def attack(folder: Path) -> None:
        model = json.loads((folder / CONFIG).read_text())["model"]
        changed(folder, CONFIG, model=model | changes)

    return attack


ATTACKS: dict[str, tuple[Attack, str]] = {
    "a pickle named as weights": (pickled, r"model\.safetensors: not a valid safetensors file"),
    "a header longer than its file": (
        weights(struct.pack("<Q", 1 << 40) + b"{}"),
        r"model\.safetensors: not a valid safetensors",
    ),
    "a tensor beyond the end": (
        weights(header(a={"dtype": "F32", "shape": [2], "data_offsets": [0, 1 << 40]})),
        r"model\.safetensors: not a valid safetensors",
    ),
    "a shape that its bytes do not fill": (
        weights(header(a={"dtype": "F32", "shape": [1 << 62, 4], "data_offsets": [0, 8]}) + bytes(8)),
        r"model\.safetensors: not a valid safetensors",
    ),
    "weights that are whole numbers": (
        weights(header(a={"dtype": "I64", "shape": [1], "data_offsets": [0, 8]}) + bytes(8)),
        "must be F32 or F16, not I64",
    ),
    "a model far larger than its weights": (
        with_model(d_ff=10**12),
        "18,320 parameters, but the model in config.json has",
    ),
    "a config too large to read": (lambda f: changed(f, CONFIG, dragoman="x" * (1 << 20)), "too large"),
    "a card too large to read": (
        lambda f: changed(f, CARD, title="x" * (1 << 20)),
        r"card\.json: .* too large",
    ),
    "a manifest too large to read": (
        lambda f: sealed(f, more="x" * (1 << 20)),
        r"manifest\.json: .* too many for a manifest",
    ),
    "a config without a bottom": (deep(CONFIG), r"config\.json: Invalid JSON"),
    "a manifest without a bottom": (deep(MANIFEST), r"manifest\.json: not a valid manifest"),
    "a config with a key we do not know": (lambda f: changed(f, CONFIG, run="rm"), r"config\.json: run: Extra inputs"),
    "a family that does not exist": (with_model(family="pickle"), r"config\.json: model: Input tag 'pickle'"),
    "weights outside the folder": (linked(WEIGHTS), r"model\.safetensors: the file is a symbolic link"),
    "a manifest outside the folder": (linked(MANIFEST), r"manifest\.json: the file is a symbolic link"),
    "a path that goes up": (listed("../secret"), r"manifest\.json: files\.5\.file: String should match"),
    "a path from the root": (listed("/etc/hostname"), r"manifest\.json: files\.5\.file: String should match"),
    "a vocabulary that nothing answers for": (unlisted("vocab.model"), "does not list exactly one vocabulary"),
    "two vocabularies": (listed("vocab.source.model"), "does not list exactly one vocabulary"),
    "a config that nothing answers for": (unlisted(CONFIG), r"does not list config\.json"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_hostile_bundle_is_refused_in_one_line(name: str, folder: Path) -> None:
    attack, named = ATTACKS[name]
    attack(folder)
    with pytest.raises(ValueError, match=named) as error:
        open_bundle(folder)
    assert "\n" not in str(error.value)
    assert not (folder / "canary").exists()


def test_the_canary_would_sing(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Canary(tmp_path / "canary")))
    assert (tmp_path / "canary").exists()


def test_an_unlisted_vocabulary_beside_the_listed_one_is_never_read(folder: Path) -> None:
    (folder / "vocab.source.model").write_bytes(b"anything")
    with pytest.raises(ValueError, match=r"has vocab\.model and vocab\.source\.model: "):
        open_bundle(folder).vocab  # noqa: B018
