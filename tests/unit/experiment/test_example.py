import gzip
from pathlib import Path

import pytest

from dragoman.experiment.example import CORPORA, PARTS, write_dates, write_example
from dragoman.recipes.recipe import load_recipe
from dragoman.text.vocab import train_vocab


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def test_it_writes_three_parts_and_a_recipe_that_finds_them(tmp_path: Path) -> None:
    recipe = load_recipe(write_dates(tmp_path / "new" / "dates"))
    folder = tmp_path / "new" / "dates"
    assert recipe.data.dev is not None
    corpora = {"train": recipe.data.train[0], "dev": recipe.data.dev, "test": recipe.data.test[0]}
    for part, corpus in corpora.items():
        assert (corpus.source, corpus.target) == (str(folder / f"{part}.en"), str(folder / f"{part}.iso"))
        assert len(lines(folder / f"{part}.en")) == len(lines(folder / f"{part}.iso")) == PARTS[part]


@pytest.mark.slow
def test_no_day_is_in_two_parts(tmp_path: Path) -> None:
    write_dates(tmp_path)
    days = [day for part in PARTS for day in lines(tmp_path / f"{part}.iso")]
    assert len(days) == len(set(days)) == sum(PARTS.values())


@pytest.mark.slow
def test_the_vocabulary_cuts_dates_where_a_picture_of_attention_is_read(tmp_path: Path) -> None:
    recipe = load_recipe(write_dates(tmp_path))
    assert recipe.data.vocabulary is not None
    sides = [lines(tmp_path / f"train.{language}") for language in ("en", "iso")]
    subwords = train_vocab(*sides, recipe.data.vocabulary).source

    def pieces(text: str) -> list[str]:
        return [subwords.piece(int(token)) for token in subwords.encode([text]).ids]

    assert pieces("the 21st of March 1987") == ["▁the", "▁21", "st", "▁of", "▁March", "▁1987", "</s>"]
    assert pieces("1987-03-24") == ["▁1987", "-", "0", "3", "-", "2", "4", "</s>"]
    years = {pieces(f"{year}-03-24")[0] for year in range(1900, 2050)}
    assert years == {f"▁{year}" for year in range(1900, 2050)}


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text("mine", encoding="utf-8")
    with pytest.raises(ValueError, match="give a new folder"):
        write_dates(tmp_path)
    with pytest.raises(ValueError, match="give a new folder"):
        write_dates(tmp_path / "recipe.yaml")
    assert [path.name for path in tmp_path.iterdir()] == ["recipe.yaml"]


def test_pronunciations_of_the_test_words_are_references_of_which_the_nearest_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.experiment.example.NUM_WORDS", {"dev": 1, "test": 2})
    words = {"a": ["AH", "EY"], "data": ["D EY T AH", "D AE T AH"], "cat": ["K AE T"], "exit": ["EH G Z IH T"]}
    entries = [f"{word} {sound}" for word, sounds in words.items() for sound in sounds]
    (tmp_path / "cmudict.dict").write_text("\n".join(entries), encoding="utf-8")
    folder = tmp_path / "g2p"
    recipe = load_recipe(write_example("g2p", folder, tmp_path / "cmudict.dict"))
    spelt = {part: [letters.replace(" ", "") for letters in lines(folder / f"{part}.letters")] for part in PARTS}
    assert sorted(word for part in PARTS for word in dict.fromkeys(spelt[part])) == sorted(words)
    assert len(spelt["test"]) == 2
    assert recipe.data.test[0].target == str(folder / "test.phonemes")
    assert lines(folder / "test.phonemes") == [words[word][0] for word in spelt["test"]]
    assert lines(folder / "test.2.phonemes") == [words[word][-1] for word in spelt["test"]]
    assert lines(folder / "dev.phonemes") == [words[spelt["dev"][0]][0]]
    assert lines(folder / "train.phonemes") == words[spelt["train"][0]]


@pytest.mark.parametrize(("name", "split"), [("scan", "simple"), ("scan-length", "length")])
def test_scan_has_its_own_test_set_and_dev_pairs_that_are_not_trained_on(name: str, split: str, tmp_path: Path) -> None:
    for part, number in (("train", 81), ("test", 3)):
        rows = [f"IN: {part} {i} OUT: I_WALK" for i in range(number)]
        with gzip.open(tmp_path / f"tasks_{part}_{split}.txt.gz", "wt", encoding="utf-8") as file:
            file.write("\n".join(rows))
    folder = tmp_path / name
    assert load_recipe(write_example(name, folder, tmp_path)).name == name
    assert lines(folder / "dev.commands") == ["train 0", "train 40", "train 80"]
    assert lines(folder / "test.commands") == ["test 0", "test 1", "test 2"]
    assert sorted(lines(folder / "train.commands") + lines(folder / "dev.commands")) == sorted(
        f"train {i}" for i in range(81)
    )
    assert lines(folder / "train.actions") == ["I_WALK"] * 78


def test_trees_are_pairs_of_words_and_symbols(tmp_path: Path) -> None:
    for part in PARTS:
        with gzip.open(tmp_path / f"{part}.ptb.gz", "wt", encoding="utf-8") as file:
            file.write(f"(ROOT (S (NP-SBJ (NN {part})) (VP (VBZ works)) (. .)))\n")
    folder = tmp_path / "trees"
    recipe = load_recipe(write_example("parsing", folder, tmp_path))
    assert recipe.data.test[0].target == str(folder / "test.trees")
    for part in PARTS:
        assert lines(folder / f"{part}.words") == [f"{part} works ."]
        assert lines(folder / f"{part}.trees") == ["(S (NP XX )NP (VP XX )VP . )S"]


def test_an_example_from_a_corpus_says_which_one_it_needs(tmp_path: Path) -> None:
    for name, corpus in CORPORA.items():
        with pytest.raises(ValueError, match=r"--corpus PATH, .*") as caught:
            write_example(name, tmp_path / name)
        assert str(caught.value).endswith(corpus)
    with pytest.raises(ValueError, match="leave out --corpus"):
        write_example("dates", tmp_path / "dates", tmp_path)
    with pytest.raises(ValueError, match=r"tasks_train_simple\.txt"):
        write_example("scan", tmp_path / "scan", tmp_path)
    assert list(tmp_path.iterdir()) == []
