"""A REST catalog of Iceberg on loopback that takes commits, over a SQLite catalog, with faults in them.

It has the requests that PyIceberg sends to create and change tables.  A fault is armed for the next commit:

    before        answer 504 and do nothing            after         commit, and answer 504
    silent        do nothing, and say nothing          silent-after  commit, and say nothing
    late          say nothing, and commit when `release` is called
"""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import CommitTableRequest, Table
from pyiceberg.table.update import AssertCreate

from millstream.lake.catalog import CatalogSettings, open_catalog

_STATUS = {
    NoSuchNamespaceError: 404,
    NoSuchTableError: 404,
    NamespaceAlreadyExistsError: 409,
    TableAlreadyExistsError: 409,
    CommitFailedException: 409,
}

_HASTE_S = 0.25


class FaultyRestCatalog:
    """The server; `settings` attach it."""

    def __init__(self, folder: Path) -> None:
        self.catalog: Catalog = open_catalog(CatalogSettings(warehouse=str(folder)), create=True)
        self.faults: list[str] = []
        self.commits = 0  # that were asked for
        self.releases: list[Callable[[], None]] = []
        self._one_at_a_time = threading.Lock()
        self._ending = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        self.settings = CatalogSettings(
            name="remote",
            type="rest",
            uri=f"http://127.0.0.1:{self._server.server_port}",
        )

    def close(self) -> None:
        self._ending.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self.catalog.close()

    def answer(self, method: str, path: list[str], body: bytes) -> tuple[int, Any] | None:
        """Return status and document; None says nothing."""
        match method, path:
            case "GET", ["config"]:
                return 200, {"defaults": {}, "overrides": {}}
            case "POST", ["namespaces"]:
                space = tuple(json.loads(body)["namespace"])
                self.catalog.create_namespace(space)
                return 200, {"namespace": space, "properties": {}}
            case "GET", ["namespaces"]:
                return 200, {"namespaces": self.catalog.list_namespaces()}
            case "GET" | "HEAD", ["namespaces", space]:
                if not self.catalog.namespace_exists(space):
                    raise NoSuchNamespaceError(space)
                return 200, {"namespace": [space], "properties": {}}
            case "GET", ["namespaces", space, "tables"]:
                found = self.catalog.list_tables(space)
                return 200, {"identifiers": [{"namespace": one[:-1], "name": one[-1]} for one in found]}
            case "POST", ["namespaces", space, "tables"]:
                return 200, _document(
                    self._create(
                        space, CreateTableRequest.model_validate({"location": None, **json.loads(body)})
                    )
                )
            case "GET" | "HEAD", ["namespaces", space, "tables", name]:
                return 200, _document(self.catalog.load_table((space, name)))
            case "POST", ["namespaces", space, "tables", name]:
                return self._commit((space, name), CommitTableRequest.model_validate_json(body))
        return 406, {"error": {"message": f"{method} {path}", "type": "UnsupportedOperation", "code": 406}}

    def _create(self, space: str, wanted: CreateTableRequest) -> Table:
        make = self.catalog._create_staged_table if wanted.stage_create else self.catalog.create_table  # type: ignore[attr-defined]
        assert wanted.partition_spec is not None
        assert wanted.write_order is not None
        made: Table = make(
            (space, wanted.name), wanted.table_schema, wanted.location, wanted.partition_spec,
            wanted.write_order, wanted.properties,
        )  # fmt: skip
        return made

    def _commit(self, name: tuple[str, str], wanted: CommitTableRequest) -> tuple[int, Any] | None:
        self.commits += 1
        fault = self.faults.pop(0) if self.faults else ""
        error = 504, {"error": {"message": "no answer from the store", "type": "Timeout", "code": 504}}
        if fault == "late":
            self.releases.append(lambda: self._apply(name, wanted))
        document = None if fault in ("late", "silent", "before") else self._apply(name, wanted)
        if fault in ("late", "silent", "silent-after"):
            self._ending.wait()
            return None
        return (200, document) if not fault else error

    def _apply(self, name: tuple[str, str], wanted: CommitTableRequest) -> Any:
        creates = any(isinstance(one, AssertCreate) for one in wanted.requirements)
        with self._one_at_a_time:
            table = _NewTable(name) if creates else self.catalog.load_table(name)
            done = self.catalog.commit_table(table, wanted.requirements, wanted.updates)  # type: ignore[arg-type]
        return {
            "metadata-location": done.metadata_location,
            "metadata": json.loads(done.metadata.model_dump_json()),
        }


class _NewTable:
    """A table that does not exist yet: a catalog asks it for its name alone."""

    def __init__(self, name: tuple[str, str]) -> None:
        self._name = name

    def name(self) -> tuple[str, str]:
        return self._name


def _document(table: Table) -> Any:
    metadata = json.loads(table.metadata.model_dump_json())
    return {"metadata-location": table.metadata_location, "metadata": metadata, "config": {}}


def _handler(catalog: FaultyRestCatalog) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = [unquote(one) for one in self.path.partition("?")[0].split("/")[2:]]
            try:
                answered = catalog.answer(self.command, path, body)
            except tuple(_STATUS) as error:
                status = _STATUS[type(error)]
                kind = type(error).__name__
                answered = status, {"error": {"message": str(error), "type": kind, "code": status}}
            if answered is None:
                self.close_connection = True
                return
            text = json.dumps(answered[1]).encode()
            with contextlib.suppress(ConnectionError):
                self.send_response(answered[0])
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(b"" if self.command == "HEAD" else text)

        do_GET = do_POST = do_HEAD = do_DELETE = _answer

        def log_message(self, *what: Any) -> None: ...

    return Handler


@contextlib.contextmanager
def hasty(catalog: Catalog) -> Iterator[None]:
    """Let requests of a client end soon, so that a test need not wait long for silence."""
    adapter = catalog._session.adapters["http://"]  # type: ignore[attr-defined]
    patient, adapter._timeout = adapter._timeout, (_HASTE_S, _HASTE_S)
    yield
    adapter._timeout = patient


@contextlib.contextmanager
def rest_catalog(folder: Path) -> Iterator[FaultyRestCatalog]:
    """Serve a catalog whose tables are in the folder."""
    served = FaultyRestCatalog(folder)
    try:
        yield served
    finally:
        served.close()
