"""Play a new user: 15 tasks of README and guides with the built wheel in a fresh virtual environment.

    python scripts/new_user.py [--only 2 3] [--venv DIR] [--wheel FILE] [--data DIR]

All commands run on one core and one thread, while another process keeps a second core busy. A task ends as the guide
says if its commands have the exit codes, the output and the files that README and guides show. Prints the time of each
task; the exit code is 1 if a task ended otherwise. The whole takes about 15 minutes, and runs on Linux.
"""

import argparse
import csv
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("DRAGOMAN_DATA", ROOT.parent / "shared" / "data")) / "multi30k"
PAIRS = 6000
"""Pairs of the user's own text: enough to train on, few enough for a minute or two."""
SHIFT = 4001
"""The line from which on the damaged text is shifted."""


class User:
    """A person with a folder, a virtual environment and a wheel."""

    def __init__(self, folder: Path, venv: Path, wheel: Path, data: Path) -> None:
        self.folder, self.wheel, self.data = folder, wheel, data
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DRAGOMAN"))}
        terminal = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "OMP_NUM_THREADS": "1"}
        self.environment = kept | terminal | {"PATH": f"{venv / 'bin'}:{os.environ['PATH']}", "VIRTUAL_ENV": str(venv)}

    def start(self, command: str) -> subprocess.Popen[str]:
        """Start a command in a process group of its own, as a terminal does."""
        return subprocess.Popen(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, command: str, exit_code: int = 0) -> str:
        """Run a command, check its exit code, and return its standard output followed by standard error."""
        process = self.start(command)
        output, errors = process.communicate(timeout=1200)
        assert process.returncode == exit_code, f"$ {command}\nexit code {process.returncode}\n{output}{errors}"
        return output + errors

    def follow(self, page: str, text: str) -> None:
        """Run the commands of the block of the page that contains the text, and compare the output."""
        blocks = re.findall(r"^```(console|python)\n(.*?)^```$", (ROOT / page).read_text("utf-8"), re.M | re.S)
        language, block = next((language, block) for language, block in blocks if text in block)
        if language == "python":
            (self.folder / "block.py").write_text(block, encoding="utf-8")
            shown = re.findall(r"^ *print\(.*\)  # (.*)$", block, re.M)
            self.expect("python block.py", "\n".join(shown))
            return
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.M):
            self.expect(command, shown.strip())

    def expect(self, command: str, shown: str) -> None:
        """Run a command whose standard output is as shown, where a line of three dots stands for any lines."""
        process = self.start(command)
        output, errors = process.communicate(timeout=1200)
        assert process.returncode == 0, f"$ {command}\nexit code {process.returncode}\n{output}{errors}"
        printed = "".join(f"{line.rstrip()}\n" for line in output.strip().split("\n"))
        lines = [r"(?:.*\n)*?" if line == "..." else re.escape(line) + r"\n" for line in shown.split("\n")]
        assert re.fullmatch("".join(lines), printed), f"$ {command}\n{printed}is not\n{shown}"

    def write(self, name: str, lines: list[str]) -> None:
        (self.folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def read(self, name: str) -> list[str]:
        return (self.folder / name).read_text(encoding="utf-8").splitlines()

    def bring_text(self) -> None:
        """Write the user's own parallel text: captions of Multi30k or, without them, dates."""
        if (self.folder / "corpus.en").exists():
            return
        for side in ("en", "de"):
            if (self.data / f"train.{side}.gz").is_file():
                texts = {part: gzip.decompress((self.data / f"{part}.{side}.gz").read_bytes()) for part in CORPORA}
                self.write(f"corpus.{side}", texts["train"].decode().splitlines()[:PAIRS])
                self.write(f"test.{side}", texts["test_2016_flickr"].decode().splitlines()[:200])
            else:
                if not (self.folder / "dates").exists():
                    self.run("dragoman example dates dates/")
                dates = {"en": "en", "de": "iso"}[side]
                self.write(f"corpus.{side}", self.read(f"dates/train.{dates}")[:PAIRS])
                self.write(f"test.{side}", self.read(f"dates/test.{dates}")[:200])


CORPORA = ("train", "test_2016_flickr")


def install(user: User) -> None:
    """Install the base and print the version."""
    user.run(f"pip install --quiet {user.wheel}")
    assert re.fullmatch(r"dragoman \d+\.\d+\S*\n", user.run("dragoman --version"))
    assert "dragoman train" in user.run("dragoman train --help")


def translate(user: User) -> None:
    """Translate two sentences with the built-in model."""
    user.follow("README.md", "dragoman translate demo")


def translate_files(user: User) -> None:
    """Translate standard input, a text file and JSON lines."""
    user.follow("docs/guides/translate.md", "Close the window.")
    user.follow("docs/guides/translate.md", "questions.jsonl")
    user.write("new.en", ["Where is the station?", "", "I am late."])
    user.run("dragoman translate demo --input new.en --output new.de")
    assert user.read("new.de") == ["Wo ist der Bahnhof?", "", "Ich bin zu spät."]


def protect(user: User) -> None:
    """Keep placeholders, addresses, code, emoji and digits."""
    user.follow("docs/guides/translate.md", "{name}")
    spans = ["https://example.org/a?b=1", "ann@example.org", "`x += 1`", "<b>", "%s", "🎉", "14:35"]
    user.write("spans.en", [f"The answer is {span} and I know it." for span in spans])
    user.run("dragoman translate demo --input spans.en --output spans.de")
    lost = [span for span, line in zip(spans, user.read("spans.de"), strict=True) if span not in line]
    assert not lost, f"lost: {lost}"


def serve(user: User) -> None:
    """Install the service, translate over HTTP, stop it."""
    user.run(f"pip install --quiet '{user.wheel}[serve,detect]'")
    service = user.start("exec dragoman serve demo --port 0 2>service.log")
    assert service.stdout is not None
    address = service.stdout.readline().strip()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address), address
    form = urllib.parse.urlencode({"q": "Where is the station?", "source": "en", "target": "de"}).encode()
    with urllib.request.urlopen(f"{address}translate", form, timeout=60) as answer:
        assert json.load(answer) == {"translatedText": "Wo ist der Bahnhof?"}
    os.killpg(service.pid, signal.SIGINT)
    service.communicate(timeout=60)
    assert service.returncode in (0, 130), f"exit code {service.returncode}"


def install_training(user: User) -> None:
    """Install torch and the train extra."""
    user.run("pip install --quiet torch==2.13.0")
    user.run(f"pip install --quiet '{user.wheel}[train]'")
    assert "ok" in user.run("dragoman doctor")


def train_dates(user: User) -> None:
    """Generate the dates, train on them, translate dates."""
    user.follow("README.md", "dragoman example dates")
    kept = {path.name for path in (user.folder / "dates-run").iterdir()}
    assert {"recipe.yaml", "log.jsonl", "curves.png", "bundle"} <= kept, kept


def trace_dates(user: User) -> None:
    """Read the attention of the dates model in Python."""
    user.follow("README.md", "dragoman.load")


def inspect(user: User) -> None:
    """Draw the attention of a sentence, and explain a head."""
    user.follow("docs/guides/inspect.md", "--output garden.png")
    assert (user.folder / "garden.png").read_bytes().startswith(b"\x89PNG")
    assert "7. Softmax" in user.run('dragoman explain "I ate an apple."')


def interrupt(user: User) -> None:
    """Press Ctrl-C in a training; the same command continues it."""
    command = "dragoman train dates/recipe.yaml --out stopped-run --processes 1 --set training.stop.updates=300"
    if not (user.folder / "dates").exists():
        user.run("dragoman example dates dates/")
    training = user.start(f"exec {command}")
    log = user.folder / "stopped-run" / "log.jsonl"
    while training.poll() is None and not (log.exists() and '"event": "update"' in log.read_text("utf-8")):
        time.sleep(0.1)
    os.killpg(training.pid, signal.SIGINT)
    _, errors = training.communicate(timeout=120)
    found = re.search(r"stopped at update ([\d,]+); .* from update ([\d,]+)", errors)
    assert training.returncode == 130, errors
    assert found is not None, errors
    assert found[1] == found[2] != "0", f"lost updates: {found[0]}"
    assert "the model is in stopped-run/bundle" in user.run(command)
    updates = [
        json.loads(line)["update"] for line in log.read_text("utf-8").splitlines() if '"event": "update"' in line
    ]
    assert updates == sorted(set(updates)), "updates were made twice"


def check_data(user: User) -> None:
    """Check the user's own text; find the line from which on it is shifted."""
    user.bring_text()
    output = user.run("dragoman doctor --source corpus.en --target corpus.de")
    assert not re.search(r"(?:warning|problem) +alignment", output), output
    lines = user.read("corpus.de")
    user.write("shifted.de", lines[: SHIFT - 1] + lines[SHIFT:] + lines[:1])
    output = user.run("dragoman doctor --source corpus.en --target shifted.de")
    found = re.search(r"warning +alignment +.*from line ([\d,]+) on", output)
    assert found is not None, output
    assert abs(int(found[1].replace(",", "")) - SHIFT) <= 20, f"{found[0]}, and {SHIFT} is right"


def train_own_text(user: User) -> None:
    """Train on two text files for 2 minutes, read the verdict, translate a file."""
    user.bring_text()
    output = user.run("dragoman train --source corpus.en --target corpus.de --out run/ --time 2m --processes 1")
    assert re.search(r"BLEU \d+\.\d: \w+", output), output
    assert "to try the model: dragoman translate run" in output, output
    user.run("dragoman translate run/ < test.en > test.out")
    assert len(user.read("test.out")) == len(user.read("test.en"))
    assert all(user.read("test.out"))


def use_pairs(user: User) -> None:
    """Check a CSV file and a translation memory, and prepare the memory for training."""
    user.follow("docs/guides/data.md", "shop.csv")
    user.bring_text()
    pairs = list(zip(user.read("corpus.en"), user.read("corpus.de"), strict=True))[:1000]
    unit = '<tu><tuv xml:lang="en"><seg>{}</seg></tuv><tuv xml:lang="de"><seg>{}</seg></tuv></tu>'
    units = [unit.format(escape(source), escape(target)) for source, target in pairs]
    user.write("memory.tmx", ['<tmx version="1.4"><header srclang="en"/><body>', *units, "</body></tmx>"])
    with (user.folder / "memory.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("en", "de"), *pairs])
    assert "1,000 pairs" in user.run("dragoman doctor --pairs memory.tmx")
    for name in ("tmx", "csv"):
        assert "1,000 pairs read" in user.run(f"dragoman prepare --pairs memory.{name} --out prepared-{name}/")
    assert (user.folder / "prepared-tmx/vocab.model").read_bytes() == (
        user.folder / "prepared-csv/vocab.model"
    ).read_bytes()


def evaluate(user: User) -> None:
    """Score translations and the trained model, with intervals."""
    user.follow("docs/guides/evaluate.md", "ours.de theirs.de")
    user.run("dragoman evaluate run/ --source test.en --reference test.de --json report.json")
    (system,) = json.loads((user.folder / "report.json").read_text("utf-8"))["systems"]
    assert [score["metric"] for score in system["scores"]] == ["BLEU", "chrF2", "TER"]
    assert all(score["low"] <= score["value"] <= score["high"] for score in system["scores"])


def align_and_export(user: User) -> None:
    """Link words, rank suspected errors, export in int8."""
    user.follow("docs/guides/inspect.md", "--alignment")
    user.follow("docs/guides/inspect.md", "> street.en")
    user.run("dragoman export dates-run --store int8")
    assert user.run('dragoman translate dates-run --compute int8 "Tuesday the 3rd of March, 1987"').startswith(
        "1987-03-03\n"
    )


TASKS: list[Callable[[User], None]] = [
    install,
    translate,
    translate_files,
    protect,
    serve,
    install_training,
    train_dates,
    trace_dates,
    inspect,
    interrupt,
    check_data,
    train_own_text,
    use_pairs,
    evaluate,
    align_and_export,
]


def build_wheel(folder: Path) -> Path:
    """Build the wheel of this checkout into the folder."""
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return next(folder.glob("*.whl"))


def burn_a_core() -> subprocess.Popen[bytes]:
    """Start a process that keeps the last core busy, and keep this process and its children on the first."""
    cores = sorted(os.sched_getaffinity(0))
    burner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    os.sched_setaffinity(burner.pid, cores[-1:])
    os.sched_setaffinity(0, cores[:1])
    return burner


def play(user: User, numbers: list[int]) -> int:
    """Play the tasks with these numbers, print a row for each, and return how many ended as the guide says."""
    print("| | task | seconds | ends as the guide says |\n|---|---|---|---|")
    ended = 0
    for number in numbers:
        task, begin, reason = TASKS[number - 1], time.monotonic(), ""
        try:
            task(user)
            ended += 1
        except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
            reason = str(error)
        answer = "no" if reason else "yes"
        print(f"| {number} | {task.__doc__} | {time.monotonic() - begin:.1f} | {answer} |", flush=True)
        if reason:
            print(reason, file=sys.stderr, flush=True)
    return ended


def main() -> None:
    """Play the tasks of the command line, and exit with 1 if one ended otherwise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=int, nargs="+", choices=range(1, len(TASKS) + 1), help="numbers of tasks")
    parser.add_argument("--venv", type=Path, help="virtual environment to use; it is created if it does not exist")
    parser.add_argument("--wheel", type=Path, help="wheel to install; default: build one")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of Multi30k; without it, the text is dates")
    parser.add_argument("--folder", type=Path, help="folder to work in; default: a temporary one")
    options = parser.parse_args()
    # A shell that starts this script in the background lets it ignore Ctrl-C, and its children would, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    numbers = options.only or list(range(1, len(TASKS) + 1))
    with tempfile.TemporaryDirectory() as place:
        folder = options.folder or Path(place) / "work"
        folder.mkdir(exist_ok=True)
        venv = (options.venv or Path(place) / "venv").resolve()
        if not venv.exists():
            subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        installs = any(TASKS[number - 1] in (install, serve, install_training) for number in numbers)
        wheel = options.wheel or (build_wheel(Path(place)) if installs else Path("dragoman"))
        burner = burn_a_core()
        try:
            ended = play(User(folder, venv, wheel.resolve(), options.data), numbers)
        finally:
            burner.kill()
    print(f"{ended} of {len(numbers)} tasks ended as the guide says")
    raise SystemExit(ended != len(numbers))


if __name__ == "__main__":
    main()
