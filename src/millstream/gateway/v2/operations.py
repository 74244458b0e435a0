"""The declaration of an operation: its path, parameters, body, answers and handler.

Routing, the decoding of requests and the OpenAPI description all use the declaration, so the description
matches the checks.

    @section.get("/streams/{stream}", "Read a stream", answers=(Answer(200, StreamInfo),), problems=(404,))
    async def read_stream(call: Call) -> Reply: ...

`description` writes the OpenAPI document, `routes` calls the handlers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from millstream.gateway.settings import Group

if TYPE_CHECKING:
    from millstream.gateway.v2.calls import Call, Reply

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
EVENTS: Final = "text/event-stream"
BYTES: Final = "application/octet-stream"
ANY: Final = "*/*"

Handler = Callable[["Call"], Awaitable["Reply"]]
# A Python type whose schema msgspec knows, several of them in a tuple, or a schema itself.
Shape = Any

# Errors of every operation: bad request, unauthorized, forbidden, body too slow, too large, too many
# requests,
# no connection to NATS, no answer from NATS.
COMMON_PROBLEMS: Final = (400, 401, 403, 408, 413, 429, 500, 503, 504)


class Tag(StrEnum):
    """The sections of the description."""

    PUBLISHING = "Publishing"
    READING = "Reading messages"
    CONSUMING = "Consuming"
    STREAMS = "Streams"
    CONSUMERS = "Consumers"
    DEAD_LETTERS = "Dead letters"
    KEY_VALUE = "Key-value buckets"
    OBJECTS = "Object stores"
    TABLES = "Iceberg tables"
    ACCOUNT = "Account"
    ABOUT = "About"


_MANAGEMENT: Final = frozenset({Tag.STREAMS, Tag.CONSUMERS, Tag.DEAD_LETTERS, Tag.ACCOUNT})


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a request; `content` has a schema for each media type."""

    content: Mapping[str, Shape]
    description: str = ""
    required: bool = True


@dataclass(frozen=True, slots=True)
class Answer:
    """A successful answer."""

    status: int
    description: str
    content: Mapping[str, Shape] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)  # name to description


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one resource."""

    method: str
    path: str
    summary: str
    handler: Handler
    tag: Tag
    name: str
    description: str = ""
    query: type | None = None
    headers: Mapping[str, str] = field(default_factory=dict)  # of requests: name to description
    body: Body | None = None
    answers: tuple[Answer, ...] = ()
    problems: tuple[int, ...] = ()
    stream: bool = False  # its answer does not end by itself
    socket: bool = False  # a WebSocket
    consumes: bool = False  # a GET that takes messages from a consumer
    reads: bool = False  # a POST that changes nothing

    @property
    def changes(self) -> bool:
        """Return whether a read-only gateway refuses the operation."""
        return (self.method != "GET" and not self.reads) or self.socket or self.consumes

    @property
    def group(self) -> Group:
        """Return the group that serves the operation."""
        return Group.MANAGEMENT if self.tag in _MANAGEMENT else Group.DATAPLANE

    @property
    def statuses(self) -> set[int]:
        """Return all statuses that the operation may answer with."""
        return {*COMMON_PROBLEMS, *self.problems, *(answer.status for answer in self.answers)}


def json_answer(status: int, description: str, shape: Shape, **headers: str) -> Answer:
    return Answer(
        status, description, {JSON: shape}, {name.replace("_", "-"): text for name, text in headers.items()}
    )


def json_body(shape: Shape, description: str = "", *, required: bool = True) -> Body:
    return Body({JSON: shape}, description, required)


class Section:
    """The operations of one module, in the order in which they are written."""

    def __init__(self, tag: Tag) -> None:
        self.tag = tag
        self.operations: list[Operation] = []

    def get(self, path: str, summary: str, **options: Any) -> Callable[[Handler], Handler]:
        return self._declare("GET", path, summary, options)

    def post(self, path: str, summary: str, **options: Any) -> Callable[[Handler], Handler]:
        return self._declare("POST", path, summary, options)

    def put(self, path: str, summary: str, **options: Any) -> Callable[[Handler], Handler]:
        return self._declare("PUT", path, summary, options)

    def delete(self, path: str, summary: str, **options: Any) -> Callable[[Handler], Handler]:
        return self._declare("DELETE", path, summary, options)

    def _declare(
        self, method: str, path: str, summary: str, options: dict[str, Any]
    ) -> Callable[[Handler], Handler]:
        def declare(handler: Handler) -> Handler:
            self.operations.append(
                Operation(
                    method,
                    f"/v2{path}",
                    summary,
                    handler,
                    options.pop("tag", self.tag),
                    handler.__name__,
                    description=" ".join((handler.__doc__ or "").split()),
                    **options,
                )
            )
            return handler

        return declare
