"""The command line in this process: what is typed, what comes out, and how it ends."""

import contextlib
import io
import json
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple
from unittest import mock

from millstream.cli.main import main
from tests.kits.patience import PATIENCE_S

ESCAPES = "\x1b]0;owned\x07\x1b[2J\r\nmillstream: forged\u202e"  # what a terminal would act on


class Stream(io.TextIOWrapper):
    """A standard stream in memory, which may say that it is a terminal."""

    def __init__(self, content: bytes = b"", *, terminal: bool = False) -> None:
        super().__init__(io.BytesIO(content), encoding="utf-8", write_through=True)
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    @property
    def content(self) -> bytes:
        self.flush()
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue()


class Done(NamedTuple):
    """The end of a command."""

    code: int
    raw: bytes
    err: str

    @property
    def out(self) -> str:
        return self.raw.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.raw)

    @property
    def lines(self) -> list[Any]:
        """The lines of JSON."""
        return [json.loads(line) for line in self.raw.splitlines()]


class Cli:
    """Runs commands against one server."""

    def __init__(self, url: str = "", **environment: str) -> None:
        waits = {"NATS_TIMEOUT": f"{PATIENCE_S:g}"}
        self._environment = waits | ({"NATS_URL": url} if url else {}) | environment

    def __call__(
        self, *arguments: object, stdin: bytes = b"", terminal: bool = False, code: int | None = 0
    ) -> Done:
        """Run a command; it has to end with `code`, and without a traceback."""
        streams = Stream(stdin, terminal=terminal), Stream(terminal=terminal), Stream(terminal=terminal)
        with _as_standard(*streams), mock.patch.dict("os.environ", self._environment):
            try:
                main([str(each) for each in arguments])
            except SystemExit as ended:
                found = ended.code
        assert isinstance(found, int)
        done = Done(found, streams[1].content, streams[2].content.decode())
        assert "Traceback" not in done.err, done.err
        if code is not None:
            assert done.code == code, (arguments, done)
        if code:
            assert len(done.err.splitlines()) <= 3, done.err  # one clear sentence, and what was there before
        return done


@contextlib.contextmanager
def _as_standard(stdin: Stream, stdout: Stream, stderr: Stream) -> Iterator[None]:
    kept = sys.stdin, sys.stdout, sys.stderr
    sys.stdin, sys.stdout, sys.stderr = stdin, stdout, stderr
    try:
        yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = kept


def assert_harmless(text: str) -> None:
    """Fail if a terminal would act on a text, or a line of it was made by somebody else."""
    assert all(each.isprintable() for line in text.split("\n") for each in line), ascii(text)
    assert not any(line.startswith("millstream: forged") for line in text.split("\n")), text
