"""KeyRing: a file that holds only their hashes, and what each of them may use."""

import hashlib
import hmac
import stat
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dragoman.serving import keys as module
from dragoman.serving.errors import QuotaError, UnknownKeyError
from dragoman.serving.keys import ApiKey, KeyRing, KeyUsage, add_key, generate_key, read_keys


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def usage(clock: Clock, requests_per_minute: int | None = None, characters_per_day: int | None = None) -> KeyUsage:
    key = ApiKey(
        name="a",
        sha256="0" * 64,
        requests_per_minute=requests_per_minute,
        characters_per_day=characters_per_day,
    )
    return KeyUsage(key, clock)


def allowed(of: KeyUsage, characters: int = 0) -> bool:
    try:
        of.count(characters)
    except QuotaError:
        return False
    return True


def test_a_key_is_long_and_random_and_only_its_hash_is_written(tmp_path: Path) -> None:
    file = tmp_path / "keys.yaml"
    key = add_key("shop", file, 600, None)
    assert key.startswith("dgm_")
    assert len(key) > 40
    assert key != generate_key()[0]
    assert key not in file.read_text()
    assert yaml.safe_load(file.read_text()) == [
        {"name": "shop", "sha256": hashlib.sha256(key.encode()).hexdigest(), "requests_per_minute": 600}
    ]


def test_nobody_else_may_read_the_file(tmp_path: Path) -> None:
    file = tmp_path / "keys.yaml"
    for name in ("one", "two"):
        add_key(name, file, None, None)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


names = st.text(st.characters(categories=["Ll", "Lu", "Nd"], include_characters="_.-"), min_size=1, max_size=64)
limits = st.none() | st.integers(1, 10**9)


@pytest.mark.slow
@given(st.lists(st.tuples(names, limits, limits), min_size=1, max_size=4, unique_by=lambda one: one[0]))
def test_whatever_is_added_is_read_again_and_lets_its_owner_in(
    tmp_path_factory: pytest.TempPathFactory, given: list[tuple[str, int | None, int | None]]
) -> None:
    file = tmp_path_factory.mktemp("keys") / "keys.yaml"
    made = {name: add_key(name, file, requests, characters) for name, requests, characters in given}
    read = read_keys(file)
    assert [(key.name, key.requests_per_minute, key.characters_per_day) for key in read] == given
    known = KeyRing(read)
    for name, key in made.items():
        found = known.find(key)
        assert found is not None
        assert found.key.name == name


def test_a_name_is_given_once(tmp_path: Path) -> None:
    add_key("shop", tmp_path / "keys.yaml", None, None)
    before = (tmp_path / "keys.yaml").read_text()
    with pytest.raises(ValueError, match="shop"):
        add_key("shop", tmp_path / "keys.yaml", None, None)
    assert (tmp_path / "keys.yaml").read_text() == before


@pytest.mark.parametrize("name", ["", "two words", "a/b", "a\n", "x" * 65, "<b>"])
def test_a_name_that_could_spoil_the_log_is_refused_and_nothing_is_written(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="64 letters"):
        add_key(name, tmp_path / "keys.yaml", None, None)
    assert not (tmp_path / "keys.yaml").exists()


@pytest.mark.parametrize("content", ["", "[]", "# all taken back\n"])
def test_after_the_last_key_was_taken_back_there_can_be_another(content: str, tmp_path: Path) -> None:
    file = tmp_path / "keys.yaml"
    file.write_text(content)
    with pytest.raises(ValueError, match=r"keys\.yaml: no keys: .*dragoman key NAME --keys"):
        read_keys(file)
    add_key("new", file, None, None)
    assert [key.name for key in read_keys(file)] == ["new"]


HASH = "a" * 64
MISTAKES = {
    "no list": ("name: shop", "not a list of keys"),
    "a word": ("shop", "not a list of keys"),
    "no YAML": ("- {name: [", "keys.yaml: while parsing"),
    "a tag that would run something": ("- !!python/object/apply:os.system [ls]", "could not determine a constructor"),
    "a key that is no table": ("- shop", "keys.yaml, entry 1: Input should be a valid dictionary"),
    "no hash": ("- {name: shop}", "sha256: Field required"),
    "a key in the hash's place": ("- {name: shop, sha256: dgm_abc}", "sha256: String should match pattern"),
    "an unknown word": (f"- {{name: a, sha256: {HASH}, limit: 5}}", "limit: Extra inputs are not permitted"),
    "a limit of nothing": (f"- {{name: a, sha256: {HASH}, requests_per_minute: 0}}", "greater than or equal to 1"),
    "a name twice": (f"- {{name: a, sha256: {HASH}}}\n" * 2, "two keys are named a"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_the_file_is_named_in_one_line(name: str, tmp_path: Path) -> None:
    content, named = MISTAKES[name]
    file = tmp_path / "keys.yaml"
    file.write_text(content)
    with pytest.raises(ValueError, match=r"keys\.yaml") as error:
        read_keys(file)
    assert named in str(error.value)
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match=r"keys\.yaml"):  # and what is wrong is not written over
        add_key("another", file, None, None)
    assert file.read_text() == content


def test_a_file_that_is_not_there_or_not_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"keys\.yaml: .*dragoman key"):
        read_keys(tmp_path / "keys.yaml")
    (tmp_path / "keys.yaml").write_bytes(b"- name: \xff\n")
    with pytest.raises(ValueError, match=r"keys\.yaml: .*can't decode"):
        read_keys(tmp_path / "keys.yaml")


def several(number: int) -> tuple[list[str], KeyRing]:
    made = [generate_key() for _ in range(number)]
    return [key for key, _ in made], KeyRing([ApiKey(name=f"k{i}", sha256=sha) for i, (_, sha) in enumerate(made)])


def test_a_key_is_known_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    given, known = several(3)
    for place, key in enumerate(given):
        found = known.find(key)
        assert found is not None
        assert found.key.name == f"k{place}"
    for wrong in (given[0][:-1], given[0] + "x", given[0].upper(), "dgm_", "\ud800", hashlib.sha256(b"").hexdigest()):
        with pytest.raises(UnknownKeyError, match="unknown API key"):
            known.find(wrong)
    for nothing in (None, ""):
        with pytest.raises(UnknownKeyError, match="no API key"):
            known.find(nothing)


def test_every_hash_is_compared_in_constant_time_whichever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    given, known = several(5)
    compared: list[tuple[bytes, bytes]] = []

    def spied(one: bytes, two: bytes) -> bool:
        compared.append((one, two))
        return real(one, two)

    real = hmac.compare_digest
    monkeypatch.setattr(module.hmac, "compare_digest", spied)
    for key in given:
        known.find(key)
    with pytest.raises(UnknownKeyError):
        known.find("none of them")
    assert len(compared) == 6 * 5
    assert {len(one) for pair in compared for one in pair} == {64}


def test_without_keys_anybody_may_ask_and_an_empty_list_lets_nobody_in() -> None:
    assert KeyRing(None).find(None) is None
    assert KeyRing(None).find("anything") is None
    with pytest.raises(UnknownKeyError):
        KeyRing([]).find("anything")


def test_a_minutes_requests_may_come_at_once_and_then_one_after_the_other() -> None:
    clock = Clock()
    of = usage(clock, requests_per_minute=6)
    assert [allowed(of) for _ in range(7)] == [True] * 6 + [False]
    with pytest.raises(QuotaError) as refused:
        of.count(0)
    assert refused.value.retry_after == pytest.approx(10.0)
    clock.now += 9.9
    assert not allowed(of)
    clock.now += 0.2
    assert [allowed(of), allowed(of)] == [True, False]
    clock.now += 1e6
    assert [allowed(of) for _ in range(7)] == [True] * 6 + [False]


@given(st.integers(1, 100), st.lists(st.floats(0, 30), max_size=200))
def test_the_quota_is_never_exceeded_and_retry_after_suffices(most: int, pauses: list[float]) -> None:
    clock = Clock()
    of, number = usage(clock, requests_per_minute=most), 0
    for pause in pauses:
        clock.now += pause
        number += allowed(of)
        assert number <= most * (1 + (clock.now - 1000.0) / 60) + 1e-6
    while allowed(of):
        pass
    with pytest.raises(QuotaError) as refused:
        of.count(0)
    assert refused.value.retry_after is not None
    clock.now += refused.value.retry_after + 1e-6
    assert allowed(of)


def test_a_days_characters_are_counted_and_the_next_day_begins_anew() -> None:
    clock = Clock()
    of = usage(clock, characters_per_day=100)
    assert [allowed(of, 60), allowed(of, 41), allowed(of, 40), allowed(of, 1)] == [True, False, True, False]
    with pytest.raises(QuotaError, match="send up to 0 more today") as refused:
        of.count(1)
    assert refused.value.retry_after == 3600.0
    assert allowed(of, 0)
    clock.now = 86400.0  # midnight
    assert [allowed(of, 100), allowed(of, 1)] == [True, False]


def test_each_key_has_a_share_of_its_own_and_one_without_limits_has_none() -> None:
    clock = Clock()
    one, other = usage(clock, requests_per_minute=1), usage(clock, requests_per_minute=1)
    assert [allowed(one), allowed(one), allowed(other)] == [True, False, True]
    free = usage(clock)
    assert all(allowed(free, 10**9) for _ in range(1000))


def test_other_keys_replace_the_old_ones_and_keep_the_usage_of_their_names() -> None:
    clock = Clock()
    hashes = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("one", "two", "three")}
    ring = KeyRing([ApiKey(name="a", sha256=hashes["one"], characters_per_day=10)], clock)
    assert allowed(found(ring, "one"), 8)
    rotated = ApiKey(name="a", sha256=hashes["two"], characters_per_day=12)
    ring.replace([rotated, ApiKey(name="b", sha256=hashes["three"], characters_per_day=10)])
    with pytest.raises(UnknownKeyError):
        ring.find("one")
    assert not allowed(found(ring, "two"), 5)
    assert allowed(found(ring, "two"), 4)
    assert allowed(found(ring, "three"), 10)


def found(ring: KeyRing, key: str) -> KeyUsage:
    usage = ring.find(key)
    assert usage is not None
    return usage
