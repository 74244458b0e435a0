"""The description of the API and the page that shows it."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from millstream.gateway.settings import Group
from millstream.gateway.v2.calls import Call, Reply, Whole
from millstream.gateway.v2.description import describe
from millstream.gateway.v2.docs_page import PAGE
from millstream.gateway.v2.operations import JSON, Answer, Section, Tag, json_answer
from millstream.gateway.v2.payload import to_json

section: Final = Section(Tag.ABOUT)

_HTML: Final = "text/html; charset=utf-8"
_POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline';"
    " connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@section.get(
    "/openapi.json",
    "This description",
    answers=(json_answer(200, "OpenAPI 3.1", {"type": "object"}),),
)
async def read_description(call: Call) -> Reply:
    """The OpenAPI 3.1 document of the operations that this gateway serves."""
    return Whole(200, description_of(call.core.settings.groups), JSON, [("Cache-Control", "max-age=300")])


@section.get(
    "/docs",
    "A page that shows this description",
    answers=(Answer(200, "a page", {"text/html": {"type": "string"}}),),
)
async def read_docs(call: Call) -> Reply:
    """The page is complete: it loads nothing from other servers."""
    return Whole(200, PAGE, _HTML, [("Content-Security-Policy", _POLICY), ("Cache-Control", "max-age=300")])


@cache
def description_of(groups: frozenset[Group]) -> bytes:
    """Return the encoded document."""
    from millstream.gateway.v2.routes import operations_of  # here, because the routes import this module

    return to_json(describe(operations_of(groups), _version()))


def _version() -> str:
    try:
        return version("millstream")
    except PackageNotFoundError:
        return "0"
