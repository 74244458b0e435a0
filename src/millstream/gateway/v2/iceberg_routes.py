"""A read-only Iceberg REST catalog of the gateway's tables, for PyIceberg, DuckDB, Trino and Spark.

Paths, names and answers are those of Iceberg's REST catalog specification.  Clients get metadata here and
read the data files themselves, from the place that the metadata names.  Everything that would change a table
is refused.  A failure is a problem like any other of `/v2`, with the member `error` for Iceberg's clients.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from millstream.gateway.error_map import PROBLEM_TYPE
from millstream.gateway.errors import BadRequest, GatewayError, NotAcceptable
from millstream.gateway.v2.calls import Call, Reply, Whole, answer, nothing
from millstream.gateway.v2.operations import JSON, Answer, Section, Tag, json_answer
from millstream.gateway.v2.problems import Problem, outcome_of

if TYPE_CHECKING:
    from millstream.queries.table_access import TableAccess

section: Final = Section(Tag.TABLES)

_PART: Final = "\x1f"  # between the parts of a namespace in a path
_SPACES: Final = "/iceberg/v1/namespaces"
_SPACE: Final = f"{_SPACES}/{{namespace}}"
_TABLES: Final = f"{_SPACE}/tables"
_TABLE: Final = f"{_TABLES}/{{table}}"
_OFFERED: Final = tuple(
    f"{method} {path.replace('/iceberg/v1', '/v1/{prefix}')}"
    for method, paths in (("GET", (_SPACES, _SPACE, _TABLES, _TABLE)), ("HEAD", (_SPACE, _TABLE)))
    for path in paths
)
_KINDS: Final = {
    400: "BadRequestException",
    403: "ForbiddenException",
    404: "NoSuchTableException",
    406: "UnsupportedOperationException",
    422: "UnprocessableEntityException",
    503: "ServiceUnavailableException",
}
_THERE: Final = Answer(204, "to HEAD: it is there")


class _CatalogQuery(msgspec.Struct, frozen=True):
    warehouse: Annotated[str, msgspec.Meta(description="ignored: a gateway has one")] = ""


class _PageQuery(msgspec.Struct, frozen=True):
    page_token: Annotated[str, msgspec.Meta(description="ignored: there is one page")] = msgspec.field(
        default="", name="pageToken"
    )
    page_size: Annotated[int, msgspec.Meta(ge=1, description="ignored")] = msgspec.field(
        default=1, name="pageSize"
    )


class _NamespaceQuery(_PageQuery, frozen=True):
    parent: Annotated[str, msgspec.Meta(description="a namespace, to list those in it")] = ""


class _TableQuery(msgspec.Struct, frozen=True):
    snapshots: Annotated[str, msgspec.Meta(description="`all` or `refs`; all are given")] = "all"


class _DropQuery(msgspec.Struct, frozen=True):
    purge_requested: Annotated[bool, msgspec.Meta(description="ignored: nothing is dropped")] = msgspec.field(
        default=False, name="purgeRequested"
    )


class IcebergConfig(msgspec.Struct, frozen=True):
    """The configuration for clients: what the catalog offers."""

    defaults: dict[str, str]
    overrides: dict[str, str]
    endpoints: list[str]


class IcebergNamespaces(msgspec.Struct, frozen=True):
    """Namespaces, each as the list of its parts."""

    namespaces: list[list[str]]


class IcebergNamespace(msgspec.Struct, frozen=True):
    """A namespace."""

    namespace: list[str]
    properties: dict[str, str]


class IcebergIdentifier(msgspec.Struct, frozen=True):
    """The name of a table."""

    namespace: list[str]
    name: str


class IcebergTables(msgspec.Struct, frozen=True):
    """The tables of a namespace."""

    identifiers: list[IcebergIdentifier]


class IcebergTable(msgspec.Struct, frozen=True, rename="kebab"):
    """A table: Iceberg's metadata as they are in the file at `metadata-location`."""

    metadata_location: str
    metadata: dict[str, Any]
    config: dict[str, str]


class _IcebergError(msgspec.Struct, frozen=True):
    message: str
    type: str
    code: int


class _IcebergProblem(Problem, frozen=True, kw_only=True):
    error: _IcebergError


def _in_protocol(handler: Callable[[Call], Awaitable[Reply]]) -> Callable[[Call], Awaitable[Reply]]:
    """Answer errors with Iceberg's own member beside those of a problem."""

    @wraps(handler)
    async def answered(call: Call) -> Reply:
        try:
            return await handler(call)
        except GatewayError as error:
            outcome = outcome_of(error)
            kind = _KINDS.get(outcome.status, "ServerErrorException")
            body = _IcebergProblem(
                outcome.status,
                outcome.title,
                outcome.detail,
                instance=call.scope["path"],
                request_id=call.exchange.request_id,
                error=_IcebergError(outcome.detail, kind, outcome.status),
            )
            return Whole(outcome.status, msgspec.json.encode(body) + b"\n", PROBLEM_TYPE.decode())

    return answered


async def _ask(call: Call, work: Callable[[TableAccess], Any]) -> Any:
    desk = call.core.tables
    return await desk.ask(call.link.options, is_own=call.link.is_own, work=work)


def _parts(text: str) -> tuple[str, ...]:
    parts = tuple(text.split(_PART)) if text else ()
    if not all(parts):
        raise BadRequest("a part of the namespace is empty")
    return parts


@section.get(
    "/iceberg/v1/config",
    "Read the catalog's configuration",
    query=_CatalogQuery,
    answers=(json_answer(200, "the configuration", IcebergConfig),),
    problems=(404, 501),
)
@_in_protocol
async def read_catalog(call: Call) -> Reply:
    """The address of the catalog for clients is `/v2/iceberg`. It has no credentials for the files: a client
    needs access of its own to the place where the tables are."""
    call.core.tables.library()
    return answer(IcebergConfig({}, {}, list(_OFFERED)))


@section.get(
    _SPACES,
    "List namespaces of tables",
    query=_NamespaceQuery,
    answers=(json_answer(200, "the namespaces", IcebergNamespaces),),
    problems=(404, 422, 501),
)
@_in_protocol
async def list_namespaces(call: Call) -> Reply:
    """All namespaces of the catalog, or those in another one."""
    parent = _parts(call.query.parent)
    found = await _ask(call, lambda tables: tables.library.namespaces(parent))
    return answer(IcebergNamespaces([list(one) for one in found]))


@section.get(
    _SPACE,
    "Read a namespace of tables",
    answers=(json_answer(200, "the namespace", IcebergNamespace), _THERE),
    problems=(404, 422, 501),
)
@_in_protocol
async def read_namespace(call: Call) -> Reply:
    """The namespace, which has no properties. Several parts are joined by the character U+001F."""
    space = _parts(call.path["namespace"])
    await _ask(call, lambda tables: tables.library.names(space))
    return nothing() if call.is_head else answer(IcebergNamespace(list(space), {}))


@section.get(
    _TABLES,
    "List tables",
    query=_PageQuery,
    answers=(json_answer(200, "the tables", IcebergTables),),
    problems=(404, 422, 501),
)
@_in_protocol
async def list_tables(call: Call) -> Reply:
    """The tables of a namespace that the caller may read: those whose streams it may get messages of."""
    space = _parts(call.path["namespace"])
    names = await _ask(call, lambda tables: list(tables.visible(space)))
    return answer(IcebergTables([IcebergIdentifier(list(space), name) for name in names]))


@section.get(
    _TABLE,
    "Load a table",
    query=_TableQuery,
    answers=(json_answer(200, "the table", IcebergTable), _THERE),
    problems=(404, 422, 501),
)
@_in_protocol
async def load_table(call: Call) -> Reply:
    """Iceberg's metadata of the table, for a caller who may get messages of all its streams."""
    space, name = _parts(call.path["namespace"]), call.path["table"]

    def load(tables: TableAccess) -> bytes:
        table = tables.library.load(space, name)
        tables.check(table)
        place = msgspec.json.encode(table.metadata_location)
        metadata = table.metadata.model_dump_json().encode()
        return b'{"metadata-location":' + place + b',"metadata":' + metadata + b',"config":{}}'

    body = await _ask(call, load)
    return nothing() if call.is_head else Whole(200, body, JSON)


@section.post(f"{_TABLE}/metrics", "Ignore metrics of a scan", answers=(Answer(204, "ignored"),), reads=True)
@_in_protocol
async def ignore_scan_metrics(call: Call) -> Reply:
    """Clients report how they read a table; the gateway has no use for it."""
    await call.body()
    return nothing()


def _refusing(name: str) -> Callable[[Call], Awaitable[Reply]]:
    async def refuse(call: Call) -> Reply:
        """This catalog is read-only: pipelines write its tables. The answer is always 406."""
        await call.body()
        raise NotAcceptable("this catalog is read-only: pipelines write its tables")

    refuse.__name__ = name
    return _in_protocol(refuse)


for _method, _path, _summary, _name in (
    (section.post, _SPACES, "Refuse to create a namespace", "refuse_namespace"),
    (section.delete, _SPACE, "Refuse to drop a namespace", "refuse_namespace_drop"),
    (section.post, f"{_SPACE}/properties", "Refuse to change a namespace", "refuse_namespace_change"),
    (section.post, _TABLES, "Refuse to create a table", "refuse_table"),
    (section.post, f"{_SPACE}/register", "Refuse to register a table", "refuse_table_registration"),
    (section.post, _TABLE, "Refuse to change a table", "refuse_table_commit"),
    (section.delete, _TABLE, "Refuse to drop a table", "refuse_table_drop"),
    (section.post, "/iceberg/v1/tables/rename", "Refuse to rename a table", "refuse_table_rename"),
    (section.post, "/iceberg/v1/transactions/commit", "Refuse a transaction", "refuse_transaction"),
):
    _query = _DropQuery if _name == "refuse_table_drop" else None
    _method(_path, _summary, problems=(406,), reads=True, query=_query)(_refusing(_name))
