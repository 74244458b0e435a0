"""The log of a gateway: lines on standard error, as text or as JSON."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from millstream.gateway.settings import Logging

LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
}
_OURS: Final = "millstream.gateway"
_ACCESS: Final = "millstream.gateway.access"
_THEIRS: Final = ("millstream.http", "nats")


class _Lines(logging.Formatter):
    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        text = record.getMessage()
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        if not self._as_json:
            return f"{moment} {record.levelname} {text}" + (f"\n{trace}" if trace else "")
        entry: dict[str, Any] = {"time": moment, "level": record.levelname.lower()}
        if record.name == _ACCESS:
            entry |= msgspec.json.decode(text)
        else:
            entry["message"] = text
        if trace:
            entry["trace"] = trace
        return msgspec.json.encode(entry).decode()


def set_up_logs(settings: Logging) -> None:
    """Set up the log of the process; access lines do not depend on the level."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines(as_json=settings.json))
    for name in (_OURS, *_THEIRS):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(LEVELS[settings.level] if name == _OURS else logging.ERROR)
    logging.getLogger(_ACCESS).setLevel(logging.INFO)
