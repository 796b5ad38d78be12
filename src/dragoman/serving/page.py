"""The page at `/`: one form to try a translation by hand. Its three files are all it loads."""

from importlib.resources import files
from typing import Final

from fastapi import APIRouter
from fastapi.responses import Response

KINDS: Final = {"page.html": "text/html", "page.css": "text/css", "page.js": "text/javascript"}


def router() -> APIRouter:
    """The page and what it is made of."""
    made = APIRouter(include_in_schema=False)
    here = files("dragoman.serving")
    content = {name: (here / name).read_bytes() for name in KINDS}

    def send(name: str) -> Response:
        return Response(content[name], media_type=f"{KINDS[name]}; charset=utf-8")

    @made.get("/")
    async def page() -> Response:
        return send("page.html")

    @made.get("/page.css")
    async def style() -> Response:
        return send("page.css")

    @made.get("/page.js")
    async def script() -> Response:
        return send("page.js")

    return made
