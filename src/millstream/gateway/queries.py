"""SQL queries for HTTP callers: a few at once, each in its own process, fed by threads of the gateway.

A query reads with the link options of its caller.  DuckDB and pyarrow are an extra (`millstream[sql]`) and
are imported with the first query.
"""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from millstream.gateway.errors import (
    BadRequest,
    GatewayError,
    NotInstalled,
    Overloaded,
    PermissionDenied,
    Unprocessable,
)
from millstream.gateway.settings import Limits
from millstream.gateway.tables import TableDesk, translated
from millstream.link.options import LinkOptions

if TYPE_CHECKING:
    from millstream.queries.process import RunningQuery

_MIB: Final = 1024 * 1024
_FIRST_BYTES: Final = 256 * 1024  # gathered before an answer begins, so that most errors have their status
_ENDING_S: Final = 1.0  # for the end of a process whose time is over
_PACKAGES: Final = ("duckdb", "pyarrow")


class _Place:
    """The place of a query among those at once, until its process has ended.

    The process ends with the query's time at the latest, so a caller that takes no more of the result holds
    no place for longer.
    """

    def __init__(self, taken: set[_Place], time_s: float) -> None:
        self._taken = taken
        taken.add(self)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(time_s + _ENDING_S, self.free) if time_s else None

    def free(self) -> None:
        """Let another query have the place."""
        self._taken.discard(self)
        if self._timer is not None:
            self._timer.cancel()


class QueryDesk:
    """Runs the queries of one gateway."""

    def __init__(self, limits: Limits, tables: TableDesk) -> None:
        self._limits = limits
        self._tables = tables
        self._taken: set[_Place] = set()  # by the queries that run
        self._threads: ThreadPoolExecutor | None = None

    async def pieces(
        self, query: str, media_type: str, options: LinkOptions, rows: int, *, is_own: bool
    ) -> AsyncGenerator[bytes, None]:
        """Yield an empty piece when the result has begun, then the result; closing it ends the query.

        Raises GatewayError.  A result that is cut by the limit of rows says so in JSON, and fails otherwise.
        """
        missing = [each for each in _PACKAGES if importlib.util.find_spec(each) is None]
        if missing:
            raise NotInstalled(f"this gateway has no {' and '.join(missing)}: pip install 'millstream[sql]'")
        if not self._limits.sql_queries:
            raise PermissionDenied("SQL is switched off on this gateway; see gateway.limits.sql_queries")
        if len(self._taken) >= self._limits.sql_queries:
            raise Overloaded(f"{self._limits.sql_queries} queries run already; try again")
        place = _Place(self._taken, self._limits.sql_time_s)
        running: RunningQuery | None = None
        try:
            running, writer = await self._start(query, media_type, options, rows, is_own)
            first: list[bytes] = []
            size = 0
            while size < _FIRST_BYTES:
                piece = await self._in_thread(_next, writer)
                if piece is None:
                    break
                first.append(piece)
                size += len(piece)
            yield b""
            for piece in first:
                yield piece
            while size >= _FIRST_BYTES and (piece := await self._in_thread(_next, writer)) is not None:
                yield piece
            if running.statistics.truncated and not media_type.endswith("/json"):
                raise Unprocessable(f"the result has more than {running.statistics.rows:,} rows")
        finally:
            place.free()
            if running is not None:
                running.cancel()
                try:
                    self._pool().submit(running.close)
                except RuntimeError:  # the gateway stops and has no more threads
                    running.close()

    async def _start(self, *what: Any) -> tuple[RunningQuery, Iterator[bytes]]:
        """Start a query; if the caller goes meanwhile, it is ended as soon as it has started."""
        work = self._pool().submit(self._started, *what)
        try:
            return await asyncio.shield(asyncio.wrap_future(work))
        except asyncio.CancelledError:
            work.add_done_callback(_end_late)
            raise
        except Exception as error:
            raise _translated(error) or error from None

    def stop(self) -> None:
        """End the threads after the work that they have; the tasks of callers end what still runs."""
        if self._threads is not None:
            self._threads.shutdown(wait=False)

    def _started(
        self, query: str, media_type: str, options: LinkOptions, rows: int, is_own: bool
    ) -> tuple[RunningQuery, Iterator[bytes]]:
        from millstream.queries.formats import WRITERS
        from millstream.queries.limits import SqlLimits
        from millstream.queries.process import RunningQuery
        from millstream.queries.table_access import TableAccess
        from millstream.tables.source import TableSource

        most = self._limits.sql_rows
        limits = SqlLimits(
            memory_mib=max(1, self._limits.sql_memory // _MIB),
            time_s=self._limits.sql_time_s,
            rows=min(rows, most) if rows and most else rows or most,
        )
        source = TableSource(options, name="gateway/sql")
        judge = None if is_own else source
        tables = TableAccess(self._tables.library(), judge) if self._tables.is_open else None
        running = RunningQuery(query, source, limits, tables=tables)
        return running, WRITERS[media_type](running)

    async def _in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._pool(), function, *arguments)
        except Exception as error:
            raise _translated(error) or error from None

    def _pool(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._limits.sql_queries + 1, thread_name_prefix="sql")
        return self._threads


def _end_late(work: Future[Any]) -> None:
    """End a query whose caller has gone; this runs in the thread that started it."""
    if not work.cancelled() and work.exception() is None:
        work.result()[0].close()


def _next(writer: Iterator[bytes]) -> bytes | None:
    return next(writer, None)


def _translated(error: Exception) -> GatewayError | None:
    """Return the gateway's error for one of a query; None if it is a defect."""
    from millstream.queries.errors import SqlError, SqlLimit, SqlRefused

    for kind, made in (
        (SqlRefused, BadRequest),
        (SqlLimit, Unprocessable),
        (SqlError, BadRequest),
    ):
        if isinstance(error, kind):
            return made(str(error))
    return translated(error)
