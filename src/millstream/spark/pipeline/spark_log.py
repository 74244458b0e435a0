"""The file for the output of Spark: its JVM, its workers and its Python.

The terminal shows progress and one line when something is wrong; Java's stack traces are in this file.  It is
removed after a successful run, unless the user named it.
"""

import contextlib
import logging
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from millstream.base.errors import MillstreamError
from millstream.base.reasons import file_reason

_FRAME: Final = re.compile(r"at \S+\(|\.\.\. \d+ more")
# Spark's Python logs every error of a query with all stack traces; the caller gets the error anyway.
_PYTHON_LOGS: Final = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


class SparkLog:
    """The log file of one run; use with ``with``."""

    def __init__(self, path: Path | None = None) -> None:
        self.is_wanted = False  # kept at the end, because a message refers to it
        self._is_temporary = path is None
        try:
            if path is None:
                self._descriptor, name = tempfile.mkstemp(prefix="millstream-spark-", suffix=".log")
                self.path = Path(name)
            else:
                self.path = path
                self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
        except OSError as error:
            raise MillstreamError(f"cannot write the log of Spark to {path}: {file_reason(error)}") from None

    @contextlib.contextmanager
    def taking_output(self) -> Iterator[None]:
        """Redirect standard output and error of processes started meanwhile to this file."""
        sys.stdout.flush()
        sys.stderr.flush()
        kept = [os.dup(number) for number in (1, 2)]
        try:
            for number in (1, 2):
                os.dup2(self._descriptor, number)
            yield
        finally:
            for number, descriptor in zip((1, 2), kept, strict=True):
                os.dup2(descriptor, number)
                os.close(descriptor)

    def quieten_python(self) -> None:
        """Keep the log lines of Spark's Python off the terminal."""
        from pyspark.logger import PySparkLogger

        for name in _PYTHON_LOGS:
            PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)

    def last_words(self) -> str:
        """Return the last line that is not part of a stack trace."""
        lines = [line.strip() for line in self.path.read_text(errors="replace").split("\n")]
        told = (line for line in reversed(lines) if line and not _FRAME.match(line))
        return next(told, "nothing was printed")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)
        foreseen = error is None or isinstance(error, MillstreamError)  # the error explains itself
        if self._is_temporary and foreseen and not self.is_wanted:
            self.path.unlink(missing_ok=True)
