"""Make pictures of the studio's screens: each for a computer and a phone, with a good and with a bad translation.

python scripts/studio_pictures.py FOLDER [--only NAME ...] [--run RUN] [--other MODEL]

Needs chromium. Those of the guides are made with a training run for Watch, and with another model for Compare:

python scripts/studio_pictures.py docs/guides/pictures --only studio studio-cell studio-compare-bad studio-pin
    studio-align studio-lab studio-lesson watch --run RUN --other MODEL
"""

import argparse
import base64
import io
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlencode

from PIL import Image

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "unit" / "inspection"))
from browser import CHROMIUM, Browser  # noqa: E402

SIZES = {"": (1440, 900), "-phone": (390, 844)}
TEXTS: dict[str, dict[str, str]] = {
    "": {"text": "A woman is reading a book in the garden."},
    "-bad": {"text": "He kicked the bucket after the cat let itself out."},
    "-long": {
        "text": "Two young men in blue shirts and a woman with a red hat are standing on a wet street in front of "
        "an old yellow house, while a small brown dog runs behind a boy with a ball, and an old man, who sits on "
        "a bench under a green tree in the park, is reading a newspaper and drinking coffee before he walks home."
    },
    "-hebrew": {"text": "A woman is reading a book.", "target": "אישה קוראת ספר."},
    "-japanese": {"text": "A woman is reading a book.", "target": "女の人が 本を 読んでいます。"},
}
"""Texts and given translations by the end of a picture's name; the model knows only English and German."""
LINES = [text["text"] for text in TEXTS.values()]
PINNED = "A man is reading a newspaper in the garden."
TRANSLATED = "/cross-attention|first choice/.test(document.querySelector('.trust')?.innerText ?? '')"
SCREENS: dict[str, tuple[dict[str, object], str]] = {
    "studio": ({}, TRANSLATED),
    "studio-heads": ({"view": "heads"}, TRANSLATED),
    "studio-theatre": ({"view": "theatre"}, TRANSLATED),
    "studio-operate": ({"view": "operate", "off": "decoder.layers.1.cross_attention.0"}, TRANSLATED),
    "studio-cell": (
        {"view": "cell", "kind": "cross", "layer": 0, "head": 1, "cell": "2.3", "step": 5},
        f"{TRANSLATED} && document.querySelector('.cell[aria-busy=false]') !== null",
    ),
    "studio-compare": ({"view": "compare", "other": "other"}, "document.querySelector('.compare .field') !== null"),
    "studio-pin": (
        {"pin": f"model=demo&text={PINNED}"},
        f"{TRANSLATED} && document.querySelector('.pinned .line') !== null",
    ),
    "studio-align": (
        {"view": "align"},
        "document.querySelector('.words') && !document.querySelector('[aria-busy=true]')",
    ),
    "studio-triage": ({"view": "triage"}, "document.querySelector('ol > li') !== null"),
    "studio-lab": ({"view": "lab", "experiment": "hi-how-are-you"}, "document.querySelector('.plot') !== null"),
    "studio-lesson": (
        {"view": "lesson", "chapter": "9", "text": ""},
        "document.querySelector('.quiz') !== null && document.querySelector('.plot') !== null",
    ),
    "watch": ({"view": "watch"}, "document.querySelector('.field') !== null"),
}
"""The state of the address, and the expression that is true when the screen is complete."""
PAIRS = (
    ("A man is sleeping.", "Ein Mann schläft.", "1-1 2-2 3p3 4-3"),
    ("Two dogs are playing in the snow.", "Zwei Hunde spielen im Schnee.", "1-1 2-2 3p3 4-3 5-4 6p4 7-5"),
    (
        "A woman is reading a book in the garden.",
        "Eine Frau liest ein Buch im Garten.",
        "1-1 2-2 3p3 4-3 5-4 6-5 7-6 8p6 9-7",
    ),
    ("The train leaves at seven o'clock.", "Der Zug fährt um sieben Uhr ab.", "1-1 2-2 3-3 3p7 4-4 5-5 6-6"),
    ("I have never seen this film.", "Ich habe diesen Film nie gesehen.", "1-1 2-2 3-5 4-6 5-3 6-4"),
    ("She gave him the keys.", "Sie gab ihm die Schlüssel.", "1-1 2-2 3-3 4-4 5-5"),
    ("We are waiting for the bus.", "Wir warten auf den Bus.", "1-1 2p2 3-2 4-3 5-4 6-5"),
    ("Where did you buy that hat?", "Wo hast du diesen Hut gekauft?", "1-1 2-2 3-3 4-6 5-4 6-5"),
    ("The children are singing a song.", "Die Kinder singen ein Lied.", "1-1 2-2 3p3 4-3 5-4 6-5"),
    ("My brother lives in a small town.", "Mein Bruder wohnt in einer kleinen Stadt.", "1-1 2-2 3-3 4-4 5-5 6-6 7-7"),
    ("It will rain tomorrow.", "Es wird morgen regnen.", "1-1 2-2 3-4 4-3"),
    ("He does not want to go home.", "Er will nicht nach Hause gehen.", "1-1 2p3 3-3 4-2 5p4 6-6 7-4 7-5"),
)
"""Sentence pairs with gold links, made for the picture of Align."""
FILL = """for (const [i, text] of %s.entries()) {
    const field = document.querySelectorAll('textarea')[i];
    field.value = text;
    field.dispatchEvent(new Event('input', {bubbles: true}));
}
setTimeout(() => document.querySelector('form .primary').click());"""
PATIENCE_S = 120.0


def main() -> None:
    """Write the pictures as PNG files, without the command at the end of each screen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where to write the pictures")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="pictures to make, such as studio-bad-phone")
    parser.add_argument("--run", type=Path, help="folder of a training run; without it, there is no picture of Watch")
    parser.add_argument("--at", default="", help="snapshot of the run, a folder of its probe; default: the newest")
    parser.add_argument("--other", type=Path, default=ROOT / "tests" / "golden" / "v1", help="model B of Compare")
    options = parser.parse_args()
    if CHROMIUM is None:
        sys.exit("chromium is missing: install it")
    names = {
        name + bad + size: (name, bad, size)
        for name in SCREENS
        for bad in TEXTS
        for size in SIZES
        if not bad or name not in ("watch", "studio-align", "studio-triage", "studio-lab", "studio-lesson")
        if name != "watch" or options.run
    }
    unknown = set(options.only or ()) - set(names)
    if unknown:
        sys.exit(f"there is no picture {min(unknown)}: choose from {', '.join(names)}")
    options.folder.mkdir(parents=True, exist_ok=True)
    models = ["demo", f"other={options.other}", *([f"run={options.run}"] if options.run else [])]
    command = [sys.executable, "-m", "dragoman", "studio", *models, "--no-browser"]
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as studio,
    ):
        assert studio.stdout is not None
        address = studio.stdout.readline().strip()
        browser = Browser(home)
        browser.request("Emulation.setScrollbarsHidden", hidden=True)
        for name in options.only or names:
            screen, bad, size = names[name]
            state, complete = SCREENS[screen]
            at = {"at": options.at} if screen == "watch" and options.at else {}
            picture = _draw(browser, f"{address}&{urlencode({**TEXTS[bad], **state, **at})}", complete, SIZES[size])
            picture.save(options.folder / f"{name}.png", optimize=True)
            print(options.folder / f"{name}.png")
        browser.close()
        studio.send_signal(signal.SIGINT)


def _draw(browser: Browser, address: str, complete: str, size: tuple[int, int]) -> Image.Image:
    width, height = size
    browser.request("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
    browser.request("Page.navigate", url="about:blank")
    browser.events.clear()
    browser.request("Page.navigate", url=address)
    browser.wait("Page.loadEventFired")
    last = time.monotonic() + PATIENCE_S
    fields = {"view=align": list(zip(*PAIRS, strict=True)), "view=triage": [tuple(LINES)]}
    for columns in (columns for view, columns in fields.items() if view in address):
        while not browser.run(f"document.querySelectorAll('textarea').length === {len(columns)}"):
            time.sleep(0.1)
        browser.run(FILL % json.dumps(["\n".join(column) for column in columns]))
    while not browser.run(complete) or browser.run("document.querySelector('.busy') !== null"):
        if time.monotonic() > last:
            sys.exit(f"the studio does not come to rest: {browser.run('document.body.innerText')}")
        time.sleep(0.1)
    time.sleep(0.3)  # until the last change is painted
    # The command at the end has the folders of this machine.
    end = browser.run("document.querySelector('footer')?.getBoundingClientRect().top ?? innerHeight")
    clip = {"x": 0, "y": 0, "width": width, "height": min(height, int(end)), "scale": 1}
    data = browser.request("Page.captureScreenshot", format="png", clip=clip)["data"]
    picture = Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")
    # A third of the size, and no colour is off by more than 8 of 255: maps and their scales stay comparable.
    return picture.quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=8, dither=Image.Dither.NONE)


if __name__ == "__main__":
    main()
