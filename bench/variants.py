"""Train one recipe with and without each kind of augmentation, for equal updates, and score what each one changes.

    python bench/variants.py FOLDER [--updates 3000] [--only none all ...] [--lines 1000] [`train` options]

The recipe is en-de-general. `none` has no augmentation, `all` what the recipe sets, and each other variant one kind of
it alone; `unguided` is `all` without guided alignment. Dev BLEU is computed as by bench/everyday.py --dev: on the dev
pairs as they are, in upper case, in title case and with typing errors. A variant whose model exists in FOLDER is not
trained again, and one that was interrupted resumes. The figures that end in _plain are without the usual letter case
that `dragoman translate` gives to capitals and titles before it translates them (protect=False), so that they show what
the model itself has learned.
"""

import os
import subprocess
import sys
from pathlib import Path

from everyday import TEXTS, read_texts, score_groups, score_variants
from report import option_parser, print_values
from texts import DATA, read_lines

import dragoman
from dragoman.data.augment import AugmentConfig

RECIPE = "en-de-general"
KINDS = tuple(AugmentConfig.model_fields)
VARIANTS = ("none", *KINDS, "all", "unguided")


def overrides(variant: str) -> list[str]:
    """Return the options of `dragoman train` that make a variant of the recipe."""
    off = {"all": (), "unguided": (), "none": KINDS}.get(variant, tuple(kind for kind in KINDS if kind != variant))
    changes = [f"training.augment.{kind}=0" for kind in off]
    changes += ["training.guided_alignment.weight=0"] if variant == "unguided" else []
    return [option for change in changes for option in ("--set", change)]


def train(folder: Path, variant: str, updates: int, options: list[str]) -> None:
    """Train a variant for a number of updates, whatever time they take."""
    length = ["--set", f"training.stop.updates={updates}", "--set", "training.stop.time=null"]
    length += ["--set", f"training.validate_every={max(1, updates // 3)}", "--set", "data.test=[]"]
    command = [sys.executable, "-m", "dragoman", "train", RECIPE, "--out", str(folder / variant)]
    environment = {**os.environ, "DRAGOMAN_DATA": str(DATA)}
    subprocess.run([*command, *length, *overrides(variant), *options], check=True, env=environment)


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--updates", type=int, default=3000)
    parser.add_argument("--only", nargs="+", choices=VARIANTS, default=["none", "all"])
    parser.add_argument("--lines", type=int, default=1000, help="dev pairs to score")
    options, train_options = parser.parse_known_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    sources, references = (read_lines(DATA / f"tatoeba-en-de/dev.{side}.gz")[: options.lines] for side in ("en", "de"))
    texts = read_texts(TEXTS)
    values: dict[str, float] = {}
    for variant in options.only:
        if not (options.folder / variant / "bundle").exists():
            train(options.folder, variant, options.updates, train_options)
        model = dragoman.load(str(options.folder / variant))
        print(f"\n== {variant}", flush=True)
        figures = score_groups(texts, model.translate(text.english for text in texts))
        figures |= score_variants(model, sources, references)
        plain = score_variants(model, sources, references, protect=False)
        figures |= {f"{name}_plain": value for name, value in plain.items()}
        kept = ("all_chrf", "dev_as_it_is", "dev_upper_case", "dev_title_case", "dev_typing_errors")
        values |= {f"{variant}_{name}": value for name, value in figures.items() if name.removesuffix("_plain") in kept}
    print_values("variants", values, 2)


if __name__ == "__main__":
    main()
