"""The process of one query: DuckDB without files, network, extensions and settings, within limits of its own.

`process` starts it with two descriptors: of its dialogue, and of the pipe for its result.  Standard input is
a pipe that nobody writes to: its end means that the parent is gone, and the engine ends at once.
"""

import contextlib
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any, Final

import duckdb
import pyarrow as pa

from millstream.queries import dialogue as say
from millstream.queries.errors import SqlError, SqlRefused
from millstream.queries.limits import MIB, SqlLimits
from millstream.queries.relations import FoundRelation, RelationName, RelationPart
from millstream.queries.session import add_relations, check_statement, one_line, open_session, relation_names

_UNCOUNTED_MIB: Final = 256  # for what DuckDB does not count, such as long texts and rows on their way
_LIBRARIES_MIB: Final = 1024
_DESCRIPTORS: Final = 128
_CPU_MARGIN_S: Final = 5
_BATCH_ROWS: Final = 10_000
_SIGNS_OF_NO_MEMORY: Final = ("Out of Memory", "bad_alloc", "bad allocation", "malloc")
_OUT_OF_MEMORY: Final = (MemoryError, duckdb.OutOfMemoryException, pa.ArrowMemoryError)


class ScanBroken(Exception):
    """The rows of a scan ended before their end; the parent knows why."""


class RemoteScans:
    """Asks the parent for relations and their rows; scans may come from several threads of DuckDB."""

    def __init__(self, parent: say.EngineDialogue) -> None:
        self._parent = parent
        self._turn = threading.Lock()

    def resolve(self, names: list[RelationName]) -> dict[RelationName, FoundRelation | None]:
        """Return the places of relations."""
        with self._turn:
            self._parent.send(say.Resolve([(name.schema, name.name) for name in names]))
            answer = self._parent.receive()
        return dict(zip(names, answer.found, strict=True))

    def batches(self, scan: RelationPart) -> Iterator[Any]:
        """Yield the rows of a scan; raise ScanBroken if they do not come to their end."""
        with self._turn:
            self._parent.send(say.ScanRequest.of(scan))
            self._parent.receive()
            pipe = self._parent.receive_pipe()
        with open(pipe, "rb") as rows:
            try:
                with pa.ipc.open_stream(rows) as stream_of_rows:
                    yield from stream_of_rows
            except (pa.ArrowInvalid, OSError) as error:
                raise ScanBroken(str(error)) from None
            if rows.read(1) != say.COMPLETE:
                raise ScanBroken("the rows of a scan were cut off")


def run(parent: say.EngineDialogue, result: Any) -> None:
    """Answer one query."""
    start = parent.receive()
    try:
        truncated = _answer(start, RemoteScans(parent), result)
    except SqlRefused as error:
        parent.send(say.Failed("refused", str(error)))
    except SqlError as error:
        parent.send(say.Failed(_kind_of(error), str(error)))
    except _OUT_OF_MEMORY as error:
        parent.send(say.Failed("memory", one_line(error)))
    except duckdb.CatalogException as error:
        parent.send(say.Failed("catalog", one_line(error)))
    except (duckdb.Error, pa.ArrowException, ScanBroken, ValueError, RuntimeError) as error:
        parent.send(say.Failed(_kind_of(error), one_line(error)))
    else:
        parent.send(say.Finished(truncated))


def _kind_of(error: Exception) -> str:
    """Return what failed.  DuckDB may lack the memory even to make the exception, and then raises another."""
    return "memory" if any(sign in str(error) for sign in _SIGNS_OF_NO_MEMORY) else "error"


def _answer(start: say.QueryStart, scans: RemoteScans, result: Any) -> bool:
    """Write the result; return True if rows were left out."""
    connection = open_session(_settings(start.limits))
    connection.execute("SET lock_configuration = true")
    _limit(start.limits)
    check_statement(connection, start.query)
    names = relation_names(connection, start.query)
    add_relations(connection, names, scans.resolve(names).__getitem__, scans.batches)
    reader = connection.sql(start.query).to_arrow_reader(_BATCH_ROWS)  # `execute` would gather all rows
    left = start.limits.rows or sys.maxsize
    with pa.ipc.new_stream(result, reader.schema) as writer:
        result.flush()
        for batch in reader:
            if batch.num_rows > left:
                writer.write_batch(batch.slice(0, left))
                return True
            left -= batch.num_rows
            writer.write_batch(batch)
    return False


def _settings(limits: SqlLimits) -> dict[str, Any]:
    return {
        "allow_community_extensions": False,
        "allow_persistent_secrets": False,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "enable_external_access": False,
        "max_temp_directory_size": "0KiB",
        "memory_limit": f"{limits.memory_mib}MiB",
        "python_enable_replacements": False,
        "temp_directory": "",
        "threads": limits.threads,
    }


def _limit(limits: SqlLimits) -> None:
    """Limit the process, for what DuckDB does not limit itself."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    _set(resource.RLIMIT_CORE, 0)
    _set(resource.RLIMIT_FSIZE, 0)
    _set(resource.RLIMIT_NOFILE, _DESCRIPTORS)
    _set(resource.RLIMIT_DATA, _own_bytes() + (limits.memory_mib + _UNCOUNTED_MIB) * MIB)
    if limits.time_s:
        _set(resource.RLIMIT_CPU, int(limits.time_s * (limits.threads + 1)) + _CPU_MARGIN_S)


def _own_bytes() -> int:
    """Return the memory that the interpreter and its libraries have before the query."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[5]) * resource.getpagesize()
    except (OSError, LookupError, ValueError):  # not Linux
        return _LIBRARIES_MIB * MIB


def _set(kind: int, most: int) -> None:
    _, hard = resource.getrlimit(kind)
    value = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (value, value))


def _end_with_parent() -> None:
    with contextlib.suppress(OSError):
        while os.read(0, 1):
            pass
    os._exit(1)


def main() -> None:
    """Run the engine; it ends without the clean-up of the interpreter, which has nothing to keep."""
    line, result = int(sys.argv[1]), int(sys.argv[2])
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(say.DialogueEnded, BrokenPipeError), os.fdopen(result, "wb") as pipe:
        run(say.EngineDialogue(socket.socket(fileno=line)), pipe)
    os._exit(0)
