"""Record the console blocks of the README in a terminal, as an animated SVG for README and docs.

    python scripts/record_terminal.py [--output docs/guides/pictures/terminal.svg] [--commands 4]

The commands really run, in a pseudo-terminal and a temporary folder. Waiting is cut short, and a command that takes
longer than `LONGEST` is shown faster. The SVG has no script and no font of its own, so that it works as an image;
without animation, and for readers who prefer reduced motion, it shows the last frame.
"""

import argparse
import codecs
import errno
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape, unescape
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COLUMNS, ROWS = 100, 60
SHOWN = 26
"""The rows of the window: what is above scrolls out of it."""
LONGEST = 9.0
"""The seconds for which a command is shown at most."""
FRAME, TYPING, PAUSE, END = 0.2, 0.05, 1.0, 6.0
"""The seconds between frames, for each step of typing, after a command or without output, and of the last frame."""
COLOURS = ("#6e7681", "#ff7b72", "#7ee787", "#e3b341", "#79c0ff", "#f778ba", "#76e3ea", "#e6edf3")
FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,DejaVu Sans Mono,Liberation Mono,monospace"
WIDTH, HEIGHT, MARGIN, BAR = 8.4, 19, 16, 30
"""The size of a character, and the space around the text and above it, in pixels."""

Cell = tuple[str, str]
"""A character and its style, as attributes of SVG."""
Frame = tuple[float, list[str]]
"""A time in seconds, and the lines of the screen from then on, as SVG."""


class Screen:
    """A terminal that grows downwards. It knows the escape sequences that rich writes; others are ignored."""

    def __init__(self) -> None:
        self.lines: list[list[Cell]] = [[]]
        self.row = self.column = 0
        self.style = ""

    def write(self, text: str) -> None:
        """Write text with its escape sequences."""
        for sequence, arguments, name, plain in re.findall(r"(\x1b\[([\d;?]*)([A-Za-z]))|([^\x1b])", text):
            if not sequence:
                self._put(plain)
            elif name == "m":
                self._set_style([int(number or 0) for number in arguments.split(";")])
            elif name == "A":
                self.row = max(0, self.row - int(arguments or 1))
            elif name == "K":
                self.lines[self.row] = self.lines[self.row][: 0 if arguments == "2" else self.column]

    def _put(self, character: str) -> None:
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self.row += 1
            self.lines += [[]] * (self.row + 1 - len(self.lines))
        elif character >= " ":
            if self.column == COLUMNS:
                self._put("\r")
                self._put("\n")
            line = self.lines[self.row] + [(" ", "")] * (self.column - len(self.lines[self.row]))
            self.lines[self.row] = [*line[: self.column], (character, self.style), *line[self.column + 1 :]]
            self.column += 1

    def _set_style(self, numbers: list[int]) -> None:
        for number in numbers:
            if number == 0:
                self.style = ""
            elif number == 1:
                self.style += ' font-weight="bold"'
            elif number == 2:
                self.style += ' opacity=".6"'
            elif 30 <= number <= 37 or 90 <= number <= 97:
                self.style += f' fill="{COLOURS[number % 10]}"'

    def to_svg(self) -> list[str]:
        """Return each line as the content of an SVG text element."""
        return [
            "".join(_span(style, [cell[0] for cell in cells]) for style, cells in _runs(line)) for line in self.lines
        ]


def _runs(line: list[Cell]) -> Iterator[tuple[str, Iterator[Cell]]]:
    while line and line[-1][0] == " ":
        line = line[:-1]
    return groupby(line, key=lambda cell: cell[1])


def _span(style: str, characters: list[str]) -> str:
    # Spaces that do not break are the only ones that every viewer keeps.
    text = escape("".join(characters), quote=False).replace(" ", "\u00a0")
    return f"<tspan{style}>{text}</tspan>" if style else text


def read_commands() -> list[str]:
    """Return the commands of the console blocks of the README."""
    blocks = re.findall(r"^```console\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    return [command for block in blocks for command in re.findall(r"^\$ (.*)$", block, re.M)]


def run(command: str, folder: Path) -> Iterator[tuple[float, str]]:
    """Run a command in a pseudo-terminal, and yield what it writes with the seconds since its start."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"TERM": "xterm-16color", "PATH": path}
    for name in ("COLUMNS", "LINES", "NO_COLOR", "COLORTERM"):
        environment.pop(name, None)
    begin = time.monotonic()
    process = subprocess.Popen(
        command, shell=True, cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    decoder = codecs.getincrementaldecoder("utf-8")()
    while data := _read(ours):
        yield time.monotonic() - begin, decoder.decode(data)
    os.close(ours)
    if process.wait() != 0:
        raise SystemExit(f"$ {command}\nexit code {process.returncode}")


def _read(terminal: int) -> bytes:
    """Return what is written until the writer pauses, so that no frame shows half of a change."""
    data = b""
    try:
        while not data or select.select([terminal], [], [], 0.02)[0]:
            if not (more := os.read(terminal, 65536)):
                break
            data += more
    except OSError as error:  # Linux reports the end of a pseudo-terminal as an error
        if error.errno != errno.EIO:
            raise
    return data


def record(commands: list[str], folder: Path) -> list[Frame]:
    """Run the commands one after the other, and return the frames."""
    screen, frames, now = Screen(), [], 0.0
    for command in commands:
        screen.write("\x1b[32;1m$\x1b[0m ")
        for begin in range(0, len(command), 4):
            screen.write(command[begin : begin + 4])
            frames.append((now, screen.to_svg()))
            now += TYPING
        screen.write("\r\n")
        steps, seconds, before = [], 0.0, 0.0
        for moment, text in run(command, folder):
            screen.write(text)
            seconds, before = seconds + min(moment - before, PAUSE), moment
            steps.append((seconds, screen.to_svg()))
        speed = max(1.0, steps[-1][0] / LONGEST)
        frames += thin([(now + seconds / speed, lines) for seconds, lines in steps])
        now = frames[-1][0] + PAUSE
    return frames


def thin(frames: list[Frame]) -> list[Frame]:
    """Return the last of the frames of each interval."""
    return [list(group)[-1] for _, group in groupby(frames, key=lambda frame: int(frame[0] / FRAME))]


@dataclass
class Line:
    """The content of a row from one time to another; without an end, it stays."""

    row: int
    content: str
    begin: float
    end: float | None = None


def find_lines(frames: list[Frame]) -> list[Line]:
    """Return the content of each row over time: a row that stays the same is one line."""
    current: dict[int, Line] = {}
    lines: list[Line] = []
    for seconds, contents in frames:
        for row in range(max([len(contents), *(row + 1 for row in current)])):
            content = contents[row] if row < len(contents) else ""
            if row in current and current[row].content == content:
                continue
            if row in current:
                current.pop(row).end = seconds
            if content:
                current[row] = Line(row, content, seconds)
                lines.append(current[row])
    return lines


def draw(frames: list[Frame]) -> str:
    """Return the frames as an animated SVG."""
    total = frames[-1][0] + END
    lines = find_lines(frames)
    names: dict[tuple[float, float | None], str] = {}
    rules, texts = [], []
    for line in lines:
        moment = (line.begin, line.end)
        if moment not in names:
            names[moment] = f"t{len(names)}"
            states = [(0.0, "visibility:hidden"), (line.begin, "visibility:visible")]
            rules.append(
                _rule(names[moment], states + [(line.end or 0.0, "visibility:hidden")] * bool(line.end), total)
            )
        y = (line.row + 1) * HEIGHT - 5
        hidden = "" if line.end is None else " h"
        length = len(unescape(re.sub(r"<.*?>", "", line.content))) * WIDTH
        texts.append(f'<text class="{names[moment]}{hidden}" y="{y}" textLength="{length:.1f}">{line.content}</text>')
    scrolled = _scroll(frames)
    rules.append(_rule("s", [(seconds, f"transform:{_move(rows)}") for seconds, rows in scrolled], total))
    width, height = round(COLUMNS * WIDTH), SHOWN * HEIGHT
    dots = "".join(f'<circle cx="{MARGIN + 4 + 18 * index}" cy="16" r="5"/>' for index in range(3))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width + 2 * MARGIN} {height + BAR + MARGIN}">\n'
        f"<style>text{{font:14px {FONT};fill:#e6edf3}}.h{{visibility:hidden}}.s{{transform:{_move(scrolled[-1][1])}}}\n"
        f"@media (prefers-reduced-motion:no-preference){{text,.s{{animation:{total:.2f}s step-end infinite}}\n"
        f"{''.join(rules)}}}</style>\n"
        f'<rect width="100%" height="100%" rx="8" fill="#161b22"/><g fill="#484f58">{dots}</g>\n'
        f'<svg x="{MARGIN}" y="{BAR}" width="{width}" height="{height}"><g class="s">\n'
        f"{chr(10).join(texts)}\n</g></svg>\n</svg>\n"
    )


def _scroll(frames: list[Frame]) -> list[tuple[float, int]]:
    """Return the rows above the window, with the times from which on they are there."""
    rows = [(seconds, max(0, len(lines) - SHOWN)) for seconds, lines in frames]
    return [next(group) for _, group in groupby(rows, key=lambda row: row[1])]


def _move(rows: int) -> str:
    return f"translateY({-HEIGHT * rows}px)"


def _rule(name: str, states: list[tuple[float, str]], total: float) -> str:
    """Return the style of an element that changes at these times."""
    frames = "".join(f"{100 * seconds / total:.2f}%{{{state}}}" for seconds, state in states)
    return f".{name}{{animation-name:{name}}}@keyframes {name}{{{frames}}}\n"


def main() -> None:
    """Record, and write the SVG."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "guides" / "pictures" / "terminal.svg")
    parser.add_argument("--commands", type=int, help="number of commands of the README to record; default: all")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        svg = draw(record(read_commands()[: options.commands], Path(folder)))
    options.output.write_text(svg, encoding="utf-8")
    print(f"{options.output}: {len(svg.encode()) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
