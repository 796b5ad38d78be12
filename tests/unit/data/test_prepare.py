import gzip
import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dragoman.data.corpus import CorpusConfig
from dragoman.data.manifest import Manifest, Prepared
from dragoman.data.prepare import WORK, PrepareConfig, load_reports, prepare, settings_of, suggested_size
from dragoman.data.shards import Shard
from dragoman.text.cleaning import Problem
from dragoman.text.vocab import EOS, Vocab, VocabConfig, train_vocab

WORDS = [f"{a}{b}{c}" for a in ("ba", "ke", "li", "mo") for b in ("r", "st", "nd") for c in ("a", "en", "o")]


def sentences(number: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(3, 9))) + f" {i}" for i in range(number)]


def write(folder: Path, name: str, lines: list[str]) -> CorpusConfig:
    """A corpus whose target is its source in capitals."""
    for side, text in (("source", lines), ("target", [line.upper() for line in lines])):
        with gzip.open(folder / f"{name}.{side}.gz", "wt", encoding="utf-8") as file:
            file.write("\n".join(text) + "\n")
    return CorpusConfig(name=name, source=str(folder / f"{name}.source.gz"), target=str(folder / f"{name}.target.gz"))


def config(*corpora: CorpusConfig, held_out: tuple[CorpusConfig, ...] = (), keep_text: bool = False) -> PrepareConfig:
    vocabulary = VocabConfig(size=420)
    return PrepareConfig(
        corpora=corpora,
        held_out=held_out,
        vocabulary=vocabulary,
        keep_text=keep_text,
        lines_per_chunk=170,
        pairs_per_shard=300,
    )


def open_shard(prepared: Prepared, corpus: int, shard: int) -> Shard:
    return Shard(prepared.folder / prepared.manifest.corpora[corpus].shards[shard].file)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_every_pair_ends_in_a_shard_once_with_its_own_line(tmp_path: Path) -> None:
    lines = sentences(1000, seed=1)
    prepared = prepare(config(write(tmp_path, "train", lines), keep_text=True), tmp_path / "out")
    vocab = Vocab.load(tmp_path / "out")
    (corpus,) = prepared.manifest.corpora
    assert [shard.num_pairs for shard in corpus.shards] != [0, 0, 0]
    assert len(corpus.shards) == 3
    seen = {}
    for number, info in enumerate(corpus.shards):
        shard = open_shard(prepared, 0, number)
        for row in range(info.num_pairs):
            rows = shard.rows(np.array([row]))
            assert rows.source.ids[-1] == EOS
            seen[int(shard.lines(np.array([row]))[0])] = (
                vocab.source.decode(rows.source.ids),
                vocab.target.decode(rows.target.ids),
            )
    assert seen == {i: (line, line.upper()) for i, line in enumerate(lines)}


def test_a_tag_stands_before_each_source_of_its_corpus_and_of_no_other(tmp_path: Path) -> None:
    made, found = write(tmp_path, "made", sentences(200, seed=3)), write(tmp_path, "found", sentences(200, seed=4))
    held_out = write(tmp_path, "dev", sentences(200, seed=3)[:10])
    tagged = made.model_copy(update={"tag": "<bt>"})
    prepared = prepare(config(tagged, found, held_out=(held_out,)), tmp_path / "out")
    vocab = Vocab.load(tmp_path / "out")
    for number, before in enumerate(("<bt> ", "")):
        shard = open_shard(prepared, number, 0)
        rows = shard.rows(np.arange(5))
        lines = sentences(200, seed=3 + number)
        for line, source, target in zip(shard.lines(np.arange(5)), rows.source.rows(), rows.target.rows(), strict=True):
            assert vocab.source.decode(np.array(source)) == before + lines[line]
            assert vocab.target.decode(np.array(target)) == lines[line].upper()
    assert prepared.manifest.corpora[0].num_pairs == 190  # what is held out is known without the tag


def test_duplicates_stay_once_wherever_they_stand_and_are_reported(tmp_path: Path) -> None:
    lines = sentences(600, seed=2)
    repeated = [*lines, lines[5], lines[599], lines[5]]
    prepared = prepare(config(write(tmp_path, "train", repeated)), tmp_path / "out")
    report = load_reports(tmp_path / "out")["train"]
    assert prepared.manifest.counts == {"read": 603, "stayed": 600}
    assert report.count(Problem.DUPLICATE) == 3
    assert report.dropped == 3
    assert [example.line for example in report.examples[Problem.DUPLICATE]] == [601, 602, 603]
    assert report.examples[Problem.DUPLICATE][0].source == lines[5]
    shards = [open_shard(prepared, 0, number) for number in range(2)]
    kept = sorted(line for shard in shards for line in shard.lines(np.arange(shard.num_pairs)).tolist())
    assert kept == list(range(600))


def test_held_out_pairs_do_not_stay(tmp_path: Path) -> None:
    lines = sentences(400, seed=3)
    held_out = write(tmp_path, "dev", [lines[17], "something else altogether here", lines[311]])
    prepared = prepare(config(write(tmp_path, "train", lines), held_out=(held_out,)), tmp_path / "out")
    report = load_reports(tmp_path / "out")["train"]
    assert prepared.manifest.counts["stayed"] == 398
    assert [(example.line, example.note.rpartition("/")[2]) for example in report.examples[Problem.LEAK]] == [
        (18, "dev.source.gz, line 1"),
        (312, "dev.source.gz, line 3"),
    ]


@pytest.mark.slow
def test_the_bytes_do_not_depend_on_the_number_of_workers(tmp_path: Path) -> None:
    setup = config(write(tmp_path, "train", sentences(700, seed=4)), write(tmp_path, "more", sentences(200, seed=5)))
    prepare(setup, tmp_path / "one", num_workers=1)
    prepare(setup, tmp_path / "two", num_workers=2)
    assert content(tmp_path / "one") == content(tmp_path / "two")


def test_a_finished_folder_is_left_alone(tmp_path: Path) -> None:
    setup = config(write(tmp_path, "train", sentences(300, seed=6)))
    prepare(setup, tmp_path / "out")
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir() if path.name != ".lock"}
    phases: list[str] = []
    prepare(setup, tmp_path / "out", progress=lambda what, done, total=None, unit="": phases.append(what))
    assert {phase.split()[0] for phase in phases} == {"verify"}
    assert before == {
        path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir() if path.name != ".lock"
    }


def test_copied_inputs_are_known_by_their_content_and_changed_ones_refused(tmp_path: Path) -> None:
    corpus = write(tmp_path, "train", sentences(300, seed=6))
    prepare(config(corpus), tmp_path / "out")
    source = Path(corpus.source)
    os.utime(source, (1, 1))
    prepare(config(corpus), tmp_path / "out")
    damaged = bytearray(source.read_bytes())
    damaged[4] ^= 1  # the time in the gzip header: the same size and text, but not the same file
    source.write_bytes(damaged)
    with pytest.raises(ValueError, match="prepared from other files"):
        prepare(config(corpus), tmp_path / "out")


def test_a_damaged_folder_is_repaired_to_the_same_bytes(tmp_path: Path) -> None:
    setup = config(write(tmp_path, "train", sentences(800, seed=7)))
    prepare(setup, tmp_path / "out")
    before = content(tmp_path / "out")
    shard = tmp_path / "out" / "train-00001.arrow"
    damaged = bytearray(shard.read_bytes())
    damaged[len(damaged) // 2] ^= 4
    shard.write_bytes(damaged)
    prepare(setup, tmp_path / "out")
    assert content(tmp_path / "out") == before


def test_a_folder_prepared_otherwise_is_refused_and_not_touched(tmp_path: Path) -> None:
    corpus = write(tmp_path, "train", sentences(300, seed=8))
    prepare(config(corpus), tmp_path / "out")
    before = content(tmp_path / "out")
    with pytest.raises(ValueError, match="other settings: give another --out"):
        prepare(config(corpus, keep_text=True), tmp_path / "out")
    assert content(tmp_path / "out") == before


def test_compressed_text_gives_the_same_shards_as_plain_text(tmp_path: Path) -> None:
    """Plain text is read by byte ranges, compressed text from beginning to end."""
    packed = write(tmp_path, "train", sentences(500, seed=14))
    files = {side: Path(getattr(packed, side)) for side in ("source", "target")}
    for file in files.values():
        file.with_suffix("").write_bytes(gzip.decompress(file.read_bytes()))
    plain = packed.model_copy(update={side: str(file.with_suffix("")) for side, file in files.items()})
    shards = []
    for folder, corpus in (("a", plain), ("b", packed)):
        prepare(config(corpus), tmp_path / folder, num_workers=1)
        shards.append({name: data for name, data in content(tmp_path / folder).items() if "manifest" not in name})
    assert shards[0] == shards[1]
    assert len(shards[0]) > 3


def test_what_another_unfinished_run_left_is_thrown_away(tmp_path: Path) -> None:
    corpus = write(tmp_path, "train", sentences(300, seed=9))
    work = tmp_path / "out" / WORK / "train"
    work.mkdir(parents=True)
    (work / "000000.raw.arrow").write_bytes(b"of another run")
    (tmp_path / "out" / ".train-00000.arrow.0123.incomplete").write_bytes(b"half a file")
    prepare(config(corpus), tmp_path / "out")
    prepare(config(corpus), tmp_path / "fresh")
    assert content(tmp_path / "out") == content(tmp_path / "fresh")


def test_files_lost_before_the_workshop_was_cleared_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = config(write(tmp_path, "train", sentences(500, seed=12)))
    prepare(setup, tmp_path / "straight")
    with monkeypatch.context() as patch:
        patch.setattr("dragoman.data.prepare.shutil.rmtree", lambda _: None)
        prepare(setup, tmp_path / "out")
    (tmp_path / "out" / "vocab.model").unlink()
    (tmp_path / "out" / "train-00001.arrow").unlink()
    prepare(setup, tmp_path / "out")
    assert content(tmp_path / "out") == content(tmp_path / "straight")


def test_a_corpus_of_which_nothing_is_left_is_an_error(tmp_path: Path) -> None:
    lines = sentences(50, seed=10)
    train = write(tmp_path, "train", lines)
    with pytest.raises(ValueError, match="no pair is left after cleaning"):
        prepare(config(train, held_out=(write(tmp_path, "dev", lines),)), tmp_path / "out")


def test_the_manifest_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("killed")

    setup = config(write(tmp_path, "train", sentences(300, seed=11)))
    with monkeypatch.context() as patch:
        patch.setattr(Manifest, "save", fail)
        with pytest.raises(RuntimeError, match="killed"):
            prepare(setup, tmp_path / "out")
    assert not (tmp_path / "out" / "manifest.json").exists()
    prepare(setup, tmp_path / "out")
    assert not (tmp_path / "out" / WORK).exists()


@pytest.mark.parametrize(("num_pairs", "size"), [(300, 410), (29_000, 8514), (170_000, 20615), (5_000_000, 37_000)])
def test_the_vocabulary_follows_the_number_of_pairs(num_pairs: int, size: int) -> None:
    assert suggested_size(num_pairs) == size


def test_keys_that_say_nothing_are_no_part_of_the_settings() -> None:
    """Folders that were prepared before there were such keys stay what they are."""
    plain = settings_of(PrepareConfig(corpora=(CorpusConfig(source="a", target="b"),)))["config"]
    assert "vocabulary_of" not in plain
    assert "tag" not in plain["corpora"][0]
    tagged = CorpusConfig(source="a", target="b", tag="<bt>")
    kept = settings_of(PrepareConfig(corpora=(tagged,), vocabulary_of="../prepared"))["config"]
    assert (kept["vocabulary_of"], kept["corpora"][0]["tag"]) == ("../prepared", "<bt>")


def test_languages_are_part_of_the_settings_only_where_they_change_the_shards() -> None:
    plain = CorpusConfig(source="a", target="b")
    named = CorpusConfig(source="a", target="b", source_language="en")
    dev = CorpusConfig(name="dev", source="c", target="d", target_language="fr")
    without = [settings_of(PrepareConfig(corpora=(corpus,), held_out=(dev,))) for corpus in (plain, named)]
    assert without[0] == without[1]
    assert "target_language" not in json.dumps(without[0])
    french = named.model_copy(update={"target_language": "fr"})
    assert settings_of(PrepareConfig(corpora=(french,)))["config"]["corpora"][0]["target_language"] == "fr"


def test_the_vocabulary_is_learned_from_corpora_as_often_as_an_epoch_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpora = [
        write(tmp_path, name, [f"{name} {line}" for line in sentences(800, seed)]) for seed, name in enumerate("abc")
    ]
    weights = {"a": 2.0, "b": 0.5, "c": 1.0}
    weighted = [corpus.model_copy(update={"weight": weights[corpus.name]}) for corpus in corpora]
    counts: list[Counter[str]] = []

    def count(source: Iterator[str], target: Iterator[str], *config: Any) -> Vocab:
        lines = list(source)
        counts.append(Counter(line[0] for line in lines))
        return train_vocab(lines, target, *config)

    monkeypatch.setattr("dragoman.data.prepare.train_vocab", count)
    prepare(config(*corpora), tmp_path / "even")
    prepare(config(*weighted), tmp_path / "uneven")
    assert counts[0] == {"a": 800, "b": 800, "c": 800}
    assert counts[1] == {"a": 800, "b": pytest.approx(200, abs=20), "c": pytest.approx(400, abs=20)}
