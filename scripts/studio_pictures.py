"""Make pictures of the studio's screens: each for a computer and a phone, with a good and with a bad translation.

python scripts/studio_pictures.py FOLDER [--only NAME ...] [--run RUN] [--other MODEL]

Needs chromium. Those of the guides are made with a training run for Watch, and with another model for Compare:

python scripts/studio_pictures.py docs/guides/pictures --only studio studio-cell studio-compare-bad watch --run RUN
    --other MODEL
"""

import argparse
import base64
import io
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
TEXTS = {"": "A woman is reading a book in the garden.", "-bad": "He kicked the bucket after the cat let itself out."}
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
    "watch": ({"view": "watch"}, "document.querySelector('.field') !== null"),
}
"""The state of the address, and the expression that is true when the screen is complete."""
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
        if name != "watch" or (options.run and not bad)
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
            picture = _draw(
                browser, f"{address}&{urlencode({'text': TEXTS[bad], **state, **at})}", complete, SIZES[size]
            )
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
    while not browser.run(complete) or browser.run("document.querySelector('.busy') !== null"):
        if time.monotonic() > last:
            sys.exit(f"the studio does not come to rest: {browser.run('document.body.innerText')}")
        time.sleep(0.1)
    time.sleep(0.3)  # until the last change is painted
    # The command at the end has the folders of this machine.
    end = browser.run("document.querySelector('footer').getBoundingClientRect().top")
    clip = {"x": 0, "y": 0, "width": width, "height": min(height, int(end)), "scale": 1}
    data = browser.request("Page.captureScreenshot", format="png", clip=clip)["data"]
    picture = Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")
    # A third of the size, and no colour is off by more than 8 of 255: maps and their scales stay comparable.
    return picture.quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=8, dither=Image.Dither.NONE)


if __name__ == "__main__":
    main()
