"""Time the studio with the demo model in chromium: from Enter to the picture of a short sentence.

The clock starts when the page receives the key and stops after the frame with the words, their ribbons and the map is
drawn. Each round has another sentence, as the studio keeps traces; the first two are not counted. The values are
the median, the median of what the page waited for the trace, and the shortest time, which on a busy machine is nearest
to that of an idle one.

    python bench/studio.py [--rounds 12]
"""

import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from report import option_parser, print_values

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "unit" / "inspection"))
from browser import CHROMIUM, Browser

UNTIMED = 2
SUBJECTS = ("A woman", "A man", "A dog", "A girl", "A boy", "Two men", "The child", "A cat")
PLACES = ("reading in the garden.", "sitting on a bench.", "playing in the park.", "standing on the street.")
READY = "/first choice|cross-attention/.test(document.querySelector('.trust')?.innerText ?? '')"
WATCH = """
window.isDone = false;
window.addEventListener("keydown", () => (window.start = performance.now()), { once: true, capture: true });
performance.clearResourceTimings();
new MutationObserver((_, observer) => {
  const words = [...document.querySelectorAll(".line.source button")].map((word) => word.textContent).join(" ");
  if (words !== %r || window.isDone || !document.querySelector(".field canvas")) return;
  observer.disconnect();
  requestAnimationFrame(() => setTimeout(() => {
    const request = performance.getEntriesByType("resource").find(({ name }) => name.endsWith("/api/traces"));
    Object.assign(window, { isDone: true, took: performance.now() - window.start, waited: request.duration });
  }));
}).observe(document.body, { subtree: true, childList: true, characterData: true });
const field = document.querySelector("input[type=text]");
field.value = %r;
field.dispatchEvent(new Event("input", { bubbles: true }));
field.focus();
"""


def enter(browser: Browser, sentence: str) -> tuple[float, float]:
    """Return the milliseconds from Enter to the picture, and those until the trace was there."""
    browser.run("{" + WATCH % (sentence, sentence) + "} 0")
    browser.press("Enter")
    browser.until("window.isDone")
    took, waited = browser.run("[window.took, window.waited]")
    browser.until(READY)  # the counterfactuals come later, and would slow the next round
    return took, waited


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=12, help="number of timed sentences")
    rounds = parser.parse_args().rounds
    if CHROMIUM is None:
        sys.exit("chromium is missing: install it")
    sentences = [f"{subject} is {place}" for place in PLACES for subject in SUBJECTS][: UNTIMED + rounds]
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home,
        subprocess.Popen(
            [sys.executable, "-m", "dragoman", "studio", "--no-browser"], stdout=subprocess.PIPE, text=True
        ) as studio,
    ):
        assert studio.stdout is not None
        browser = Browser(home)
        browser.request("Page.navigate", url=studio.stdout.readline().strip())
        browser.until(READY)
        times = [enter(browser, sentence) for sentence in sentences][UNTIMED:]
        browser.close()
        studio.send_signal(signal.SIGINT)
    took, waited = zip(*times, strict=True)
    print("Enter to picture", "  ".join(f"{value:.0f}" for value in took), "ms")
    medians = {"enter_to_picture_ms": statistics.median(took), "trace_ms": statistics.median(waited)}
    print_values("studio", {**medians, "shortest_ms": min(took)}, 0)


if __name__ == "__main__":
    main()
