"""The prompt of `millstream sql`: lines up to a semicolon, a history, and the names that Tab completes.

The line editor is Python's own readline, which every Linux and macOS build has; a library of ours would add
colours and little else.  The history is a file of the user alone, `sql_history` in the state folder
(`XDG_STATE_HOME`, or ~/.local/state/millstream).
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from millstream.base.errors import MillstreamError
from millstream.cli.endings import tell

if TYPE_CHECKING:
    from millstream.tables.source import TableSource

_WORDS: Final = (
    "and", "as", "asc", "avg", "between", "by", "cast", "count", "data", "desc", "describe", "distinct",
    "explain", "from", "group", "having", "headers", "in", "interval", "is", "join", "key", "left", "like",
    "limit", "max", "min", "not", "now()", "null", "on", "operation", "or", "order", "qualify", "revision",
    "select", "seq", "size", "stream", "subject", "sum", "summarize", "then", "time", "using", "value",
    "when", "where", "with",
)  # fmt: skip
_COMMANDS: Final = {".tables": "streams and buckets", ".help": "this help", ".exit": "end; so does Ctrl-D"}
_MOST_LINES: Final = 1_000
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class SqlPrompt:
    """Reads queries until the end of input; `answer` prints the result of each."""

    def __init__(self, source: TableSource, answer: Callable[[str], None]) -> None:
        self._source = source
        self._answer = answer
        self._names: list[str] | None = None
        self._offered: list[str] = []

    def run(self) -> None:
        """Read and answer queries; Ctrl-C ends a query or a line, Ctrl-D the prompt."""
        self._prepare()
        print("SQL over streams; end a query with a semicolon. Help: .help", file=sys.stderr)
        lines: list[str] = []
        while True:
            try:
                line = input("   ...> " if lines else "sql> ")
            except EOFError:
                print(file=sys.stderr)
                return
            except KeyboardInterrupt:
                print(file=sys.stderr)
                lines = []
                continue
            if not lines and line.strip().startswith("."):
                if not self._command(line.strip()):
                    return
                continue
            lines.append(line)
            query = "\n".join(lines).strip()
            if query.endswith(";") or not query:
                lines = []
                if query.rstrip(";"):
                    self._run_query(query)

    def _run_query(self, query: str) -> None:
        try:
            self._answer(query)
        except MillstreamError as error:
            tell(str(error))
        except KeyboardInterrupt:
            tell("interrupted")

    def _command(self, command: str) -> bool:
        """Run a command of the prompt; return False if it ends the prompt."""
        match command:
            case ".exit" | ".quit":
                return False
            case ".tables":
                try:
                    print("\n".join(self._relations()))
                except MillstreamError as error:
                    tell(str(error))
            case _:
                print("\n".join(f"{name:<9}{text}" for name, text in _COMMANDS.items()))
        return True

    def _relations(self) -> list[str]:
        self._names = [relation_text(name) for name in self._source.names()]
        return self._names

    def _prepare(self) -> None:
        try:
            import readline
        except ImportError:  # a Python without it; lines can be typed all the same
            return
        readline.set_completer(self.complete)
        readline.set_completer_delims(" \t\n,()=<>;'+-")
        readline.parse_and_bind("tab: complete")
        path = _history_file()
        if path is None:
            return
        with contextlib.suppress(OSError):
            readline.read_history_file(path)
        readline.set_history_length(_MOST_LINES)
        import atexit

        atexit.register(_save, path)

    def complete(self, text: str, state: int) -> str | None:
        """Return the completion number `state` of a word, or None."""
        if state == 0:
            if self._names is None:
                with contextlib.suppress(MillstreamError):
                    self._relations()
            known = [*(self._names or ()), *_WORDS, *_COMMANDS]
            self._offered = [word for word in known if word.lower().startswith(text.lower())]
        return self._offered[state] if state < len(self._offered) else None


def relation_text(stream: str) -> str:
    """Return the name of a stream or bucket as a query has it."""
    bucket = stream.startswith("KV_")
    name = stream.removeprefix("KV_")
    quoted = name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"'
    return f"kv.{quoted}" if bucket else quoted


def _history_file() -> Path | None:
    """Return the file of the history, made for the user alone; None if there is no place for it."""
    state = os.environ.get("XDG_STATE_HOME", "")
    try:
        folder = (Path(state) if state else Path.home() / ".local" / "state") / "millstream"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = folder / "sql_history"
        path.touch(mode=0o600)
    except (OSError, RuntimeError):
        return None
    return path


def _save(path: Path) -> None:
    import readline

    with contextlib.suppress(OSError):
        readline.write_history_file(path)
