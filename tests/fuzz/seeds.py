"""What each target is begun with: things as they should be, and those that something once broke over."""

import json
from typing import Any, Final

from targets import GOLDEN, TARGETS

from dragoman.bundle.file_names import CARD, CONFIG, MANIFEST, WEIGHTS

DEEP: Final = b"[" * 5_000
"""Deeper than Python follows."""
HALF: Final = b'"\\ud800"'
"""Half a character: fine in JSON, and nowhere else."""


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


_TEXT: Final = {"q": "Where is the station?", "source": "en", "target": "de"}
_ASKED: Final = {
    "texts": ["Where is it?", "Here."],
    "model": "m",
    "beam_size": 2,
    "num_best": 2,
    "penalty": {"formula": "gnmt", "alpha": 0.6},
    "tokens": True,
}
_NONSENSE: Final = (b"", b"{}", b"null", b"[1]", b"1e999", b"1" * 5000, b"NaN", b"\xff\xfe", DEEP, HALF, b'{"a":')

_TRANSLATE: Final = (
    _json(_TEXT),
    _json(_TEXT | {"q": ["a", "b"], "source": "auto", "alternatives": 2, "format": "text", "api_key": "k"}),
    b'{"q": "\\ud800", "source": "en", "target": "de"}',
    b'{"q": "a", "source": "\\ud800", "target": "\\udfff"}',
    b'{"q": "a", "source": "en", "target": "de", "alternatives": ' + b"9" * 4000 + b"}",
    b'{"q": "a", "source": "en", "target": "de", "format": "\\ud800"}',
)
_FORM: Final = (
    b"q=Where+is+it%3F&source=en&target=de&alternatives=1",
    b"&".join([b"a=1"] * 101),  # more fields than are taken: /languages answered it with 500
    b"q=%ED%A0%80&source=%00&target=de",
    b"q=a&q=b&source=en&target=de&api_key=%FF",
    b"alternatives=1e400&q=a&source=auto&target=de",
    b"&&&===%%%",
)
_V1: Final = (
    _json(_ASKED),
    b'{"texts": "a", "prefix": "\\ud800"}',  # which no message between processes can hold
    b'{"texts": "a", "model": "\\ud800"}',
    b'{"texts": "a", "\\ud800": 1}',
    b'{"texts": "a", "penalty": {"alpha": NaN}}',
    b'{"texts": "a", "num_best": ' + b"9" * 4000 + b"}",
    b'{"texts": "a", "beam_size": 1e2}',
    b'{"texts": [], "source": "auto"}',
    b'{"texts": "a b. c", "prefix": "x", "alignment": true, "protect": true}',
    b'{"texts": ["' + b"a" * 30_000 + b'"]}',
)
_HEADS: Final = (
    b"v1/models\nauthorization: Bearer x",
    b"translate\ncontent-length: -1\ncontent-type: application/json",
    b"translate\ncontent-length: 99999999999999999999999999",
    b"v1/translate\ncontent-length: \xb2\ncontent-type: \xff",
    b"../../etc/passwd\nx-api-key: \xff\xff",
    b"v1/translate/\norigin: null",
)
_KEYS: Final = (
    b"- name: shop\n  sha256: " + b"0" * 64 + b"\n  requests_per_minute: 60\n",
    b"!!python/object/apply:os.system ['id']",
    b"- &a [*a]",
    b"- name: x\n  sha256: !!int ''\n",
    b"- name: x\n  sha256: !!timestamp x\n",
    b"- name: x\n  sha256: !!float ''\n",
    b"- name: x\n  sha256: !!bool maybe\n",
    b"- name: 0001-01-01T00:00:00+23:59\n",
    b"- {? [1]: 2}",
    b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]",
    b"- name: x\n  characters_per_day: .nan\n",
)
_LIMITS: Final = (
    b"characters=5000\nwait=0.25",
    b"wait=nan",
    b"seconds=inf",
    b"body_bytes=1e400",
    b"texts=\xff",
    b"=\n==",
    b"texts=" + b"9" * 5000,
    b"connections=1_0",
)
_RECIPES: Final = (
    b"name: x\ndata:\n  train:\n  - {name: a, source: a.en, target: a.de}\n",
    b"name: !!python/object/apply:os.system ['id']",
    b"a: &a {<<: *a}",
    b"<<: [1, {a: 2}]",
    b"? [a]\n: b",
    b"name: '\\ud800'",
    b'name: "\\ud800"',
    b"seed: 1e400\nname: 1e5",
    b"seed: 0x1F\ndata: []",
    b"{" * 2000,
    b"- " * 2000,
    b"\x00\x01",
    b"seed: " + b"9" * 5000,
    b"model: {family: x}\ntraining: {stop: {updates: -1}}",
    b"\t- a",
    b"--- a\n--- b",
    b"name: x\ndata: {train: [{name: a, source: a.en}], sample: {}}\nmodel: {preset: nothing}",
)
_ALIGNMENTS: Final = (b"0-0 1-2\n\n3-4", b"1-1 2p3", b"0-0 a", b"1-\xd9\xa1", b"999999999999-1", b"-1-1", b"1p0")
_MESSAGES: Final = (
    b'{"batch": 1, "a":\n',
    b'{"batch": 1}\n[]\n',
    b"{}",
    b"\n\n{}\n",
    DEEP + b"\n",
    b"\xff\xff\n",
)
_TEXTS: Final = (
    b"One. Two? Three!\n- a list\n| a | table |",
    "\u2028\u0085\x1c a.\u3002b\uff01 \u202e".encode(),
    b"Dr. A. B. etc.  Next one. " * 40,
    ("e" + "\u0301" * 300).encode(),
    b"a," * 3000,
    b"http://a.b/c?d={e}&f=%20 <b>x</b> {{y}} 1.2.3",
    b"(" * 2000 + b")" * 2000,
    b" \t " * 1000,
)
_PAIRS: Final = (
    b'<tmx version="1.4"><header srclang="en"/><body><tu><tuv xml:lang="en"><seg>a<ph>x</ph> <hi>b</hi></seg></tuv>'
    b'<tuv xml:lang="de"><seg>c</seg></tuv></tu></body></tmx>',
    b'<!DOCTYPE tmx [<!ENTITY a "b"><!ENTITY c "&a;&a;">]><tmx><tu><tuv lang="en"><seg>&c;</seg></tuv></tu></tmx>',
    b'<xliff version="1.2"><file source-language="en" target-language="de"><body><trans-unit id="1"><source>a</source>'
    b'<target state="final">b</target></trans-unit></body></file></xliff>',
    b'<xliff version="2.0" srcLang="en" trgLang="de"><file><unit><segment><source>a <pc id="1">b</pc></source>'
    b"<target>c</target></segment></unit></file></xliff>",
    b'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n#, fuzzy\nmsgid "a"\nmsgstr "b"\n\n'
    b'msgid "c"\nmsgid_plural "d"\nmsgstr[0] "e"\nmsgstr[1] "f"\n#~ msgid "g"\n#~ msgstr "h"\n',
    b'en;de\n"a ""b""\nc";d\n',
    b"sep=|\nsource|target\na|b\n",
    b"id\ten\tde\n1\ta\tb\n",
    b'{"source": "a", "target": "b"}\n',
)
_HEADERS: Final = (
    _json({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}),
    _json({"a": {"dtype": "F32", "shape": [1 << 62, 4], "data_offsets": [0, 8]}}),
    _json({"a": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}, "__metadata__": {"b": "c"}}),
    _json({"a": {"dtype": "X", "shape": [0], "data_offsets": [0, 0]}}),
    _json({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [8, 0]}}),
    (1 << 62).to_bytes(8, "little") + b"{}",
    (GOLDEN / "v1" / WEIGHTS).read_bytes()[:4000],
)


def _golden(file: str) -> bytes:
    return (GOLDEN / "v1" / file).read_bytes()


SEEDS: Final[dict[str, tuple[bytes, ...]]] = {
    "translate_json": _TRANSLATE + _NONSENSE,
    "translate_form": _FORM + _NONSENSE,
    "detect": (b'{"q": "Where is the station?"}', b'{"q": ""}', b'{"q": "\\ud800"}', b'{"q": "\\u0000"}', *_NONSENSE),
    "v1_translate": _V1 + _NONSENSE,
    "request_head": _HEADS + _NONSENSE,
    "keys_file": _KEYS + _NONSENSE,
    "limit_options": _LIMITS + _NONSENSE,
    "bundle_config": (_golden(CONFIG), *_NONSENSE),
    "bundle_card": (_golden(CARD), *_NONSENSE),
    "bundle_manifest": (
        _golden(MANIFEST),
        _json(json.loads(_golden(MANIFEST))["manifest"]),
        b'{"manifest": {"kind": "bundle", "format_version": 1, "files": [{"file": "\\ud800"}]}}',
        b'{"kind": "bundle", "format_version": 1, "files": [], "exports": [{}]}',
        *_NONSENSE,
    ),
    "safetensors_header": _HEADERS + _NONSENSE,
    "recipe": _RECIPES + _NONSENSE,
    "trace": ((GOLDEN / "schema-1.trace").read_bytes(), b'{"model": {}, "cut": false}', *_NONSENSE),
    "moses": _ALIGNMENTS + _NONSENSE,
    "engine_messages": _MESSAGES + _NONSENSE,
    "document": _TEXTS + _NONSENSE,
    "pair_file": _PAIRS + _NONSENSE,
}
assert SEEDS.keys() == TARGETS.keys()
