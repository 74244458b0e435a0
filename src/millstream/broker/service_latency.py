"""Measurements of service requests between accounts, published in the account that exports the service.

An export with `latency` has a part of its requests measured: a percentage of them, or those whose headers ask
for it.  A measurement begins when the request passes the import, and ends once:

    200  with the first response            503  nobody serves the subject
    408  the requester listens no more      504  no response within the threshold of the export
    400  at once: the request has no reply subject

Not measured: answers of services that belong to the server itself.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from millstream.base.ids import nuid
from millstream.broker.options import ConnectionType, ServiceLatency
from millstream.golang.time import ZERO_TIME, Time
from millstream.jsapi.advisory_types import ClientInfo, Event
from millstream.jsapi.codec import encode
from millstream.jsapi.go_types import Duration, Int, always, no_members
from millstream.protocol.headers import Pairs, read_pairs

if TYPE_CHECKING:
    from millstream.broker.accounts import Account
    from millstream.broker.broker import Broker
    from millstream.broker.routes import Subscriber

_ALWAYS: Final = 100
_NS: Final = 1_000_000_000
_TYPE: Final = "io.nats.server.metric.v1.service_latency"
_UBER: Final = "Uber-Trace-Id"
_UBER_CONTEXT: Final = "Uberctx-"
_B3: Final = "B3"
_B3_SAMPLED: Final = "X-B3-Sampled"
_B3_PARTS: Final = (_B3_SAMPLED, "X-B3-Traceid", "X-B3-Parentspanid", "X-B3-Spanid")
_TRACE_PARENT: Final = "Traceparent"
_TRACE_STATE: Final = "Tracestate"

TraceHeaders = dict[str, list[str]]


class LatencyEvent(Event):
    """One measurement; durations are nanoseconds."""

    type: str = always(_TYPE)
    status: Int = always(0)
    description: str = ""
    requestor: ClientInfo | None = None
    responder: ClientInfo | None = None
    header: TraceHeaders = no_members()  # the ones that asked for the measurement
    start: Time = always(ZERO_TIME)
    service: Duration = always(0)
    system: Duration = always(0)
    total: Duration = always(0)


def client_info(broker: Broker, source: Subscriber | None, account: str, *, detailed: bool) -> ClientInfo:
    """Return the account and round trip of a client, and with `detailed` the rest."""
    info = ClientInfo(acc=account)
    session = getattr(source, "session", None)
    if session is None:
        return info
    info.rtt = round(source.keepalive.round_trip_s * _NS)  # type: ignore[union-attr]
    if detailed:
        info.start = Time(session.started_ns)
        info.host = session.ip
        info.id = source.cid  # type: ignore[union-attr]
        info.user = session.identity.user if session.identity else ""
        info.name = session.connect.name
        info.lang = session.connect.lang
        info.ver = session.connect.version
        info.server = broker.identity.server_id
        info.kind = "Client"
        info.client_type = "websocket" if session.kind is ConnectionType.WEBSOCKET else "nats"
        grant = session.identity.grant if session.identity else None
        if grant is not None:
            info.jwt = "" if grant.bearer else grant.token  # nobody else may use it
            info.issuer_key = grant.signer
            info.name_tag = grant.name
            info.tags = list(grant.tags)
    return info


class Measurement:
    """A request that is measured until the first of its ends."""

    def __init__(
        self,
        broker: Broker,
        exporter: Account,
        latency: ServiceLatency,
        requestor: ClientInfo,
        header: TraceHeaders,
    ) -> None:
        self._broker = broker
        self._exporter = exporter
        self._subject = latency.subject.encode()
        self._requestor = requestor
        self._header = header
        self._began_s = broker.now()
        self._start = Time(time.time_ns() - requestor.rtt)
        self._undo: list[Callable[[], object]] = []
        self._ended = False

    def wait(
        self, importer: Account, reply: bytes, patience_s: float, forget: Callable[[], None], *, watch: bool
    ) -> None:
        """Wait for a response; `forget` is called when none is expected any more.

        Without `watch`, a requester that listens no more is not noticed before the time is up.
        """

        def look() -> None:
            if not self._ended and not importer.space.route(reply).receivers():
                self._publish(408, "Request Timeout")
                forget()

        def expire() -> None:
            if not self._ended:
                self._publish(504, "Service Timeout")
                forget()

        def unwatch() -> None:
            with contextlib.suppress(KeyError):  # the account was dropped
                importer.space.unwatch(reply, look)

        timer = self._broker.turns.later(patience_s, expire)
        self._undo = [timer.cancel]
        if watch:
            importer.space.watch(reply, look)
            self._undo.append(unwatch)

    def refuse(self) -> None:
        """End the measurement of a request without a reply subject."""
        self._publish(400, "Bad Request")

    def undelivered(self) -> None:
        """End the measurement of a request that nobody has received."""
        self._publish(503, "Service Unavailable")

    def answered(self, responder: Subscriber | None) -> None:
        """End the measurement with a response."""
        if self._ended:
            return
        event = LatencyEvent(status=200)
        event.responder = client_info(self._broker, responder, self._exporter.name, detailed=True)
        passed = round((self._broker.now() - self._began_s) * _NS)
        event.service = max(passed - event.responder.rtt, 0)
        event.total = self._requestor.rtt + passed
        self._send(event)

    def end(self) -> None:
        """End the measurement without publishing it."""
        self._ended = True
        undo, self._undo = self._undo, []
        for each in undo:
            each()

    def _publish(self, status: int, description: str) -> None:
        if not self._ended:
            self._send(LatencyEvent(status=status, description=description))

    def _send(self, event: LatencyEvent) -> None:
        self.end()
        event.id = nuid()
        event.timestamp = Time(time.time_ns())
        event.requestor = self._requestor
        event.header = self._header
        event.start = self._start
        self._broker.publish(self._exporter, self._subject, encode(event))


# -- which requests are measured ----------------------------------------------------------------------


def chosen(
    latency: ServiceLatency, block: bytes, draw: Callable[[int], int] = random.randrange
) -> TraceHeaders | None:
    """Return the headers that ask for a measurement, none by chance; None if the request is not measured."""
    if latency.sampling >= _ALWAYS or (latency.sampling and draw(_ALWAYS) < latency.sampling):
        return {}
    return _asking(read_pairs(block)) if block else None


def _asking(pairs: Pairs) -> TraceHeaders | None:
    """Return the trace headers of a sampled trace: Jaeger, Zipkin in its two forms, or W3C."""
    found: TraceHeaders = {}
    for name, value in pairs:
        found.setdefault("-".join(part.capitalize() for part in name.split("-")), []).append(value)
    if _UBER in found:
        wanted = [name for name in found if name == _UBER or name.startswith(_UBER_CONTEXT)]
        return _only(found, wanted) if _uber_sampled(found[_UBER][0]) else None
    sampled = found.get(_B3_SAMPLED, [""])[0]
    if sampled == "0":
        return None
    if sampled == "1" or _B3_PARTS[1] in found:
        return _only(found, _B3_PARTS)
    if _B3 in found:
        parts = found[_B3][0].split("-")
        denied = parts == ["0"] or (len(parts) > 2 and parts[2] == "0")
        return None if denied else _only(found, [_B3])
    if _TRACE_PARENT in found:
        parts = found[_TRACE_PARENT][0].split("-")
        flags = _hexadecimal(parts[3]) if len(parts) == 4 and len(parts[3]) == 2 else 0
        return _only(found, [_TRACE_PARENT, _TRACE_STATE]) if flags & 1 and flags < 0x80 else None
    return None


def _uber_sampled(text: str) -> bool:
    parts = text.split(":")
    return len(parts) == 4 and 0 < len(parts[3]) <= 2 and bool(_hexadecimal(parts[3]) & 1)


def _hexadecimal(text: str) -> int:
    """Return the number, 0 if it is none."""
    try:
        return int(text, 16) if text.isalnum() and text.isascii() else 0
    except ValueError:
        return 0


def _only(found: TraceHeaders, names: list[str] | tuple[str, ...]) -> TraceHeaders:
    return {name: found[name] for name in names if name in found}
