"""Measure the gain of back-translation: half of Multi30k's pairs, with and without the other half's German.

    python bench/backtranslation.py FOLDER --data DATA [--updates 3000] [options of `dragoman train`]

Three models of the Multi30k recipe's shape, each with the given number of updates of 2,048 tokens, one thread each:
German to English on the first half; English to German on the first half; and the same with the second half's German,
which the first model translates into English. The first two are trained at the same time. Models that exist are not
trained again. The two English-German models are compared by paired bootstrap on test_2016_flickr.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import yaml
from report import option_parser, print_values
from texts import DATA, read_lines, write_lines

NAME = "multi30k/tok/{}.lc.norm.tok.{}.gz"


def recipe(
    folder: Path, data: Path, source: str, target: str, updates: int, synthetic: list[object]
) -> dict[str, object]:
    half = {"name": "half", "source": str(folder / f"half.{source}"), "target": str(folder / f"half.{target}")}
    dev = {side: str(data / NAME.format("val", code)) for side, code in (("source", source), ("target", target))}
    training = {
        "batch": {"tokens": 2048, "headroom": 1.15},
        "subword_sampling": 0.1,
        "optimizer": {"clip": 1.0},
        "schedule": {"factors": ["warmup", "linear"], "rate": 1.2e-3, "warmup": 800},
        "stop": {"updates": updates, "metric": "bleu"},
        "validate_every": max(1, updates // 6),
        "ema": 0.998,
        "precision": "bfloat16",
    }
    return {
        "name": f"half of Multi30k, {source} to {target}",
        "source_language": source,
        "target_language": target,
        "data": {
            "train": [half, *synthetic],
            "dev": dev,
            "vocabulary": {"kind": "bpe", "size": 6000, "joint": True},
        },
        "model": {"preset": "small", "dropout": 0.3, "norm": "pre", "attention_bias": True},
        "training": training,
        "validation": {"reading": {"tokenised": True}},
    }


def train(folder: Path, name: str, described: dict[str, object], options: list[str]) -> subprocess.Popen[bytes] | None:
    if (folder / name / "bundle").exists() and not (folder / name / "checkpoints").exists():
        return None
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(described), encoding="utf-8")
    command = [sys.executable, "-m", "dragoman", "train", f"{name}.yaml", "--out", name, "--processes", "1", *options]
    log = (folder / f"{name}.log").open("ab")
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=log)


def wait(*running: subprocess.Popen[bytes] | None) -> None:
    codes = [process.wait() for process in running if process]
    if any(codes):
        raise SystemExit(f"exit codes {codes}; see the logs")


def write_halves(folder: Path, data: Path) -> None:
    for code in ("en", "de"):
        sentences = read_lines(data / NAME.format("train", code))
        middle = len(sentences) // 2
        write_lines(folder / f"half.{code}", sentences[:middle])
        if code == "de":
            write_lines(folder / "other.de", sentences[middle:])


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--updates", type=int, default=3000)
    options, extra = parser.parse_known_args()
    folder, data, updates = options.folder.resolve(), options.data.resolve(), options.updates
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "other.de").exists():
        write_halves(folder, data)
    back = train(folder, "back", recipe(folder, data, "de", "en", updates, []), extra)
    wait(back, train(folder, "half", recipe(folder, data, "en", "de", updates, []), extra))
    dragoman = [sys.executable, "-m", "dragoman"]
    translated = [*dragoman, "backtranslate", "back", "--shards", "other.de", "--out", "synthetic"]
    subprocess.run(translated, cwd=folder, check=True)
    synthetic = yaml.safe_load((folder / "synthetic" / "corpus.yaml").read_text("utf-8"))["data"]["train"]
    wait(train(folder, "both", recipe(folder, data, "en", "de", updates, synthetic), extra))
    test = [str(data / NAME.format("test_2016_flickr", code)) for code in ("en", "de")]
    evaluated = [*dragoman, "evaluate", "half", "both", "--source", test[0], "--reference", test[1], "--tokenised"]
    subprocess.run([*evaluated, "--json", "report.json"], cwd=folder, check=True)
    print_values("backtranslation", {"updates": updates} | scores(folder), 4)


def scores(folder: Path) -> dict[str, float]:
    report = json.loads((folder / "report.json").read_text("utf-8"))
    bleu = [next(score for score in system["scores"] if score["metric"] == "BLEU") for system in report["systems"]]
    return {"half": bleu[0]["value"], "with_synthetic": bleu[1]["value"], "p_value": bleu[1]["p_value"]}


if __name__ == "__main__":
    main()
