"""Every script in bench/ runs at its smallest size, on made-up corpora, and ends with a line of JSON."""

import gzip
import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.bundle import demo_folder

BENCH = Path(__file__).parents[2] / "bench"
LIBRARIES = {"ibm1", "report", "texts"}
"""Modules that other scripts import."""

WORDS = {
    "man": "Mann", "dog": "Hund", "house": "Haus", "red": "rot", "street": "Strasse", "sees": "sieht", "ball": "Ball",
    "woman": "Frau", "plays": "spielt", "with": "mit", "green": "gruen", "tree": "Baum", "under": "unter", "old": "alt",
}  # fmt: skip
CORPORA = {
    "multi30k/train": 400, "multi30k/val": 40, "multi30k/test_2016_flickr": 40, "tatoeba-en-de/train": 100,
    "tatoeba-en-de/dev": 20, "tatoeba-en-de/test_2021": 40, "tatoeba-en-de/test_2023": 40,
    "libreoffice-en-de/train": 80,
}  # fmt: skip
TOKENISED = "multi30k/tok/{}.lc.norm.tok"
TINY_TRAINING = [
    "--set", "data.vocabulary.size=300", "--set", "training.schedule.warmup=1", "--set", "training.stop.updates=2",
    "--set", "training.validate_every=2", "--set", "training.batch.tokens=256", "--set", "model.d_model=16",
    "--set", "training.precision=float32",
]  # fmt: skip
SMALL_MODEL = ["--layers", "1", "--d-model", "64"]

SMALLEST: dict[str, list[str]] = {
    "aer_models": [
        "{tmp}/aer", "--only", "bahdanau-de-en", "bahdanau-en-de", "--time", "60s", *TINY_TRAINING,
        "--set", "model.d_embedding=16", "--processes", "1",
    ],
    "agreement": ["{demo}", "--source", "{val}.en.gz", "--reference", "{val}.de.gz", "--sentences", "4"],
    "aligners": [
        "--source", "{train}.de.gz", "--target", "{train}.en.gz", "--test-source", "{tmp}/gold.de",
        "--test-target", "{tmp}/gold.en", "--gold", "{tmp}/gold.talp",
    ],
    "attention_paths": ["--seconds", "0", "--lengths", "16"],
    "backtranslation": [
        "{tmp}/back", "--updates", "2", *TINY_TRAINING, "--set", "model.num_heads=2",
        "--set", "data.clean.policies.replacement-character=keep", "--set", "data.clean.policies.length-ratio=keep",
    ],
    "base_bundle": ["{tmp}/base", *SMALL_MODEL],
    "batches": ["--pairs", "2000", "--seconds", "0.2", "--vocabulary", "60"],
    "billion": ["--pairs", "3000", "--start", "5"],
    "data_curve": ["{tmp}/curve", "--sizes", "100", "--time", "60s", *TINY_TRAINING, "--set", "model.num_heads=2"],
    "decode": ["--rounds", "1", "--preset", "tiny", "--batch", "2"],
    "documents": ["--documents", "2", "--sentences", "4"],
    "everyday": ["demo", "--dev", "{val}.en.gz", "{val}.de.gz", "--lines", "4"],
    "glossary": ["--sentences", "2", "--pairs", "20", "--least", "1"],
    "families": [
        "{tmp}/families", "--only", "cho", "bahdanau", "--time", "60s", *TINY_TRAINING, "--set", "model.d_embedding=16",
    ],
    "finetune": [
        "{tmp}/finetune", "--sizes", "60", "--time", "2s", "--lines", "5", "--set", "training.stop.updates=2",
        "--set", "training.schedule.warmup=1", "--set", "training.batch.tokens=100",
    ],
    "head_removal": [
        "{demo}", "--dev-source", "{val}.en.gz", "--dev-target", "{val}.de.gz", "--source", "{val}.en.gz",
        "--reference", "{val}.de.gz", "--pairs", "2", "--sentences", "2", "--step", "30", "--seeds", "1",
    ],
    "inspect_start": ["--rounds", "1"],
    "markup": ["--sentences", "5"],
    "misalignment": ["--cases", "2", "--parts", "1", "--longest", "600"],
    "multi30k": [
        "{tmp}/multi30k", "--ideas", "base", "smoothing-0.2", "--seeds", "2", "--time", "60s", *TINY_TRAINING,
        "--set", "model.num_heads=2", "--set", "model.d_ff=16", "--set", "training.snapshots.every=null",
    ],
    "multilingual": [
        "{tmp}/multilingual", "--time", "60s", "--lines", "4", *TINY_TRAINING, "--set", "model.num_heads=2",
        "--set", "model.d_ff=16", "--set", "validation.probe=0",
    ],
    "peers": [
        "--environments", "{tmp}/none", "--seconds", "0", "--tokens", "128", "--sizes", "small", "--precisions", "fp32",
    ],
    "pipeline": ["--seconds", "0", "--tokens", "128", "--updates", "1", "--precision", "float32"],
    "prepare": ["--pairs", "2000", "--rounds", "1"],
    "protection": ["--texts", "12"],
    "resume": ["--pairs", "1000", "--positions", "1", "--vocabulary", "300"],
    "scaling": ["--seconds", "1", "--warm", "0.1", "--rounds", "1", "--rows", "2", "--preset", "tiny"],
    "search_grid": [
        "{demo}", "--dev-source", "{val}.en.gz", "--dev-reference", "{val}.de.gz", "--source", "{val}.en.gz",
        "--reference", "{val}.de.gz", "--beams", "1", "--alphas", "0.6",
    ],
    "serve": [
        "--seconds", "2", "--warm", "0.2", "--rounds", "1", "--sentences", "8", "--connections", "2", *SMALL_MODEL,
    ],
    "shapes": ["--updates", "1", "--untimed", "1", "--rounds", "1", "--tokens", "128"],
    "trace": ["--seconds", "0", "--presets", "tiny"],
    "studio": ["--rounds", "1"],
    "train_display": ["--source", "{train}.en.gz", "--target", "{train}.de.gz", "--time", "10s", "--busy", "0"],
    "train_step": ["--seconds", "0", "--only", "small_fp32", "--rows", "2"],
    "translate": [
        "--sentences", "8", "--base-sentences", "4", "--few", "4", "--rounds", "1", "--only", "demo", "base", "torch",
        *SMALL_MODEL,
    ],
    "translate_memory": ["--demo-lines", "20", "--toy-lines", "50", "--repeats", "1"],
    "triage": ["--lines", "20", "--fit", "{tmp}/calibration.json"],
    "variants": ["{tmp}/variants", "--updates", "2", "--only", "all", "--lines", "4", *TINY_TRAINING],
    "worlds": ["--preset", "paper-base", "--worlds", "3", "24", "--tokens", "1024"],
}  # fmt: skip
STARTED_BY_OTHERS = {"load": "serve", "translate_side": "translate"}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Made-up corpora with the names of the real ones, and a folder to write to."""
    folder = tmp_path_factory.mktemp("bench")
    draw = random.Random(1)
    for name, count in CORPORA.items():
        rows = [draw.choices(list(WORDS), k=draw.randint(5, 14)) for _ in range(count)]
        tail = " at www.example.org" if "libreoffice" in name else " 12 times"
        english = [" ".join(words) + tail for words in rows]
        german = [" ".join(WORDS[word] for word in words) + tail for words in rows]
        names = [name, TOKENISED.format(Path(name).name)] if "multi30k" in name else [name]
        for path in names:
            write(folder / f"data/{path}.en.gz", english)
            write(folder / f"data/{path}.de.gz", german)
            if "multi30k" in name:
                write(folder / f"data/{path}.fr.gz", [f"le {line}" for line in german])
    for language, line in {"de": "Mann sieht Hund", "en": "man sees dog"}.items():
        write(folder / f"data/align-de-en/test.{language}.gz", [line] * 110)
    write(folder / "data/align-de-en/gold.talp.gz", ["1-1 2-2 3-3"] * 110)
    (folder / "gold.de").write_text("Mann sieht Hund\n")
    (folder / "gold.en").write_text("man sees dog\n")
    (folder / "gold.talp").write_text("1-1 2-2 3p3\n")
    data = folder / "data"
    return {"tmp": folder, "train": data / "multi30k/train", "val": data / "multi30k/val", "demo": demo_folder()}


def write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def run(script: Path, arguments: list[str], folder: Path, lines: str = "") -> str:
    """Return the output of a script that has one core to itself, so that it trains in one process."""
    cores = sorted(os.sched_getaffinity(0))
    core = cores[int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % len(cores)]
    environment = os.environ | {"DRAGOMAN_DATA": str(folder / "data"), "OMP_NUM_THREADS": "1"}
    command = ["taskset", "--cpu-list", str(core), sys.executable, str(script), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, input=lines)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_script_is_started_by_a_test() -> None:
    scripts = {path.stem for path in BENCH.glob("*.py")} - LIBRARIES
    assert scripts == set(SMALLEST) | set(STARTED_BY_OTHERS)
    for script, starter in STARTED_BY_OTHERS.items():
        assert f"{script}.py" in (BENCH / f"{starter}.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SMALLEST)
def test_a_script_ends_with_its_values(name: str, places: dict[str, Path]) -> None:
    if name == "studio" and not any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))):
        pytest.skip("needs chromium")
    arguments = [argument.format(**places) for argument in SMALLEST[name]]
    output = run(BENCH / f"{name}.py", arguments, places["tmp"])
    last = json.loads(output.splitlines()[-1])
    assert last["bench"] == name
    assert all(isinstance(value, int | float) for value in last["values"].values())
    assert last["values"] or name == "peers"
    if name == "finetune":  # the old text of the trainings is not that of the test set
        train = places["tmp"] / "data/tatoeba-en-de/train.en.gz"
        assert (places["tmp"] / "finetune/kept.en").read_bytes() == gzip.decompress(train.read_bytes())
    if name == "worlds":
        assert_planned_as_simulated(last["values"], 4)


def test_hsdp_is_planned_as_it_is_simulated(places: dict[str, Path]) -> None:
    options = ["--preset", "paper-base", "--worlds", "24", "--hsdp", "6", "--tokens", "1024"]
    output = run(BENCH / "worlds.py", options, places["tmp"])
    assert_planned_as_simulated(json.loads(output.splitlines()[-1])["values"], 3)


def assert_planned_as_simulated(values: dict[str, float], count: int) -> None:
    """Memory and exchange of the plan are those of the simulation, within 5 %."""
    ratios = {name: value for name, value in values.items() if "planned_over_simulated" in name}
    assert len(ratios) == count
    assert ratios == pytest.approx(dict.fromkeys(ratios, 1.0), abs=0.05)


@pytest.mark.parametrize(
    ("script", "package"),
    [("ours", "dragoman"), ("hf", "transformers"), ("eole_side", "eole"), ("joey", "joeynmt")],
)
def test_a_toolkit_makes_an_update_for_each_line(script: str, package: str, places: dict[str, Path]) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed: bench/peers.py --install creates its environment")
    numpy = pytest.importorskip("numpy")
    batches = places["tmp"] / "batches.npz"
    rows = numpy.array([[5, 6, 7, 2], [8, 9, 2, 0]])
    numpy.savez(batches, source_0=rows, target_0=rows)
    options = ["--batches", str(batches), "--size", "small", "--precision", "float32"]
    lines = run(BENCH / "peers" / f"{script}.py", options, places["tmp"], "0\n0\n").splitlines()
    assert [sorted(json.loads(line)) for line in lines[1:]] == [["processor", "seconds"]] * 2
