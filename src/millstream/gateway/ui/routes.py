"""The files of the dashboard: one page at `/ui/`, and what it loads below `/ui/{version}/`.

The version is a digest of all files and part of their addresses, so a browser can cache them for ever and
never mixes modules of two releases: after an update it requests the page, which names the new files.  The
views of the page have addresses behind `#`, which browsers do not send.

These files need no credentials, because they contain no data: everything that they show comes from `/v2`.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Final, NamedTuple

from millstream.gateway.core import Core
from millstream.gateway.errors import NotFound
from millstream.gateway.exchange import POLICY, Exchange
from millstream.gateway.routes import NOTHING_HERE, Route
from millstream.http.static import StaticFile, StaticFiles, answer, file_of

_STATIC: Final = Path(__file__).parent / "static"
_PLACE_OF_VERSION: Final = b"{version}"


class _Dashboard(NamedTuple):
    page: StaticFile
    files: StaticFiles
    version: str


@functools.cache
def _dashboard() -> _Dashboard:
    """Return the files; they are read once for all listeners."""
    files = StaticFiles(_STATIC)
    template = files.find("index.html")
    assert template is not None, "the package comes with its page"
    version = files.version
    page = file_of(template.body.replace(_PLACE_OF_VERSION, version.encode()), template.content_type)
    return _Dashboard(page, files, version)


def dashboard_routes(prefix: str) -> list[Route]:
    """Return the routes below the listener's `prefix`."""
    page, files, version = _dashboard()

    async def show_page(exchange: Exchange, core: Core) -> None:
        await _send(exchange, page)

    async def show_file(exchange: Exchange, core: Core) -> None:
        asked, *names = exchange.parameters
        file = files.find("/".join(names)) if asked == version else None
        if file is None:
            raise NotFound(NOTHING_HERE)
        await _send(exchange, file, is_immutable=True)

    async def add_slash(exchange: Exchange, core: Core) -> None:
        await exchange.answer(302, b"", headers=[(b"location", f"{prefix}/ui/".encode())])

    return [
        Route("GET", "/ui", add_slash, is_open=True),
        Route("GET", "/ui/", show_page, is_open=True),
        Route("GET", "/ui/{version}/{file}", show_file, is_open=True),
        Route("GET", "/ui/{version}/{folder}/{file}", show_file, is_open=True),
    ]


async def _send(exchange: Exchange, file: StaticFile, *, is_immutable: bool = False) -> None:
    status, headers, body = answer(
        file,
        exchange.header(b"if-none-match").encode("latin-1"),
        accept_encoding=exchange.header(b"accept-encoding").encode("latin-1"),
        is_immutable=is_immutable,
    )
    told = {name for name, _ in headers} | {POLICY}
    exchange.extra_headers = [pair for pair in exchange.extra_headers if pair[0] not in told]
    await exchange.send({"type": "http.response.start", "status": status, "headers": headers})
    await exchange.send({"type": "http.response.body", "body": body})
