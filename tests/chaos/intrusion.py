"""Try every way in: no key, wrong keys, other people's pages, other names of the machine, paths that lead elsewhere.

    python tests/chaos/intrusion.py

Every route, documented or not, is requested without a key and with wrong ones in every place a key can stand; open are
the three of /health and the page at / with its style and script. Thirty paths that climb out of a folder come as names
of models, as languages and as paths. Pages from elsewhere must read nothing, a service without keys must answer under
this machine's own names alone, every answer must carry the security headers, and the page must need no inline script.
The log must hold neither keys nor texts. Prints one JSON line. --open is the inverse: any key is taken for the right
one, and any name for ours.
"""

import argparse
import contextlib
import hmac
import http.client
import json
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from unittest import mock
from urllib.parse import quote, urlencode

from service_process import ServiceProcess, StartError, start_service

from dragoman.bundle import demo_folder
from dragoman.serving.app import create_app
from dragoman.serving.config import ServiceConfig
from dragoman.serving.errors import UnknownKeyError
from dragoman.serving.keys import ApiKey, KeyRing, generate_key
from dragoman.serving.middleware import SECURITY_HEADERS
from dragoman.serving.run import JsonLog
from dragoman.serving.service import Service

EXCEPTIONS: Final = {
    *("/health", "/health/live", "/health/ready", "/", "/page.css", "/page.js"),
    *("/languages", "/frontend/settings"),
}
"""Open by intention: load balancers have no key, the page asks for one, and LibreTranslate has these open too."""
UNFIT: Final = {
    *("/suggest", "/translate_file", "/download_file/{name}", "/v2/glossaries", "/v3/glossaries"),
    *("/v3/glossaries/{glossary_id}/dictionaries", "/v3/glossaries/{glossary_id}/entries"),
}
"""Routes that get no fitting request here: they may say so before they look at a key in the body, but not answer."""
DENIED: Final = defaultdict(lambda: (401, 403), {"/suggest": (401,)})
"""What a right key must not get; there are no suggestions, which LibreTranslate says with 403."""
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
SECRET: Final = "the canary in the file beside the model"
TEXT: Final = "A sentence that no log may hold."
BODIES: Final[dict[str, dict[str, Any]]] = {
    "/v1/translate": {"texts": TEXT, "model": "demo"},
    "/translate": {"q": TEXT, "source": "en", "target": "de"},
    "/detect": {"q": TEXT},
    "/v2/translate": {"text": [TEXT], "target_lang": "DE"},
}
TRAVERSALS: Final = (
    *("../secret", "../../secret", "..", ".", "./", "/", "//", "/etc/passwd", "../../../../../../etc/passwd"),
    *("..\\secret", "..\\..\\windows\\win.ini", "C:\\secret", "\\\\host\\share", "file:///etc/passwd", "~/secret"),
    *("~root", "demo/../../secret", "demo/..", "demo/manifest.json", "demo\0", "demo\0/../secret", "%2e%2e%2fsecret"),
    *("..%2fsecret", "%252e%252e%252fsecret", "..%c0%afsecret", "....//secret", "..;/secret", ".../secret"),
    *("\u2025/secret", "\uff0e\uff0e/secret", "/proc/self/environ", "/proc/self/cwd/secret", "secret%00.json"),
)
FOREIGN: Final = ("https://evil.example", "null", "http://localhost.evil.example", "https://good.example.evil.example")
NAMES: Final = (
    *("evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "0.0.0.0", "169.254.169.254", "", "[::2]"),
    *("evil.example:80", "localhost@evil.example", "127.1", "2130706433", "[::ffff:127.0.0.1]", "localhost\tevil"),
)
OPEN: Final = """
import dragoman.serving.middleware as middleware
import dragoman.serving.keys as keys
middleware._host_name = lambda header: "localhost"
keys.hmac = type("hmac", (), {"compare_digest": staticmethod(lambda one, other: True)})
"""


Answer = tuple[int, dict[str, str], str]
"""Status, head and body."""


def ask(service: ServiceProcess, method: str, path: str, body: Any = None, **headers: str) -> Answer:
    """With the head as given, the host included."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    content = None if body is None else json.dumps(body).encode()
    if content is not None:
        given = {"Content-Type": "application/json", "Content-Length": str(len(content))} | given
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", service.port, timeout=120)) as connection:
        connection.putrequest(method, path, skip_host="Host" in given)
        for name, value in given.items():
            connection.putheader(name, value)
        connection.endheaders(content)
        answer = connection.getresponse()
        found = answer.read().decode(errors="replace")
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, found


def routes() -> list[tuple[str, str]]:
    """Every method and path that the application knows, whether documented or not."""
    app: Any = create_app(Service.create(ServiceConfig({}), JsonLog()))
    return sorted((method, route.path) for route in _flat(app._app.routes) for method in route.methods)


def allowed(path: str) -> set[int]:
    """The statuses without a right key: DeepL's clients know 403, and 429 comes after many wrong keys."""
    if path in EXCEPTIONS:
        return {200}
    refused = {403 if path.startswith(("/v2/", "/v3/")) else 401, 429}
    return refused | {400, 403, 404, 422} if path in UNFIT else refused


def _flat(found: Any) -> Iterator[Any]:
    for route in found:
        inner = getattr(route, "original_router", None)
        yield from _flat(inner.routes) if inner is not None else (route,)


def wrong_keys(key: str) -> Iterator[tuple[str, dict[str, str], dict[str, str]]]:
    """A name for each, what goes into the head, and what into the body or the address."""
    yield "none", {}, {}
    wrong = (
        generate_key()[0],
        key[:-1],
        key + "x",
        key.swapcase(),
        "",
        " ",
        "x" * 10_000,
        "\xff\xfe",
        "null",
        "Bearer",
    )
    for number, bad in enumerate(wrong):
        yield f"bearer {number}", {"Authorization": f"Bearer {bad}"}, {}
        yield f"basic {number}", {"Authorization": f"Basic {bad}"}, {}
        yield f"x-api-key {number}", {"X_API_Key": bad}, {}
        yield f"api_key {number}", {}, {"api_key": bad}
    yield "the key as another scheme", {"Authorization": f"Basic {key}"}, {}
    yield "the key in a cookie", {"Cookie": f"api_key={key}"}, {}


def try_keys(service: ServiceProcess, key: str) -> dict[str, Any]:
    """All routes with all wrong keys, then with the right one."""
    document = json.loads(ask(service, "GET", "/openapi.json", Authorization=f"Bearer {key}")[2])
    documented = {(method.upper(), path) for path, some in document["paths"].items() for method in some}
    known, bare = routes(), 0
    tried, let_in = 0, [f"{method} {path} is not known" for method, path in documented - set(known)]
    for method, path in known:
        for name, head, more in wrong_keys(key) if path not in EXCEPTIONS else [("none", {}, {})]:
            status, headers, _ = keyed(service, method, path, head, more)
            tried, bare = tried + 1, bare + (not set(SECURITY_HEADERS) <= set(headers))
            if status not in allowed(path):
                let_in.append(f"{method} {path} with {name}: {status}")
        for other in METHODS:
            status = keyed(service, other, path, {}, {})[0]
            if (other, path) not in known and status not in {*allowed(path), 405} - {200}:
                let_in.append(f"{other} {path}: {status}")
    right = {"Authorization": f"Bearer {key}"}
    right_answers = {(method, path): keyed(service, method, path, right, {})[0] for method, path in known}
    denied = [f"{method} {path}" for (method, path), status in right_answers.items() if status in DENIED[path]]
    counts = {"routes": len(known), "tried": tried, "let_in": let_in}
    return counts | {"denied_with_the_key": denied, "without_security_headers": bare}


def keyed(service: ServiceProcess, method: str, path: str, head: dict[str, str], more: dict[str, str]) -> Answer:
    """Asks with a key in the head, or else in the body, or where there is none in the address."""
    if path not in BODIES or path in ("/v1/translate", "/v2/translate"):  # which take no `api_key` in their bodies
        return ask(service, method, f"{path}?{urlencode(more)}" if more else path, BODIES.get(path), **head)
    return ask(service, method, path, BODIES[path] | more, **head)


def try_paths(service: ServiceProcess, key: str) -> dict[str, Any]:
    """Whatever climbs out: as a model's name, as a language, as a path."""
    hits, head = [], {"Authorization": f"Bearer {key}"}
    for path in TRAVERSALS:
        raw = quote(path, safe="/%\\:;~@")
        places = ["/" + raw, "/page.css/" + raw, "/v1/models/" + raw, "/v1/translate/../" + raw]
        answers = [
            ask(service, "POST", "/v1/translate", {"texts": TEXT, "model": path}, **head),
            ask(service, "POST", "/translate", {"q": TEXT, "source": path, "target": path}, **head),
            *(ask(service, "GET", one, **head) for one in places),
        ]
        for status, _, content in answers:
            if SECRET in content or "root:" in content or status not in (307, 400, 404):
                hits.append(f"{path!a}: {status}")
    return {"traversals": len(TRAVERSALS), "hits": hits}


def try_origins(service: ServiceProcess, key: str) -> dict[str, Any]:
    """Pages from elsewhere read nothing; the one that was named does, and never with credentials."""
    head, leaks = {"Authorization": f"Bearer {key}"}, []
    before = {"Access_Control_Request_Method": "POST", "Access_Control_Request_Headers": "authorization"}
    for origin in FOREIGN:
        preflight = ask(service, "OPTIONS", "/translate", Origin=origin, **before)
        posted = ask(service, "POST", "/translate", BODIES["/translate"], Origin=origin, **head)
        leaks += [origin for _, headers, _ in (preflight, posted) if "access-control-allow-origin" in headers]
    named = ask(service, "POST", "/translate", BODIES["/translate"], Origin="https://good.example", **head)[1]
    good = named.get("access-control-allow-origin") == "https://good.example"
    return {
        "cors_leaks": leaks,
        "cors_named_origin": int(good),
        "cors_credentials": int("access-control-allow-credentials" in named),
    }


def try_names(service: ServiceProcess) -> dict[str, Any]:
    """A name of somebody else's that leads here: how a page gets around the rule of one origin."""
    let_in = []
    paths = sorted({path for _, path in routes()})
    for name in NAMES:
        for path in paths if name == "evil.example" else ("/", "/v1/models"):
            status = ask(service, "GET", path, Host=name)[0]
            if status not in (400, 421):
                let_in.append(f"{name} {path}: {status}")
    own = [ask(service, "GET", "/v1/models", Host=name)[0] for name in ("localhost", "127.0.0.1:80", "[::1]:5000")]
    return {"names": len(NAMES), "names_let_in": let_in, "own_names_denied": sum(status != 200 for status in own)}


def try_page(service: ServiceProcess) -> dict[str, Any]:
    """Return the policy for the browser, and what in the page would break it."""
    _, headers, page = ask(service, "GET", "/")
    policy = headers["content-security-policy"]
    script = ask(service, "GET", "/page.js")[2]
    answer = ask(service, "POST", "/translate", BODIES["/translate"] | {"q": "<script>x</script>"})
    wrong = [word for word in ("unsafe-inline", "unsafe-eval", "*", "http:", "https:") if word in policy]
    wrong += re.findall(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon\w+=|javascript:|https?://", page)
    wrong += re.findall(r"\.innerHTML|\.outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", script)
    wrong += [] if "default-src 'none'" in policy and "frame-ancestors 'none'" in policy else ["no default"]
    wrong += [] if answer[1]["content-type"] == "application/json" else ["a translation that is no JSON"]
    return {"page_faults": wrong}


def listens_on(port: int) -> set[str]:
    """The addresses, as Linux writes them."""
    found = set()
    for file in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            rows = [line.split() for line in Path(file).read_text().splitlines()[1:]]
            found |= {row[1].partition(":")[0] for row in rows if row[3] == "0A" and int(row[1][-4:], 16) == port}
    return found


def refused(*arguments: str) -> bool:
    """Whether it does not even start, and says why in a line."""
    try:
        with start_service("demo", "--engines", "1", *arguments):
            return False
    except StartError as error:
        return "Traceback" not in str(error) and bool(str(error).strip())


def comparisons() -> dict[str, int]:
    """How many hashes are compared for the first key, the last one, and none: it must be all of them each time."""
    made = [generate_key() for _ in range(20)]
    keys = KeyRing([ApiKey(name=f"k{n}", sha256=sha256) for n, (_, sha256) in enumerate(made)])
    found = {}
    for name, key in {"first": made[0][0], "last": made[-1][0], "none": generate_key()[0]}.items():
        with mock.patch("dragoman.serving.keys.hmac.compare_digest", wraps=hmac.compare_digest) as compare:
            with contextlib.suppress(UnknownKeyError):
                keys.find(key)
            found[name] = compare.call_count
    return found


def with_keys(place: Path, broken: str) -> dict[str, Any]:
    """A service that asks for keys, and one page that may ask it."""
    shutil.copytree(demo_folder(), place / "demo")
    (place / "secret").write_text(SECRET)
    file = place / "keys.yaml"
    command = [sys.executable, "-m", "dragoman", "key", "tester", "--keys", str(file), "--metrics"]
    key = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    arguments = [str(place / "demo"), "--engines", "1", "--keys", str(file), "--allow-origin", "https://good.example"]
    with start_service(*arguments, broken=broken) as service:
        values = try_keys(service, key) | try_paths(service, key) | try_origins(service, key)
    log = "\n".join(service.lines)
    values["words_in_the_log"] = [word for word in (key, TEXT, SECRET) if word in log]
    values["keys_read_by_others"] = int(stat.S_IMODE(file.stat().st_mode) != 0o600)
    return values


def without_keys(place: Path, broken: str) -> dict[str, Any]:
    """A service on this machine alone, and what must not even start."""
    with start_service("demo", "--engines", "1", broken=broken) as service:
        values = try_names(service) | try_page(service)
        elsewhere = listens_on(service.port) - {"0100007F"}
    (place / "empty.yaml").write_text("[]")
    mistakes = (
        ("--host", "0.0.0.0"),
        ("--host", "::"),
        ("--host", ""),
        ("--allow-origin", "*"),
        ("--keys", str(place / "nowhere.yaml")),
        ("--keys", str(place / "empty.yaml")),
    )
    started = [" ".join(one) for one in mistakes if not refused(*one)]
    return values | {"listens_elsewhere": sorted(elsewhere), "started_all_the_same": started}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--open", action="store_true", help="without the protection: this must fail")
    broken = OPEN if parser.parse_args().open else ""
    with tempfile.TemporaryDirectory() as place:
        values = with_keys(Path(place), broken) | without_keys(Path(place), broken)
    values["comparisons"] = comparisons()
    print(json.dumps({"bench": "intrusion", "values": values}))
    faults = [name for name, value in values.items() if isinstance(value, list) and value]
    faults += [name for name in ("without_security_headers", "cors_credentials", "own_names_denied") if values[name]]
    faults += ["keys_read_by_others"] if values["keys_read_by_others"] else []
    alike = set(values["comparisons"].values()) == {20}
    raise SystemExit(bool(faults) or not alike or not values["cors_named_origin"])


if __name__ == "__main__":
    main()
