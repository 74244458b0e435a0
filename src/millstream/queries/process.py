"""A query in a process of its own: start it, give it the rows that it asks for, take its result, end it.

The parent reads streams and tables, with the caller's credentials, and writes their rows to pipes; a pipe
that is full stops the reading, so memory stays flat.  The engine gets an empty environment and no descriptor
but its pipes.  Whatever it does, the parent ends it when its time is over, when the caller cancels, and when
the caller is done.
"""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, Final, Self

import pyarrow as pa

from millstream.base.errors import MillstreamError
from millstream.queries import dialogue as say
from millstream.queries.errors import SqlCancelled, SqlError, SqlLimit, SqlRefused
from millstream.queries.limits import LONGEST_QUERY, SqlLimits
from millstream.queries.reading import QueryReader
from millstream.queries.relations import RelationName, RelationPart
from millstream.queries.statistics import QueryStatistics
from millstream.queries.table_access import TableAccess
from millstream.tables.source import TableSource

_KEPT_VARIABLES: Final = ("LD_LIBRARY_PATH", "MILLSTREAM_PURE", "PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV")
_END_S: Final = 5.0


class EngineProcess:
    """A process that waits for one query; start one ahead, and the next query need not wait for it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        result, result_end = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "millstream.queries", str(theirs.fileno()), str(result_end)],
                env=_environment(),
                cwd="/",
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), result_end),
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            os.close(result)
            raise SqlError(f"the process for the query does not start: {error}") from None
        finally:
            theirs.close()
            os.close(result_end)
        self.dialogue: Final = say.EngineDialogue(ours)
        self.result: Final = open(result, "rb")  # noqa: SIM115  # `close` of the query closes it

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def end(self) -> int:
        """End the process, whatever it does, and return its exit code; close all pipes to it."""
        if self._process.poll() is None:
            self._process.kill()
        code = self._process.wait()
        self.dialogue.close()
        if self._process.stdin is not None:
            self._process.stdin.close()
        return code

    def wait(self) -> int:
        """Return the exit code of a process that is about to end; end it if it does not."""
        try:
            return self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            return self.end()


def _environment() -> dict[str, str]:
    """Return what Python needs to start, and no more: queries can read the environment."""
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    return kept | {"ARROW_DEFAULT_MEMORY_POOL": "system"}  # the others reserve a gigabyte at once


class RunningQuery:
    """A query whose process has begun; use with `with`, which ends it."""

    def __init__(
        self,
        query: str,
        source: TableSource,
        limits: SqlLimits,
        engine: EngineProcess | None = None,
        *,
        tables: TableAccess | None = None,
    ) -> None:
        if len(query.encode()) > LONGEST_QUERY:
            raise SqlRefused(f"the query is longer than {LONGEST_QUERY // 1024} KiB")
        self.statistics: Final = QueryStatistics(scans=[])
        self._limits = limits
        self._reader = QueryReader(source, tables)
        self._began = time.monotonic()
        self._failure: MillstreamError | None = None
        self._outcome: say.Finished | say.Failed | None = None
        self._engine = engine or EngineProcess()
        self._timer = threading.Timer(limits.time_s, self._expire) if limits.time_s else None
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()
        self._talk = threading.Thread(target=self._serve, args=(query,), daemon=True, name="sql-dialogue")
        self._talk.start()

    @property
    def pid(self) -> int:
        """The process id of the engine."""
        return self._engine.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def batches(self) -> Iterator[Any]:
        """Yield the schema first, then the record batches of the result; raise the error of the query."""
        try:
            with pa.ipc.open_stream(self._engine.result) as reader:
                yield reader.schema
                for batch in reader:
                    self.statistics.rows += batch.num_rows
                    yield batch
        except (pa.ArrowInvalid, OSError, ValueError):
            pass  # the result was cut; the dialogue says why
        self._talk.join()
        self._conclude()

    def cancel(self) -> None:
        """End the query from another thread; `batches` raises SqlCancelled."""
        self._fail(SqlCancelled("the query was cancelled"))
        self._engine.end()

    def close(self) -> None:
        """End the process and all reading for it."""
        if self._timer is not None:
            self._timer.cancel()
        self._engine.end()
        self._engine.result.close()
        self._reader.close()

    def _expire(self) -> None:
        self._fail(SqlLimit(f"the query took longer than {self._limits.time_s:g} s"))
        self._engine.end()

    def _fail(self, error: MillstreamError) -> None:
        if self._failure is None and self._outcome is None:
            self._failure = error

    def _conclude(self) -> None:
        statistics = self.statistics
        statistics.seconds = round(time.monotonic() - self._began, 6)
        statistics.messages = sum(scan.messages for scan in statistics.scans)
        statistics.bytes = sum(scan.bytes for scan in statistics.scans)
        if self._failure is not None:
            raise self._failure
        match self._outcome:
            case say.Finished(truncated):
                statistics.truncated = truncated
                return
            case say.Failed("refused", text):
                raise SqlRefused(text)
            case say.Failed("catalog", text):
                raise self._reader.complaint() or SqlError(text)
            case say.Failed("memory"):
                raise self._too_big()
            case say.Failed(_, text):
                raise SqlError(text)
        code = self._engine.wait()
        if code < 0:  # a signal: the limits of the process, or the system's own
            raise self._too_big()
        raise SqlError(f"the process of the query ended unexpectedly, with code {code}")

    def _too_big(self) -> SqlLimit:
        return SqlLimit(f"the query needs more than {self._limits.memory_mib} MiB of memory")

    # -- what the engine asks for --------------------------------------------------------------------

    def _serve(self, query: str) -> None:
        line = self._engine.dialogue
        try:
            line.send(say.QueryStart(query, self._limits))
            while self._outcome is None:
                message = line.receive()
                match message:
                    case say.Resolve(names):
                        found = [self._reader.resolve(RelationName(*each)) for each in names]
                        line.send(say.Resolved(found))
                    case say.ScanRequest():
                        self._begin(message.scan())
                    case say.Finished() | say.Failed():
                        self._outcome = message
        except say.DialogueEnded:
            pass
        except MillstreamError as error:
            self._fail(error)
            self._engine.end()

    def _begin(self, scan: RelationPart) -> None:
        schema = self._reader.schema(scan)
        reading, writing = os.pipe()
        threading.Thread(
            target=self._write_rows, args=(scan, schema, writing), daemon=True, name="sql-scan"
        ).start()
        self._engine.dialogue.send(say.Granted())
        self._engine.dialogue.send_pipe(reading)

    def _write_rows(self, scan: RelationPart, schema: Any, pipe: int) -> None:
        """Write the rows of a scan; they lack their end mark if reading failed, and the error is kept."""
        with contextlib.suppress(OSError), os.fdopen(pipe, "wb") as rows:  # OSError: the engine is gone
            try:
                with pa.ipc.new_stream(rows, schema) as writer:
                    for batch in self._reader.batches(scan, self.statistics.scans.append):
                        writer.write_batch(batch)
                rows.write(say.COMPLETE)
            except MillstreamError as error:
                self._fail(error)
                self._engine.end()
