"""Which modules are compiled, and which build of them is running.

The modules on the path of a message are ordinary ``.py`` files with a ``.pxd`` of C types beside
them.  Building the package compiles them; ``MILLRACE_PURE=1`` means "interpreted, please", both
when the package is built (no compiler needed) and when it runs (a debugger and coverage see every
line).  Without that switch a missing compiled module is an error, never a quiet slow-down.

Imports nothing but the standard library: ``setup.py`` runs this file before anything is installed.
"""

import importlib.machinery
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Sequence
from types import ModuleType
from typing import Final

PURE_SWITCH: Final = "MILLRACE_PURE"

# These use instructions of one architecture; others do without.  A universal build of macOS is for two.
X86_MODULES: Final = ("millrace.store.checksum_x86",)
COMPILED_FOR_X86: Final = sysconfig.get_platform().endswith("-x86_64")

COMPILED_MODULES: Final = (
    "millrace.base.buffer",
    "millrace.subjects.match",
    "millrace.subjects.tree",
    "millrace.protocol.parser",
    "millrace.protocol.outbuf",
    "millrace.protocol.replies",
    "millrace.protocol.outlet",
    "millrace.protocol.inlet",
    "millrace.protocol.masking",
    "millrace.store.checksum",
    *(X86_MODULES if COMPILED_FOR_X86 else ()),
    "millrace.store.record",
    "millrace.store.disk_writer",
    "millrace.store.numbers",
    "millrace.store.index",
    "millrace.store.subject_list",
    "millrace.store.segment",
    "millrace.store.summary",
    "millrace.store.scan",
    "millrace.store.log_reading",
    "millrace.store.log_writing",
    "millrace.store.log",
    "millrace.store.cursor",
    "millrace.store.frozen",
    "millrace.wire.parser",
    "millrace.spark.memory",
    "millrace.spark.columns",
    "millrace.spark.intake",
    "millrace.wire.publishing",
    "millrace.spark.writing.frames",
    "millrace.broker.router",
    "millrace.broker.internal",
    "millrace.broker.connection",
    "millrace.broker.outlet",
    "millrace.jetstream.dedupe",
    "millrace.jetstream.staging",
    "millrace.jetstream.ingest",
    "millrace.jetstream.direct_sending",
    "millrace.jetstream.archive.s2",
    "millrace.jetstream.archive.entries",
    "millrace.jetstream.archive.writing",
    "millrace.jetstream.archive.messages",
    "millrace.jetstream.archive.highway",
    "millrace.jetstream.archive.blocks",
    "millrace.jetstream.sourcing.intake",
    "millrace.jetstream.consumers.entries",
    "millrace.jetstream.consumers.ledger",
    "millrace.jetstream.consumers.acks",
    "millrace.jetstream.consumers.delivery",
    "millrace.jetstream.consumers.pull_requests",
    "millrace.jetstream.consumers.pulls",
    "millrace.arrow.text",
    "millrace.arrow.header_lines",
    "millrace.arrow.columns",
    "millrace.arrow.header_columns",
    "millrace.arrow.picks",
    "millrace.arrow.batch",
)


class MissingCompiledModules(ImportError):
    """The package was built without its compiled modules and pure was not asked for."""


def pure_requested() -> bool:
    """Whether the environment asks for the interpreted build."""
    return os.environ.get(PURE_SWITCH) == "1"


class _SourceFirst(importlib.machinery.PathFinder):
    """Finds the ``.py`` of a compiled module although the extension lies beside it."""

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in COMPILED_MODULES or path is None:
            return None
        source = importlib.machinery.FileFinder(
            path[0], (importlib.machinery.SourceFileLoader, importlib.machinery.SOURCE_SUFFIXES)
        )
        return source.find_spec(fullname)


def select() -> str:
    """Choose the build for this process and return its name: ``compiled`` or ``pure``."""
    if pure_requested():
        if _SourceFirst not in sys.meta_path:
            sys.meta_path.insert(0, _SourceFirst)
        return "pure"
    missing = [name for name in COMPILED_MODULES if not _is_extension(name)]
    if missing:
        raise MissingCompiledModules(
            f"millrace was built without its compiled modules ({', '.join(missing)}); "
            f"build it again with a C compiler, or set {PURE_SWITCH}=1 to run interpreted"
        )
    return "compiled"


def _is_extension(name: str) -> bool:
    package, _, _ = name.rpartition(".")
    folder = os.path.join(os.path.dirname(os.path.dirname(__file__)), *package.split(".")[1:])
    finder = importlib.machinery.FileFinder(
        folder, (importlib.machinery.ExtensionFileLoader, importlib.machinery.EXTENSION_SUFFIXES)
    )
    return finder.find_spec(name) is not None
