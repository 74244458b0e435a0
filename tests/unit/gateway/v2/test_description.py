"""The description, the routes, the page and the document about them say the same."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from millstream.gateway.core import Core
from millstream.gateway.errors import MethodNotAllowed, NotFound
from millstream.gateway.settings import BOTH_GROUPS, Group, Settings
from millstream.gateway.v2.about import description_of
from millstream.gateway.v2.docs_page import PAGE
from millstream.gateway.v2.routes import Routes, operations_of
from tests.kits.paths import DOCS

_PAGE = DOCS / "gateway-v2.md"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(description_of(BOTH_GROUPS))
    return read


def _walk(value: Any) -> Iterator[Any]:
    yield value
    if isinstance(value, dict):
        for each in value.values():
            yield from _walk(each)
    elif isinstance(value, list):
        for each in value:
            yield from _walk(each)


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    references = [part["$ref"] for part in _walk(document) if isinstance(part, dict) and "$ref" in part]
    assert references
    for reference in references:
        found: Any = document
        for name in reference.removeprefix("#/").split("/"):
            found = found[name]


def test_every_operation_has_an_id_a_summary_and_its_problems(document: dict[str, Any]) -> None:
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    for operation in operations:
        assert operation["summary"]
        assert operation["description"], operation["operationId"]
        assert {"400", "401", "403", "429", "503", "504"} <= set(operation["responses"])


async def test_every_described_operation_is_routed_and_nothing_else(document: dict[str, Any]) -> None:
    routes = Routes(Core(Settings()), BOTH_GROUPS)
    for path, methods in document["paths"].items():
        real = re.sub(r"\{\w+\}", "1", path)
        for method in methods:
            wanted = "WEBSOCKET" if path.endswith("/socket") else method.upper()
            operation, _ = routes.find(wanted, real)
            assert operation.path == path
        with pytest.raises((MethodNotAllowed, NotFound)):
            routes.find("PATCH", real)


async def test_encoded_slashes_are_no_borders() -> None:
    routes = Routes(Core(Settings()), BOTH_GROUPS)
    _, named = routes.find("GET", "/v2/streams/a%2Fconfig")
    assert named == {"stream": "a/config"}
    _, named = routes.find("POST", "/v2/subjects/a%2Fb/c%20/")
    assert named == {"subject": "a/b/c /"}
    for nowhere in ("/v2/streams//config", "/v2", "/v2/", "/v2/streams/", "/v2/subjects/"):
        with pytest.raises(NotFound):
            routes.find("GET", nowhere)


def test_each_group_has_its_half() -> None:
    administration = {operation.name for operation in operations_of(frozenset({Group.MANAGEMENT}))}
    data = {operation.name for operation in operations_of(frozenset({Group.DATAPLANE}))}
    assert administration & data == {"read_description", "read_docs"}
    assert {"create_stream", "pause_consumer"} <= administration
    assert {"publish", "fetch", "open_socket", "read_message"} <= data


def test_the_table_of_resources_is_complete(document: dict[str, Any]) -> None:
    rows = re.findall(r"^\| `([^`]+)` \| ([A-Za-z, ]+) \|", _PAGE.read_text(), re.MULTILINE)
    prefix = "/v2/streams/{stream}"
    told = {
        path.replace("…", prefix): {method.strip() for method in methods.split(",")} for path, methods in rows
    }
    served = {
        path: {"WebSocket"} if path.endswith("/socket") else {method.upper() for method in methods}
        for path, methods in document["paths"].items()
    }
    assert {path: told.get(path) for path in served} == served
    assert set(told) == set(served)


def test_the_page_needs_no_other_server() -> None:
    assert b"http://" not in PAGE
    assert b"https://" not in PAGE
    assert b"openapi.json" in PAGE
