"""The protocol trace (`-V`): one log line for every operation, in nats-server's notation.

Built only on request; otherwise the path of a message has no trace code.
"""

import logging
from typing import TYPE_CHECKING, Final

from millstream.broker.client_json import BadJson, read_object
from millstream.golang.quote import quoted
from millstream.protocol.parser import Op

if TYPE_CHECKING:
    from millstream.broker.connection import Connection
    from millstream.broker.options import BrokerOptions
    from millstream.broker.routes import Target
    from millstream.protocol.parser import Frame

TRACE = 5  # below logging.DEBUG
logging.addLevelName(TRACE, "TRACE")
_log = logging.getLogger("millstream.trace")

_CRLF: Final = b"\r\n"
_SECRETS: Final = frozenset(("pass", "password", "auth_token", "token", "sig", "jwt", "proxy_sig"))


class Tracer:
    """Traces one connection."""

    def __init__(self, connection: "Connection", options: "BrokerOptions") -> None:
        self._connection = connection
        self._max_payload = options.max_traced_message
        self._headers_only = options.trace_headers

    def operation_in(self, op: int, argument: bytes) -> None:
        text = _without_secrets(argument) if op == Op.CONNECT else one_line(argument)
        self._line("<<-", f"{Op(op).name} {text}".rstrip())

    def message_in(self, subject: bytes, frame: "Frame") -> None:
        name = "HPUB" if frame.header_size >= 0 else "PUB"
        self._line("<<-", self._describe(name, subject, b"", frame))
        self._payload("<<-", frame)

    def message_out(self, target: "Target", frame: "Frame") -> None:
        name = "HMSG" if frame.header_size >= 0 and self._connection.headers else "MSG"
        self._line("->>", self._describe(name, target.subject, target.subscription.sid, frame))

    def _describe(self, name: str, subject: bytes, sid: bytes, frame: "Frame") -> str:
        sizes = str(frame.body_size)
        if frame.header_size >= 0:
            sizes = f"{frame.header_size} {sizes}"
        parts = (
            name,
            one_line(subject),
            one_line(sid),
            one_line(frame.reply()),
            sizes,
        )
        return " ".join(part for part in parts if part)

    def _payload(self, arrow: str, frame: "Frame") -> None:
        body = (
            frame.headers().removesuffix(_CRLF * 2)
            if self._headers_only
            else frame.headers() + frame.payload()
        )
        if not body:
            return
        shown = body[: self._max_payload] if self._max_payload else body
        more = "..." if len(shown) < len(body) else ""
        _log.log(
            TRACE,
            '%s - %s MSG_PAYLOAD: ["%s%s"]',
            self._connection,
            arrow,
            one_line(shown),
            more,
        )

    def _line(self, arrow: str, text: str) -> None:
        _log.log(TRACE, "%s - %s [%s]", self._connection, arrow, text)


def one_line(text: bytes) -> str:
    """Return a client's bytes as Go's %q shows them, without quotes, on one line."""
    return quoted(text)[1:-1]


def _without_secrets(argument: bytes) -> str:
    """Return the options of CONNECT without secrets.

    They are parsed first, because a key may be written in many ways: `"PASS"` and `"p\\u0061ss"` are
    passwords. Unparsable options are not shown at all.
    """
    try:
        options = read_object(argument)
    except BadJson:
        return f"[{len(argument)} bytes that are no JSON object]"
    shown = {key: "[REDACTED]" if key.lower() in _SECRETS else value for key, value in options.items()}
    import json

    return one_line(json.dumps(shown, separators=(",", ":"), ensure_ascii=False).encode(errors="replace"))
