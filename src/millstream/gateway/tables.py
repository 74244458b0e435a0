"""The Iceberg tables of a gateway for its callers, read by a few threads of its own.

A caller with NATS credentials of its own sees the tables whose streams it may read (`TableAccess`); a caller
without sees what the gateway itself sees, which is all of them.  PyIceberg is an extra (`millstream[lake]`)
and is imported with the first call.
"""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, TypeVar

from millstream.gateway.errors import (
    GatewayError,
    NotFound,
    NotInstalled,
    PermissionDenied,
    Unavailable,
    Unprocessable,
)
from millstream.gateway.settings import Lake
from millstream.link.options import LinkOptions

if TYPE_CHECKING:
    from millstream.lake.library import TableLibrary
    from millstream.queries.table_access import TableAccess

Result = TypeVar("Result")

_THREADS: Final = 2


class TableDesk:
    """The tables of one gateway; without settings it has none."""

    def __init__(self, settings: Lake | None) -> None:
        self._settings = settings
        self._library: TableLibrary | None = None
        self._threads: ThreadPoolExecutor | None = None

    @property
    def is_open(self) -> bool:
        """Return True if the gateway has a catalog."""
        return self._settings is not None

    def library(self) -> TableLibrary:
        """Return the tables; raise NotFound without a catalog, NotInstalled without PyIceberg."""
        if self._settings is None:
            raise NotFound("this gateway serves no tables; see gateway.lake")
        if importlib.util.find_spec("pyiceberg") is None or importlib.util.find_spec("pyarrow") is None:
            raise NotInstalled("this gateway has no PyIceberg: pip install 'millstream[lake]'")
        if self._library is None:
            from millstream.lake.catalog import CatalogSettings
            from millstream.lake.library import TableLibrary

            one = self._settings
            self._library = TableLibrary(
                CatalogSettings(one.name, one.warehouse, one.type, one.uri, one.properties)
            )
        return self._library

    async def ask(
        self, options: LinkOptions, *, is_own: bool, work: Callable[[TableAccess], Result]
    ) -> Result:
        """Return the result of `work` in a thread; raise GatewayError."""
        library = self.library()
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="tables")
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, _answered, library, None if is_own else options, work
        )

    def stop(self) -> None:
        """Let the threads end, and close the catalog."""
        if self._threads is not None:
            self._threads.shutdown(wait=False)
        if self._library is not None:
            self._library.close()


def _answered(library: TableLibrary, judge: LinkOptions | None, work: Callable[[TableAccess], Any]) -> Any:
    from millstream.queries.table_access import TableAccess
    from millstream.tables.source import TableSource

    source = None if judge is None else TableSource(judge, name="gateway/iceberg")
    try:
        return work(TableAccess(library, source))
    except Exception as error:
        raise translated(error) or error from None
    finally:
        if source is not None:
            source.close()


def translated(error: Exception) -> GatewayError | None:
    """Return the gateway's error for one of tables and their streams; None if it is another one."""
    from millstream.lake.errors import LakeError, LakeMissing, LakeUnavailable, TableMissing
    from millstream.tables.errors import NotAllowed, SourceUnavailable, StreamAccessError, StreamMissing

    for kind, made in (
        (TableMissing, NotFound),
        (LakeUnavailable, Unavailable),
        (LakeMissing, NotInstalled),
        (LakeError, Unprocessable),
        (StreamMissing, NotFound),
        (NotAllowed, PermissionDenied),
        (SourceUnavailable, Unavailable),
        (StreamAccessError, Unavailable),
    ):
        if isinstance(error, kind):
            return made(str(error))
    return None
