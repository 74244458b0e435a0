"""Set up logging, in nats-server's line format or as one JSON object per line."""

import logging
import os
import sys
import time

from millstream.base.errors import MillstreamError
from millstream.base.reasons import file_reason
from millstream.broker.protocol_trace import TRACE
from millstream.config.options import LogOptions

_LABELS = {
    TRACE: "TRC",
    logging.DEBUG: "DBG",
    logging.INFO: "INF",
    logging.WARNING: "WRN",
    logging.ERROR: "ERR",
}


class LineFormatter(logging.Formatter):
    """Format lines as nats-server does, because tools read them.

    ``[pid] 2026/11/15 19:57:39.182914 [INF] text``.
    """

    def __init__(self, *, with_time: bool, utc: bool, color: bool) -> None:
        super().__init__()
        self._with_time = with_time
        self._utc = utc
        self._color = color

    def format(self, record: logging.LogRecord) -> str:
        label = _LABELS.get(record.levelno, "FTL")
        if self._color:
            label = _COLORS.get(label, "") + label + "\x1b[0m"
        stamp = f"{_timestamp(record, self._utc)} " if self._with_time else ""
        text = f"[{os.getpid()}] {stamp}[{label}] {record.getMessage()}"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return text


_COLORS = {"DBG": "\x1b[36m", "TRC": "\x1b[33m", "INF": "\x1b[32m", "WRN": "\x1b[33m", "ERR": "\x1b[31m"}


class JsonFormatter(logging.Formatter):
    """Format a record as one JSON object: time (RFC 3339, UTC), level, logger, message."""

    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        entry = {
            "time": f"{seconds}.{int(record.created % 1 * 1e6):06d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": os.getpid(),
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        import json

        return json.dumps(entry, ensure_ascii=False)


def _timestamp(record: logging.LogRecord, utc: bool) -> str:
    moment = time.gmtime(record.created) if utc else time.localtime(record.created)
    return f"{time.strftime('%Y/%m/%d %H:%M:%S', moment)}.{int(record.created % 1 * 1e6):06d}"


class LogError(MillstreamError):
    """The log cannot be opened."""


def set_up(options: LogOptions) -> logging.Handler:
    """Send everything under ``millstream`` to the log of the options; return the handler for ``take_down``.

    Raises LogError if the file cannot be opened.
    """
    handler = _file_handler(options) if options.file else logging.StreamHandler(sys.stderr)
    if options.json:
        handler.setFormatter(JsonFormatter())
    else:
        color = not options.file and sys.stderr.isatty()
        handler.setFormatter(LineFormatter(with_time=options.time, utc=options.utc, color=color))
    root = logging.getLogger("millstream")
    root.addHandler(handler)
    root.propagate = False
    set_level(options)
    return handler


def _file_handler(options: LogOptions) -> logging.Handler:
    import logging.handlers

    try:
        return logging.handlers.RotatingFileHandler(
            options.file,
            maxBytes=options.size_limit,
            backupCount=max(options.max_files - 1, 0) or (10_000 if options.size_limit else 0),
            encoding="utf-8",
        )
    except OSError as error:
        raise LogError(f"cannot open the log file {options.file}: {file_reason(error)}") from error


def set_level(options: LogOptions) -> None:
    """Set the levels for debug and trace; they can change while the server runs."""
    logging.getLogger("millstream").setLevel(logging.DEBUG if options.debug else logging.INFO)
    logging.getLogger("millstream.trace").setLevel(TRACE if options.trace else logging.CRITICAL)


def take_down(handler: logging.Handler) -> None:
    logging.getLogger("millstream").removeHandler(handler)
    handler.close()


def reopen(handler: logging.Handler) -> None:
    """Close a log file that was renamed; the next line opens a new one under its name."""
    if isinstance(handler, logging.FileHandler):
        handler.acquire()
        try:
            handler.close()
        finally:
            handler.release()
