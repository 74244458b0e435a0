"""What jobs ask a server beside reading and writing: state of a stream, single messages, purge and delete.

Used by drivers and by tasks, each with a connection of its own; a connection that broke is made again once.
Messages are fetched by direct get where the stream allows it, which leaves no trace in advisories.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import msgspec

from millrace.spark.errors import NotAllowed, SourceUnavailable, StreamMissing
from millrace.spark.options import ConnectionOptions
from millrace.wire.blocking import BlockingLink
from millrace.wire.errors import (
    ApiRefused,
    AuthorizationViolation,
    NoResponders,
    NotConnected,
    RequestTimeout,
)
from millrace.wire.options import LinkOptions, TlsOptions, parse_servers

_NO_STREAM: Final = 10059
_NO_MESSAGE: Final = 10037
_NOT_FOUND: Final = 404
_AGAIN_S: Final = 10.0
# What the server puts before the headers of the message itself.
_ENVELOPE: Final = ("Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp", "Nats-Num-Pending")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StreamState:
    """What a job wants to know about a stream."""

    name: str
    identity: str  # when it was created: another stream of the same name has another one
    first: int
    last: int
    messages: int
    consumers: int
    work_queue: bool
    allow_direct: bool
    duplicate_window_s: float
    subjects: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One message of a stream."""

    subject: str
    sequence: int
    time: str  # as the server writes it
    headers: tuple[tuple[str, str], ...]
    data: bytes


def link_options(nats: Mapping[str, str], name: str) -> LinkOptions:
    """The options `nats.*` of the data source for a connection of our own."""
    given = ConnectionOptions.parse(nats)
    tls = None
    if given.tls_ca or given.tls_cert or given.tls_first:
        tls = TlsOptions(given.tls_ca or "", given.tls_cert or "", given.tls_key or "", given.tls_first)
    return LinkOptions(
        servers=parse_servers(given.servers),
        name=name,
        user=given.user or "",
        password=given.password or "",
        token=given.token or "",
        nkey_seed=given.nkey_secret or "",
        creds_file=given.creds or "",
        tls=tls,
        inbox_prefix=given.inbox_prefix,
        domain=given.js_domain or "",
        api_prefix=given.api_prefix or "",
        connect_timeout_s=given.connect_timeout,
    )


class StreamAdmin:
    """A connection that is opened when it is first needed."""

    def __init__(self, nats: Mapping[str, str], name: str) -> None:
        self._link = BlockingLink(link_options(nats, name))
        self._direct: dict[str, bool] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._link.close()

    def connected(self) -> BlockingLink:
        """The connection itself."""
        self._try(lambda: None)
        return self._link

    def info(self, stream: str) -> StreamState:
        """State of a stream; StreamMissing if there is none."""
        answer = self._api(f"STREAM.INFO.{stream}", stream=stream)
        config, state = answer["config"], answer["state"]
        return StreamState(
            name=stream,
            identity=answer["created"],
            first=state["first_seq"],
            last=state["last_seq"],
            messages=state["messages"],
            consumers=state["consumer_count"],
            work_queue=config["retention"] == "workqueue",
            allow_direct=bool(config.get("allow_direct")),
            duplicate_window_s=config.get("duplicate_window", 0) / 1e9,
            subjects=tuple(config.get("subjects") or ()),
        )

    def purge(self, stream: str, *, below: int, filter: Sequence[str] = ()) -> int:
        """Remove the messages below a sequence, of these subjects only; returns how many there were."""
        removed = 0
        for subject in filter or ("",):
            request: dict[str, Any] = {"seq": below, **({"filter": subject} if subject else {})}
            removed += int(self._api(f"STREAM.PURGE.{stream}", request, stream)["purged"])
        return removed

    def delete(self, stream: str, sequence: int) -> bool:
        """Remove one message; False if it was gone."""
        try:
            self._api(f"STREAM.MSG.DELETE.{stream}", {"seq": sequence, "no_erase": True}, stream)
        except ApiRefused as error:
            if error.err_code in (_NO_MESSAGE, 10057):
                return False
            raise
        return True

    def get(self, stream: str, sequence: int) -> StoredMessage | None:
        """One message, or None if it (or its stream) is gone."""
        if stream not in self._direct:
            try:
                self._direct[stream] = self.info(stream).allow_direct
            except StreamMissing:
                return None
        return self._get_direct(stream, sequence) if self._direct[stream] else self._get(stream, sequence)

    def publish(self, subject: str, payload: bytes) -> None:
        """Send a message that no stream has to take."""
        self._try(lambda: self._link.publish(subject, payload))

    def _get_direct(self, stream: str, sequence: int) -> StoredMessage | None:
        body = msgspec.json.encode({"seq": sequence})
        try:
            answer = self._try(
                lambda: self._link.request(f"{self._link.options.api}.DIRECT.GET.{stream}", body)
            )
        except NoResponders:  # the stream went away or does not allow it any more
            return self._get(stream, sequence)
        if answer.status == _NOT_FOUND:
            return None
        headers = parse_headers(answer.headers)
        about = {name: value for name, value in headers if name in _ENVELOPE}
        rest = tuple(header for header in headers if header[0] not in _ENVELOPE)
        return StoredMessage(
            about["Nats-Subject"], int(about["Nats-Sequence"]), about["Nats-Time-Stamp"], rest, answer.payload
        )

    def _get(self, stream: str, sequence: int) -> StoredMessage | None:
        try:
            message = self._api(f"STREAM.MSG.GET.{stream}", {"seq": sequence}, stream)["message"]
        except StreamMissing:
            return None
        except ApiRefused as error:
            if error.err_code == _NO_MESSAGE:
                return None
            raise
        return StoredMessage(
            message["subject"],
            message["seq"],
            message["time"],
            parse_headers(base64.b64decode(message.get("hdrs", ""))),
            base64.b64decode(message.get("data", "")),
        )

    def _api(self, name: str, request: Mapping[str, Any] | bytes = b"", stream: str = "") -> dict[str, Any]:
        try:
            return self._try(lambda: self._link.api(name, request))
        except ApiRefused as error:
            if error.err_code == _NO_STREAM:
                raise StreamMissing(f"there is no stream {stream!r}") from None
            raise

    def _try(self, act: Callable[[], T]) -> T:
        """Do it on a connection; once more on a new one if that broke.  All that is asked here bears it."""
        try:
            self._link.connect()
            try:
                return act()
            except (NotConnected, RequestTimeout):
                self._link.reconnect(_AGAIN_S)
                return act()
        except AuthorizationViolation as error:
            raise NotAllowed(str(error)) from None
        except (NotConnected, RequestTimeout) as error:
            raise SourceUnavailable(str(error)) from None


def parse_headers(block: bytes) -> tuple[tuple[str, str], ...]:
    """Names and values in order; what is not UTF-8 is replaced."""
    headers: list[tuple[str, str]] = []
    for line in block.split(b"\r\n")[1:]:
        name, colon, value = line.partition(b":")
        if colon:
            headers.append((name.decode("utf-8", "replace"), value.strip().decode("utf-8", "replace")))
    return tuple(headers)


def parse_time(text: str) -> datetime:
    """RFC 3339 with nanoseconds, which Python does not read."""
    whole, dot, fraction = text.removesuffix("Z").partition(".")
    return datetime.fromisoformat(f"{whole}.{(fraction + '000000')[:6]}+00:00" if dot else f"{whole}+00:00")
