"""Every script in scripts/ runs at its smallest size."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dragoman.bundle import demo_folder, open_bundle
from dragoman.recipes.recipe import load_recipe

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts"


def run(*command: str | Path, folder: Path = ROOT) -> str:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_script_has_a_test() -> None:
    tests = Path(__file__).read_text(encoding="utf-8")
    assert [path.name for path in SCRIPTS.iterdir() if path.is_file() and f'"{path.name}"' not in tests] == []


def test_the_shell_scripts_parse() -> None:
    for name in ("check", "install", "studio", "test"):
        run("bash", "-n", SCRIPTS / name)
    run("bash", "-n", ROOT / ".ci" / "run")


def test_test_passes_its_arguments_to_pytest() -> None:
    assert "test_every_script_has_a_test" in run(SCRIPTS / "test", "--collect-only", "-q", __file__)


def test_smoke_decodes_outside_the_tree(tmp_path: Path) -> None:
    assert len(run(sys.executable, SCRIPTS / "smoke.py", folder=tmp_path).splitlines()) == 2


def test_the_generated_recipe_files_are_up_to_date() -> None:
    assert run(sys.executable, SCRIPTS / "recipe_reference.py", "--check").strip() == "up to date"


def test_the_studio_gets_the_types_and_numbers_of_this_version(tmp_path: Path) -> None:
    run(sys.executable, SCRIPTS / "studio_inputs.py", tmp_path)
    for name, committed in (("openapi.json", "openapi.json"), ("expected.json", "test/expected.json")):
        assert (tmp_path / name).read_bytes() == (ROOT / "studio" / committed).read_bytes(), (
            "run scripts/studio --write"
        )


@pytest.mark.slow
@pytest.mark.skipif(not any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), reason="no chromium")
def test_the_studio_s_lab_and_course_are_those_of_this_version(tmp_path: Path) -> None:
    run(sys.executable, SCRIPTS / "studio_lab_and_course.py", tmp_path)
    for name in ("lab.json", "course.json"):
        committed = ROOT / "src" / "dragoman" / "studio" / name
        assert (tmp_path / name).read_bytes() == committed.read_bytes(), "run scripts/studio_lab_and_course.py"


def test_studio_pictures_draws_a_screen_in_both_sizes(tmp_path: Path) -> None:
    names = ("studio", "studio-compare-bad-phone", "studio-align", "studio-lab", "studio-lesson-phone")
    run(sys.executable, SCRIPTS / "studio_pictures.py", tmp_path, "--only", *names)
    pictures = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    widths = {name: int.from_bytes(data[16:20]) for name, data in pictures.items()}
    assert widths == {
        "studio.png": 1440,
        "studio-compare-bad-phone.png": 390,
        "studio-align.png": 1440,
        "studio-lab.png": 1440,
        "studio-lesson-phone.png": 390,
    }
    assert all(len(data) > 10_000 for data in pictures.values())  # more than one colour


def test_studio_without_node_says_so(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "dirname"):
        (tools / name).symlink_to(str(shutil.which(name)))
    done = subprocess.run(
        [SCRIPTS / "studio"], env={"PATH": str(tools)}, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.startswith("no Node")


def test_make_demo_writes_a_recipe_that_begins_with_the_first_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_DATA", str(tmp_path))
    shutil.copytree(demo_folder(), tmp_path / "first" / "bundle")
    run(sys.executable, SCRIPTS / "make_demo.py", tmp_path, "--only", "recipe", "--time", "10m", "7m")
    recipe = load_recipe(tmp_path / "second.yaml")
    assert recipe.init is not None
    assert recipe.init.bundle == str(tmp_path / "first")
    assert (recipe.training.stop.time, recipe.training.augment.typing_errors) == (420.0, 0.1)
    assert [corpus.links for corpus in recipe.data.train] == [
        str(tmp_path / "first" / "links" / f"{name}.links") for name in ("tatoeba", "libreoffice")
    ]


def test_make_demo_installs_the_weights_of_the_second_training(tmp_path: Path) -> None:
    trained = Path(shutil.copytree(demo_folder(), tmp_path / "second" / "bundle"))
    (tmp_path / "dev.en").write_text("Where is the dog?\n", encoding="utf-8")
    options = ["--only", "install", "--demo", tmp_path / "demo", "--dev", tmp_path / "dev.en"]
    run(sys.executable, SCRIPTS / "make_demo.py", tmp_path, *options)
    installed = open_bundle(tmp_path / "demo")
    assert (tmp_path / "demo" / "model.safetensors").read_bytes() == (trained / "model.safetensors").read_bytes()
    assert len(installed.exports) == 1
    assert not list((tmp_path / "demo").glob("*.bin"))
    assert installed.card.command == "python scripts/make_demo.py FOLDER --eflomal eflomal-align"


def test_sbom_lists_packages_with_licences_and_the_demo(tmp_path: Path) -> None:
    run(sys.executable, SCRIPTS / "sbom.py", tmp_path / "sbom.json")
    bom = json.loads((tmp_path / "sbom.json").read_text(encoding="utf-8"))
    listed = {component["name"]: component for component in bom["components"]}
    assert {"ctranslate2", "sentencepiece", "torch", "uvicorn", "dragoman demo"} <= listed.keys()
    assert "pytest" not in listed  # a tool of development
    assert not [name for name, component in listed.items() if not component.get("licenses")]
    assert listed["dragoman demo"]["licenses"] == [{"expression": "CC-BY-2.0 AND MPL-2.0"}]
    references = {component["bom-ref"] for component in [bom["metadata"]["component"], *bom["components"]]}
    assert {reference for edges in bom["dependencies"] for reference in edges["dependsOn"]} <= references


def test_try_argos_says_what_it_needs() -> None:
    """Argos Translate itself is in an environment of its own."""
    assert "--no-split" in run(sys.executable, SCRIPTS / "try_argos.py", "--help")


def test_new_user_plays_a_task(tmp_path: Path) -> None:
    """In this environment, so that nothing is installed; the whole takes minutes."""
    printed = run(sys.executable, SCRIPTS / "new_user.py", "--venv", sys.prefix, "--only", "2", folder=tmp_path)
    assert printed.splitlines()[-1] == "1 of 1 tasks ended as the guide says"


def test_record_terminal_draws_every_state_and_ends_with_the_last(tmp_path: Path) -> None:
    output = tmp_path / "terminal.svg"
    run(sys.executable, SCRIPTS / "record_terminal.py", "--commands", "1", "--output", output)
    texts = ElementTree.parse(output).getroot().findall(".//{http://www.w3.org/2000/svg}text")
    visible = [
        "".join(text.itertext()).replace("\u00a0", " ") for text in texts if "h" not in text.attrib["class"].split()
    ]
    assert visible[0].startswith("$ dragoman translate demo")
    assert visible[1:] == ["Wo ist der Bahnhof?", "Klicken Sie auf OK, um das Dokument zu speichern."]
    assert len(texts) > len(visible)


def test_try_slurm_writes_what_its_cluster_needs(tmp_path: Path) -> None:
    """A cluster needs root and SLURM, and takes minutes."""
    last = json.loads(run(sys.executable, SCRIPTS / "try_slurm.py", tmp_path, "--write-only").splitlines()[-1])
    assert last == {"bench": "try_slurm", "values": {"files": 13}}
    assert f"StateSaveLocation={tmp_path}/state" in (tmp_path / "slurm.conf").read_text("utf-8")


def test_try_hosts_writes_what_its_hosts_need(tmp_path: Path) -> None:
    """Network namespaces need root, and a failure takes minutes."""
    last = json.loads(run(sys.executable, SCRIPTS / "try_hosts.py", tmp_path, "cut", "--write-only").splitlines()[-1])
    assert last == {"bench": "try_hosts_cut", "values": {"files": 3}}


def test_the_slurm_scripts_parse_and_name_their_arguments() -> None:
    for name in ("train", "bulk"):
        script = ROOT / "deploy" / "slurm" / f"{name}.sbatch"
        run("bash", "-n", script)
        done = subprocess.run(["bash", script], capture_output=True, text=True, timeout=60)
        assert done.returncode == 2
        assert done.stderr.startswith("usage: sbatch ")


def test_mutants_prints_its_values() -> None:
    last = json.loads(run(sys.executable, SCRIPTS / "mutants", "--sample", "0").splitlines()[-1])
    assert last == {"bench": "mutants", "values": {"sampled": 0, "killed_share": 1.0}}
