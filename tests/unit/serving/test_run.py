"""What would let people in who don't belong there is refused before anything is started."""

from pathlib import Path

import pytest

from dragoman.serving.keys import Key
from dragoman.serving.run import Setup, is_loopback, run

KEYS = (Key(name="a", sha256="0" * 64),)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_this_machine_alone_needs_no_keys(host: str) -> None:
    assert is_loopback(host)
    Setup({}, host=host).refuse_mistakes()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.7", "example.org", "localhost.example.org", "", "127.1"])
def test_whatever_others_can_reach_needs_them(host: str, tmp_path: Path) -> None:
    assert not is_loopback(host)
    with pytest.raises(ValueError, match="can be reached from other machines, so a key must be needed"):
        run(Setup({"a": tmp_path}, host=host, port=0), lambda *_: None)
    Setup({}, host=host, keys=KEYS).refuse_mistakes()


@pytest.mark.parametrize("origin", ["*", "https://*.example.org", "example.org", "null"])
def test_every_origin_must_be_named(origin: str) -> None:
    with pytest.raises(ValueError, match="name every origin, such as"):
        Setup({}, origins=("https://example.org", origin)).refuse_mistakes()
    Setup({}, origins=("https://example.org",)).refuse_mistakes()
