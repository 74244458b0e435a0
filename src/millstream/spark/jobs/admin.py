"""Requests of jobs to a server other than reading and writing streams: get, purge, delete, publish.

Drivers and tasks each use a connection of their own, which is reopened when it breaks.  Messages are fetched
by direct get where the stream allows it, because a direct get causes no advisory.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import msgspec

from millstream.jsapi.errors import Err
from millstream.link.blocking_link import BlockingLink
from millstream.link.errors import LinkApiError, NoResponders
from millstream.protocol.headers import read_pairs
from millstream.spark.files import shipped
from millstream.spark.options import connection_of
from millstream.tables.connections import RequestConnection, explained
from millstream.tables.errors import StreamMissing
from millstream.tables.streams import StreamFacts, facts_of, message_at

# A delete of what is gone is told as a failure of the server, and would be tried again for long.
_NO_MESSAGE: Final = (Err.NO_MESSAGE_FOUND, Err.SEQUENCE_NOT_FOUND, Err.STREAM_MESSAGE_DELETE_FAILED)
_NOT_FOUND: Final = 404
_PATIENCE_S: Final = 60.0
# Headers that the server adds before those of the message.
_ENVELOPE: Final = ("Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp", "Nats-Num-Pending")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AdminMessage:
    """One message of a stream."""

    subject: str
    sequence: int
    time: str  # the server's text
    headers: tuple[tuple[str, str], ...]
    data: bytes


class StreamAdmin:
    """A connection that is opened when first needed; `nats` are options of the data source."""

    def __init__(self, nats: Mapping[str, str], name: str, patience_s: float = _PATIENCE_S) -> None:
        self._options = connection_of(nats)
        self._server = RequestConnection(shipped(self._options), name, patience_s)
        self._direct: dict[str, bool] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._server.close()

    def facts(self, stream: str) -> StreamFacts:
        """Return the state of a stream; raise StreamMissing if it does not exist."""
        return facts_of(self._api(f"STREAM.INFO.{stream}", stream=stream))

    def check(self) -> None:
        """Raise an error if JetStream is unreachable: no server, wrong credentials, or JetStream is off."""
        self._api("INFO")

    def stream_of(self, subject: str) -> str:
        """Return the name of the stream that stores a subject, or an empty string."""
        names = self._api("STREAM.NAMES", {"subject": subject}).get("streams") or []
        return str(names[0]) if names else ""

    def purge(self, stream: str, *, below: int, filter: Sequence[str] = ()) -> int:
        """Remove the messages below a sequence, optionally only of these subjects; return their number."""
        removed = 0
        for subject in filter or ("",):
            request: dict[str, Any] = {"seq": below, **({"filter": subject} if subject else {})}
            removed += int(self._api(f"STREAM.PURGE.{stream}", request, stream)["purged"])
        return removed

    def first_since(self, stream: str, time_ns: int) -> int | None:
        """Return the sequence of the first message at or after a time, or None."""
        with explained(self._options, stream):
            return message_at(self._server.api, stream, time_ns)

    def delete(self, stream: str, sequence: int) -> bool:
        """Remove one message; return False if it did not exist."""
        name, request = f"STREAM.MSG.DELETE.{stream}", {"seq": sequence, "no_erase": True}
        return self._found(stream, lambda link: link.api(name, request)) is not None

    def get(self, stream: str, sequence: int) -> AdminMessage | None:
        """Return one message, or None if it or its stream does not exist."""
        if stream not in self._direct:
            try:
                self._direct[stream] = self.facts(stream).allow_direct
            except StreamMissing:
                return None
        return self._get_direct(stream, sequence) if self._direct[stream] else self._get(stream, sequence)

    def publish(self, subject: str, payload: bytes) -> None:
        """Publish a message without waiting for an ack of a stream."""
        with explained(self._options):
            self._server.patiently(lambda link: link.publish(subject, payload))

    def _get_direct(self, stream: str, sequence: int) -> AdminMessage | None:
        body = msgspec.json.encode({"seq": sequence})
        try:
            answer = self._server.patiently(
                lambda link: link.request(f"{link.options.api}.DIRECT.GET.{stream}", body)
            )
        except NoResponders:  # the stream was deleted or no longer allows direct gets
            return self._get(stream, sequence)
        if answer.status == _NOT_FOUND:
            return None
        headers = tuple(read_pairs(answer.block))
        about = {name: value for name, value in headers if name in _ENVELOPE}
        rest = tuple(header for header in headers if header[0] not in _ENVELOPE)
        return AdminMessage(
            about["Nats-Subject"], int(about["Nats-Sequence"]), about["Nats-Time-Stamp"], rest, answer.payload
        )

    def _get(self, stream: str, sequence: int) -> AdminMessage | None:
        try:
            answer = self._found(stream, lambda link: link.api(f"STREAM.MSG.GET.{stream}", {"seq": sequence}))
        except StreamMissing:
            return None
        if answer is None:
            return None
        message = answer["message"]
        return AdminMessage(
            message["subject"],
            message["seq"],
            message["time"],
            tuple(read_pairs(base64.b64decode(message.get("hdrs", "")))),
            base64.b64decode(message.get("data", "")),
        )

    def _found(self, stream: str, ask: Callable[[BlockingLink], T]) -> T | None:
        """Return the response, or None if the message does not exist."""

        def ask_or_none(link: BlockingLink) -> T | None:
            try:
                return ask(link)
            except LinkApiError as error:
                if error.err in _NO_MESSAGE:
                    return None
                raise

        with explained(self._options, stream):
            return self._server.patiently(ask_or_none)

    def _api(self, name: str, request: dict[str, Any] | None = None, stream: str = "") -> dict[str, Any]:
        with explained(self._options, stream):
            return self._server.patiently(lambda link: link.api(name, request or b""))
