"""The protocol trace (`-V`): one log line for every operation, in the reference's notation.

Only built when asked for; without it the path of a message does not know that tracing exists.
"""

import logging
import re
from typing import TYPE_CHECKING

from millstream.protocol.parser import Op

if TYPE_CHECKING:
    from millstream.broker.connection import Connection
    from millstream.broker.router import Target
    from millstream.protocol.parser import Frame

TRACE = 5  # below logging.DEBUG
logging.addLevelName(TRACE, "TRACE")
_log = logging.getLogger("millstream.trace")


class Tracer:
    """Traces one connection."""

    def __init__(self, connection: "Connection", max_payload: int) -> None:
        self._connection = connection
        self._max_payload = max_payload

    def operation_in(self, op: int, argument: bytes) -> None:
        text = argument.decode(errors="replace")
        if op == Op.CONNECT:
            text = _without_secrets(text)
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
            subject.decode(errors="replace"),
            sid.decode(),
            frame.reply().decode(errors="replace"),
            sizes,
        )
        return " ".join(part for part in parts if part)

    def _payload(self, arrow: str, frame: "Frame") -> None:
        body = frame.headers() + frame.payload()
        shown = body[: self._max_payload] if self._max_payload else body
        more = "..." if len(shown) < len(body) else ""
        _log.log(
            TRACE,
            '%s - %s MSG_PAYLOAD: ["%s%s"]',
            self._connection,
            arrow,
            shown.decode(errors="replace"),
            more,
        )

    def _line(self, arrow: str, text: str) -> None:
        _log.log(TRACE, "%s - %s [%s]", self._connection, arrow, text)


def _without_secrets(text: str) -> str:
    """Passwords, tokens and signatures do not belong in a log."""
    return re.sub(r'"(pass|auth_token|sig|jwt)"\s*:\s*"[^"]*"', r'"\1":"[REDACTED]"', text)
