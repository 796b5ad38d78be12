import gzip
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dragoman.data.corpus import CorpusConfig, find_languages, read_chunks
from dragoman.data.corpus_formats import RawPairs
from dragoman.data.translation_memories import read_po, read_tmx, read_xliff
from dragoman.data.xml_elements import MAX_BYTES
from dragoman.io import streams

TMX = """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4">
  <header creationtool="x" creationtoolversion="1" segtype="sentence" o-tmf="x" adminlang="en" srclang="en-US"
          datatype="plaintext"/>
  <body>
    <tu tuid="1">
      <note>a note</note>
      <tuv xml:lang="de-DE"><seg>Ein <bpt i="1">&lt;b&gt;</bpt>Hund<ept i="1">&lt;/b&gt;</ept> &amp; eine
        <hi type="x">Katze</hi>.</seg></tuv>
      <tuv xml:lang="EN-us"><prop type="x">no</prop><seg>A <bpt i="1">&lt;b&gt;</bpt>dog<ept i="1"/> &#38;
        a <hi type="x">cat</hi>.</seg></tuv>
    </tu>
    <tu><tuv xml:lang="en-US"><seg>Only here.</seg></tuv></tu>
    <tu><tuv xml:lang="en-US"><seg>Two<ph type="lb"/>lines</seg></tuv>
        <tuv xml:lang="de-DE"><seg>Zwei<ph type="lb"/>Zeilen</seg></tuv></tu>
  </body>
</tmx>
"""
XLIFF_1 = """\
<?xml version="1.0"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
  <file original="a.html" source-language="en" target-language="de" datatype="html"><body>
    <group id="g">
      <trans-unit id="1"><source>Click <g id="1">here</g><x id="2"/>.</source>
        <target state="translated">Klicken Sie <g id="1">hier</g><x id="2"/>.</target>
        <alt-trans><source>no</source><target>nein</target></alt-trans></trans-unit>
    </group>
    <trans-unit id="2"><source>Not yet</source></trans-unit>
    <trans-unit id="3"><source>Empty</source><target/></trans-unit>
    <trans-unit id="4"><source>Copied</source><target state="needs-translation">Copied</target></trans-unit>
    <trans-unit id="5"><source>A <ph id="1">%s</ph>b<x id="3" ctype="lb"/>c</source>
      <target>Ein <ph id="1">%s</ph>b<x id="3" ctype="lb"/>c</target></trans-unit>
  </body></file>
</xliff>
"""
XLIFF_2 = """\
<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" xmlns:mtc="urn:oasis:names:tc:xliff:matches:2.0"
       version="2.0" srcLang="en-GB" trgLang="de">
  <file id="f"><unit id="1">
    <mtc:matches><mtc:match ref="#1"><source>no</source><target>nein</target></mtc:match></mtc:matches>
    <segment state="translated"><source>A <pc id="1">red</pc> house<ph id="2"/>.</source>
      <target>Ein <pc id="1">rotes</pc> Haus<ph id="2"/>.</target></segment>
    <ignorable><source> </source><target> </target></ignorable>
    <segment state="initial"><source>Not yet.</source><target>Not yet.</target></segment>
    <segment><source>Two.</source><target>Zwei.</target></segment>
  </unit></file>
</xliff>
"""
PO = """\
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Language: de\\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\\n"

#: a.c:1
msgid "Open a \\"file\\"\\n"
"now"
msgstr "Eine \\"Datei\\"\\n"
"öffnen\u2028"

msgctxt "menu"
msgid "Open"
msgstr ""

#, fuzzy, c-format
msgid "Close"
msgstr "Öffnen"

msgid "%d file"
msgid_plural "%d files"
msgstr[0] "%d Datei"
msgstr[1] "%d Dateien"

#~ msgid "Gone"
#~ msgstr "Weg"
"""
Reader = Callable[..., Iterator[RawPairs]]


def write(folder: Path, name: str, content: str | bytes) -> str:
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return str(folder / name)


def pairs(blocks: Iterator[RawPairs]) -> list[tuple[str, str]]:
    sides = [(block.source.to_pylist(), block.target.to_pylist()) for block in blocks]
    return [(left.decode(), right.decode()) for side in sides for left, right in zip(*side, strict=True)]


@pytest.mark.parametrize("block", [7, 64, 1 << 20])
def test_a_tmx_file_gives_the_units_with_both_languages_from_its_source_language(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(streams, "BLOCK", block)
    address = write(tmp_path, "a.tmx", TMX)
    expected = [("A dog & a cat.", "Ein Hund & eine Katze."), ("Two lines", "Zwei Zeilen")]
    assert pairs(read_tmx(address)) == expected
    assert pairs(read_tmx(address, "de", "en")) == [pair[::-1] for pair in expected]
    assert pairs(read_tmx(address, "target", "source")) == [pair[::-1] for pair in expected]


@pytest.mark.parametrize("encoding", ["utf-16", "iso-8859-1", "windows-1252"])
def test_a_tmx_file_in_another_encoding_is_read(tmp_path: Path, encoding: str) -> None:
    text = TMX.replace("UTF-8", encoding).replace("Katze", "Kätzin")
    assert pairs(read_tmx(write(tmp_path, "a.tmx", text.encode(encoding))))[0][1] == "Ein Hund & eine Kätzin."


def test_a_tmx_file_with_three_languages_needs_a_choice(tmp_path: Path) -> None:
    third = '<tu><tuv lang="fr"><seg>Un</seg></tuv><tuv lang="en-US"><seg>One</seg></tuv></tu>'
    address = write(tmp_path, "a.tmx", TMX.replace("</body>", f"{third}</body>"))
    with pytest.raises(ValueError, match=r"a\.tmx, line 17: .*en-us, de-de, fr.*--fields en-us,de-de"):
        pairs(read_tmx(address))
    assert pairs(read_tmx(address, "fr", "en")) == [("Un", "One")]
    assert len(pairs(read_tmx(address, "en", "de-DE"))) == 2
    with pytest.raises(ValueError, match=r"no unit has both en and es \(languages: en-us, de-de, fr\)"):
        pairs(read_tmx(address, "en", "es"))


def test_xliff_1_gives_translated_units_with_inline_codes_left_out(tmp_path: Path) -> None:
    address = write(tmp_path, "a.xlf", XLIFF_1)
    assert pairs(read_xliff(address)) == [("Click here.", "Klicken Sie hier."), ("A b c", "Ein b c")]
    assert pairs(read_xliff(address, "de", "en"))[0] == ("Klicken Sie hier.", "Click here.")


def test_xliff_2_gives_translated_segments(tmp_path: Path) -> None:
    expected = [("A red house.", "Ein rotes Haus."), ("Two.", "Zwei.")]
    assert pairs(read_xliff(write(tmp_path, "a.xlf", XLIFF_2))) == expected


def test_po_gives_translated_messages_and_both_plurals(tmp_path: Path) -> None:
    address = write(tmp_path, "a.po", PO)
    expected = [('Open a "file" now', 'Eine "Datei" öffnen\u2028'), ("%d file", "%d Datei"), ("%d files", "%d Dateien")]
    assert pairs(read_po(address)) == expected
    latin = PO.replace("UTF-8", "ISO-8859-1").replace("\u2028", "").encode("iso-8859-1")
    assert pairs(read_po(write(tmp_path, "b.po", latin)))[0] == ('Open a "file" now', 'Eine "Datei" öffnen')


@pytest.mark.parametrize(
    ("forms", "expected"),
    [(["Dosya %d"], [("%d files", "Dosya %d")]), (["a", "b", "c"], [("%d file", "a"), ("%d files", "c")])],
)
def test_po_plurals_of_languages_with_one_form_and_with_three(
    tmp_path: Path, forms: list[str], expected: list[tuple[str, str]]
) -> None:
    text = 'msgid "%d file"\nmsgid_plural "%d files"\n'
    text += "".join(f'msgstr[{i}] "{form}"\n' for i, form in enumerate(forms))
    assert pairs(read_po(write(tmp_path, "a.po", text))) == expected


FORMATS = {"a.tmx": TMX, "b.xlf": XLIFF_1, "c.xliff": XLIFF_2, "d.po": PO}


@pytest.mark.parametrize("name", FORMATS)
def test_a_corpus_is_read_by_its_suffix_also_compressed(tmp_path: Path, name: str) -> None:
    plain = write(tmp_path, name, FORMATS[name])
    packed = write(tmp_path, f"{name}.gz", gzip.compress(FORMATS[name].encode()))
    chunks = [list(read_chunks(CorpusConfig(source=path), 100)) for path in (plain, packed)]
    assert len(chunks[0]) == 1
    assert len(chunks[0][0]) >= 2
    assert [(c.source.to_pylist(), c.target.to_pylist()) for c in chunks[0]] == [
        (c.source.to_pylist(), c.target.to_pylist()) for c in chunks[1]
    ]


def test_languages_are_those_that_the_file_names(tmp_path: Path) -> None:
    def named(name: str, text: str, **fields: str) -> tuple[str, str] | None:
        return find_languages(CorpusConfig(source=write(tmp_path, name, text), **fields))

    assert named("a.tmx", TMX) == ("en", "de")
    assert named("a.tmx", TMX, source_field="de", target_field="en") == ("de", "en")
    assert named("b.tmx", TMX.replace("de-DE", "en-GB")) == ("en-us", "en-gb")
    assert named("b.xlf", XLIFF_1) == ("en", "de")
    assert named("c.xlf", XLIFF_2) == ("en", "de")
    assert named("d.xlf", XLIFF_1.replace(' target-language="de"', "")) is None
    assert named("e.po", PO) is None
    assert named("f.po", PO.replace("Language: de", 'X-Source-Language: en\\n"\n"Language: pt_BR')) == ("en", "pt")


UNIT = '<tu><tuv lang="en"><seg>&e;</seg></tuv></tu>'
LAUGHS = "".join(f'<!ENTITY {new} "{10 * f"&{old};"}">' for old, new in zip("abcdfghi", "bcdfghie", strict=True))
TOO_LARGE = "x" * (MAX_BYTES + (2 << 20))
BAD_XML = {
    "billion laughs": (f'<!DOCTYPE tmx [<!ENTITY a "ha">{LAUGHS}]><tmx>{UNIT}</tmx>', r", line 1: the file declares"),
    "external entity": (
        f'<!DOCTYPE tmx [\n<!ENTITY e SYSTEM "file:///etc/passwd">]><tmx>{UNIT}</tmx>',
        r", line 2: the file declares the entity 'e'",
    ),
    "parameter entity": (
        '<!DOCTYPE tmx [<!ENTITY % e SYSTEM "http://localhost/x"> %e;]><tmx/>', "declares the entity 'e'"
    ),
    "unknown entity": (TMX.replace("Only", "Only&nbsp;"), r", line 14: unknown entity &nbsp;"),
    "broken": (TMX.replace("</body>", ""), r", line 18: not valid XML \(mismatched tag\)"),
    "control character": (TMX.replace("Only", "Only&#31;"), r", line 14: not valid XML"),
    "not UTF-8": (TMX.encode().replace(b"Only", b"\xff"), r", line 14: not valid XML"),
    "cut off": (TMX[:700], r"not valid XML \(.*\): export the file again"),
    "empty": ("", r", line 1: not valid XML \(no element found\)"),
    "unknown encoding": (TMX.replace("UTF-8", "shift_jis"), r"convert the file to UTF-8"),
    "another format": (XLIFF_2, r", line 1: the file begins with <xliff>, not with <tmx>"),
    "no language": (TMX.replace('xml:lang="de-DE"', ""), r", line 7: a <tuv> of this unit has no xml:lang"),
    "one language": (TMX.replace("de-DE", "en-US"), r"a\.tmx: no unit has a translation"),
    "deep": ("<tmx>" + "<a>" * 1_000_000, r", line 1: more than 100 elements inside each other"),
    "huge comment": ("<tmx><!--" + TOO_LARGE, r"a tag or comment has more than"),
    "huge unit": ('<tmx>\n<tu><tuv lang="en"><seg>' + TOO_LARGE, r"more than 4 MiB begins in line 2"),
    "many variants": ("<tmx><tu>" + '<tuv lang="en"><seg/></tuv>' * 200_000, r"more than 4 MiB begins in line 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_XML)
def test_a_bad_or_hostile_file_is_refused_with_its_line(tmp_path: Path, name: str) -> None:
    content, message = BAD_XML[name]
    with pytest.raises(ValueError, match=message):
        pairs(read_tmx(write(tmp_path, "a.tmx", content)))


READ = """\
import sys, time
from dragoman.data.translation_memories import read_tmx
begin = time.process_time()
try:
    list(read_tmx(sys.argv[1]))
except ValueError:
    print(time.process_time() - begin)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", BAD_XML)
def test_a_bad_or_hostile_file_is_refused_quickly(tmp_path: Path, name: str) -> None:
    """In a process of its own, because the run-time type checks of the tests make the reader eight times slower."""
    address = write(tmp_path, "a.tmx", BAD_XML[name][0])
    done = subprocess.run(
        [sys.executable, "-c", READ, address], capture_output=True, text=True, check=True, timeout=300
    )
    assert float(done.stdout) < 10.0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            PO.replace('msgid "Close"', 'msgid "Clo"se"'),
            r"a\.po, line 18: not valid PO \(unescaped double quote found\)",
        ),
        (PO + "nonsense\n", r"a\.po, line 28: not valid PO"),
        (PO.encode("iso-8859-1", "replace"), r"a\.po: the text is not utf-8"),
        ("", r"a\.po: no unit has a translation"),
    ],
)
def test_a_bad_po_file_is_refused_with_its_line(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pairs(read_po(write(tmp_path, "a.po", content)))


def test_a_file_of_another_xml_format_is_not_xliff(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a\.xlf, line 3: the file begins with <tmx>, not with <xliff>"):
        pairs(read_xliff(write(tmp_path, "a.xlf", TMX)))


PEAK = """
import re, sys
from pathlib import Path
from dragoman.data.translation_memories import read_tmx
for path in sys.argv[1:]:
    pairs = sum(len(block.source) for block in read_tmx(path))
    print(pairs, int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory from /proc")
def test_a_large_tmx_file_is_read_in_constant_memory(tmp_path: Path) -> None:
    text, counts = "A long sentence about an old house. " * 30, (12_000, 40_000)
    for count in counts:
        with (tmp_path / f"{count}.tmx").open("w", encoding="utf-8") as file:
            file.write('<tmx version="1.4"><header srclang="en"/><body>')
            for i in range(count):
                sides = "".join(f'<tuv xml:lang="{code}"><seg>{i} {text}</seg></tuv>' for code in ("en", "de"))
                file.write(f"<tu>{sides}</tu>\n")
            file.write("</body></tmx>")
    command = [sys.executable, "-c", PEAK, *(str(tmp_path / f"{count}.tmx") for count in counts)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout.splitlines()
    (small, peak), (large, later_peak) = (map(int, line.split()) for line in lines)
    assert (small, large) == counts
    assert (tmp_path / "40000.tmx").stat().st_size > 80e6
    assert later_peak - peak < 30  # MiB: 60 MB more text need no more memory
