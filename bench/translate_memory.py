"""Measure the memory of `dragoman translate` above its model on a long file, and the time to its first answer.

The memory of the command, from file to file, is read five times a second. The memory of its model is that of the same
command after one line. Twice: with the demo, and with a random model of one layer whose outputs have five tokens, for a
file ten times as long. `first_line_s` is the time from the start of the process to the first answer.

    python bench/translate_memory.py [--demo-lines 200000] [--toy-lines 2000000] [--threads 2]

--quick uses 5,000 lines for each.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from base_bundle import base_bundle
from report import option_parser, print_values
from texts import made_up_lines, write_lines

from dragoman.bundle import demo_folder

EVERY = 0.2
QUICK = 5_000


def command(model: Path, threads: int, *others: object) -> list[str]:
    words = [sys.executable, "-m", "dragoman", "translate", model, "--engine", "ctranslate2", "--threads", threads]
    return [str(word) for word in [*words, *others]]


def resident(process: subprocess.Popen[bytes]) -> float:
    """Return the MB of a process, 0 if it has ended."""
    try:
        status = Path(f"/proc/{process.pid}/status").read_text()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024


def first_answer(model: Path, threads: int) -> tuple[float, float]:
    """Return the seconds to the first answer, and the MB at that time."""
    begin = time.perf_counter()
    process = subprocess.Popen(command(model, threads), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"Where is the station?\n")
    process.stdin.flush()
    assert process.stdout.readline().strip()
    seconds, memory = time.perf_counter() - begin, resident(process)
    process.communicate()
    return seconds, memory


def peak_memory(name: str, model: Path, threads: int, number: int, folder: Path) -> float:
    """Return the peak MB for a whole file, printing about ten readings."""
    source, output = folder / f"{name}.en", folder / f"{name}.de"
    write_lines(source, made_up_lines(number))
    begin = printed = time.perf_counter()
    highest, every = 0.0, max(5.0, number / 20_000)
    process = subprocess.Popen(command(model, threads, "--input", source, "--output", output))
    while process.poll() is None:
        highest = max(highest, resident(process))
        if time.perf_counter() - printed > every:
            printed = time.perf_counter()
            print(f"{name}: {printed - begin:5.0f} s, {resident(process):.0f} MB, at most {highest:.0f} MB", flush=True)
        time.sleep(EVERY)
    assert process.returncode == 0
    with output.open("rb") as file:
        assert sum(1 for _ in file) == number
    seconds = time.perf_counter() - begin
    print(f"{name}: {number:,} lines in {seconds:.0f} s, {number / seconds:,.0f} a second", flush=True)
    return highest


def measure(name: str, model: Path, threads: int, number: int, folder: Path, repeats: int) -> tuple[float, float]:
    """Return the seconds to the first answer, and the peak MB above the model."""
    answers = [first_answer(model, threads) for _ in range(repeats)]
    first, base = (
        statistics.median(seconds for seconds, _ in answers),
        statistics.median(memory for _, memory in answers),
    )
    print(f"{name}: the first answer after {first:.2f} s, with {base:.0f} MB", flush=True)
    growth = peak_memory(name, model, threads, number, folder) - base
    print(f"{name}: {growth:.0f} MB above the model", flush=True)
    return first, growth


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("--demo-lines", type=int, default=200_000)
    parser.add_argument("--toy-lines", type=int, default=2_000_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3, help="runs for the first answer")
    parser.add_argument("--model", type=Path, default=demo_folder(), help="model instead of the demo")
    parser.add_argument("--quick", action="store_true", help="5,000 lines of each")
    options = parser.parse_args()
    demo_lines, toy_lines = (QUICK, QUICK) if options.quick else (options.demo_lines, options.toy_lines)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        toy = base_bundle(folder / "toy", 1, 32, length=5, languages=("en", "de"), beam_size=1).folder
        first, demo_growth = measure("demo", options.model, options.threads, demo_lines, folder, options.repeats)
        _, toy_growth = measure("toy", toy, options.threads, toy_lines, folder, options.repeats)
    values = {"demo_growth_mb": demo_growth, "toy_growth_mb": toy_growth, "first_line_s": first}
    print_values("translate_memory", values, 2)


if __name__ == "__main__":
    main()
