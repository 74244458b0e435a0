"""The list of compiled modules, and the choice between the compiled and the interpreted build.

Modules on the path of a message are plain ``.py`` files with a ``.pxd`` of C types beside them.  Building the
package compiles them.  ``MILLSTREAM_PURE=1`` selects the interpreted build, both when the package is built
(no compiler needed) and when it runs (a debugger and coverage see every line).  Without it, a missing
compiled module is an error, never a silent slow-down.

Imports only the standard library: ``setup.py`` runs this file before anything is installed.
"""

import importlib.machinery
import os
import sys
import sysconfig
from collections.abc import Sequence
from types import ModuleType
from typing import Final

PURE_SWITCH: Final = "MILLSTREAM_PURE"

# These need instructions of x86.  A universal build for macOS is for two architectures and goes without
# them.
X86_MODULES: Final = ("millstream.base.checksum_x86",)
COMPILED_FOR_X86: Final = sysconfig.get_platform().endswith("-x86_64")

COMPILED_MODULES: Final = (
    "millstream.base.buffer",
    "millstream.base.checksum",
    *(X86_MODULES if COMPILED_FOR_X86 else ()),
    "millstream.base.heap",
    "millstream.base.untracked",
    "millstream.base.wide_map",
    "millstream.base.paged_map",
    "millstream.base.numbers",
    "millstream.base.siphash",
    "millstream.subjects.match",
    "millstream.subjects.overlap",
    "millstream.subjects.tree",
    "millstream.subjects.filter_index",
    "millstream.protocol.digits",
    "millstream.protocol.ack_subject",
    "millstream.protocol.headers",
    "millstream.protocol.header_lines",
    "millstream.protocol.parser",
    "millstream.protocol.outbuf",
    "millstream.protocol.replies",
    "millstream.protocol.outlet",
    "millstream.protocol.inlet",
    "millstream.protocol.trace_context",
    "millstream.protocol.websocket_mask",
    "millstream.store.record",
    "millstream.store.positioned",
    "millstream.store.fill",
    "millstream.store.disk_writer",
    "millstream.store.journal_batch",
    "millstream.store.journal_writer",
    "millstream.store.index",
    "millstream.store.subject_list",
    "millstream.store.waypoints",
    "millstream.store.subject_links",
    "millstream.store.segment",
    "millstream.store.recent",
    "millstream.store.stretches",
    "millstream.store.summary",
    "millstream.store.filters",
    "millstream.store.scan",
    "millstream.store.commit",
    "millstream.store.log_state",
    "millstream.store.segment_chain",
    "millstream.store.next_commit",
    "millstream.store.log_reader",
    "millstream.store.log_writer",
    "millstream.store.log_commits",
    "millstream.store.log_removal",
    "millstream.store.log_repair",
    "millstream.store.log_upkeep",
    "millstream.store.log",
    "millstream.store.cursor",
    "millstream.store.frozen",
    "millstream.store.marks",
    "millstream.archive.s2",
    "millstream.archive.entries",
    "millstream.archive.highway",
    "millstream.archive.blocks",
    "millstream.archive.stream_index",
    "millstream.link.parser",
    "millstream.link.deliveries",
    "millstream.tables.memory",
    "millstream.tables.columns",
    "millstream.tables.intake",
    "millstream.link.publish_window",
    "millstream.client.core",
    "millstream.spark.writing.frames",
    "millstream.broker.watchdog",
    "millstream.broker.router",
    "millstream.broker.routes",
    "millstream.broker.internal",
    "millstream.broker.connection",
    "millstream.broker.leaf.connection",
    "millstream.broker.leaf.links",
    "millstream.broker.turns",
    "millstream.broker.subscriptions",
    "millstream.broker.outlet",
    "millstream.jetstream.resources",
    "millstream.jetstream.slow_receiver",
    "millstream.jetstream.stride",
    "millstream.jetstream.dedupe.recent",
    "millstream.jetstream.dedupe.generation",
    "millstream.jetstream.dedupe.builder",
    "millstream.jetstream.dedupe.window",
    "millstream.jetstream.publish.ttl",
    "millstream.jetstream.publish.batch_fast_path",
    "millstream.jetstream.publish.refusals",
    "millstream.jetstream.publish.ingest",
    "millstream.jetstream.stream.waiters",
    "millstream.jetstream.stream.committed_log",
    "millstream.jetstream.stream.commits",
    "millstream.jetstream.stream.fair_queue",
    "millstream.jetstream.stream.header_recovery",
    "millstream.jetstream.stream.worker_job",
    "millstream.jetstream.stream.ticket",
    "millstream.jetstream.stream.committer",
    "millstream.jetstream.read.answers",
    "millstream.jetstream.read.plain_request",
    "millstream.jetstream.read.single_gets",
    "millstream.jetstream.snapshots.messages",
    "millstream.jetstream.sourcing.intake",
    "millstream.jetstream.consumers.entries",
    "millstream.jetstream.consumers.parked",
    "millstream.jetstream.consumers.ledger",
    "millstream.jetstream.consumers.ack_reader",
    "millstream.jetstream.consumers.delivery",
    "millstream.jetstream.consumers.pull_request",
    "millstream.jetstream.consumers.pull_queue",
    "millstream.jetstream.consumers.last_messages",
    "millstream.jetstream.consumers.feed",
    "millstream.jetstream.consumers.flow",
    "millstream.jetstream.consumers.commit_waiters",
    "millstream.jetstream.consumers.expiry",
    "millstream.jetstream.consumers.ack_sink",
    "millstream.jetstream.consumers.push_delivery",
    "millstream.jetstream.consumers.pull_delivery",
    "millstream.jetstream.consumers.consumer",
    "millstream.server.sync_pace",
    "millstream.server.commit_journal",
    "millstream.server.disk_writers",
    "millstream.server.workers",
    "millstream.server.jetstream_world",
    "millstream.arrow.text",
    "millstream.arrow.columns",
    "millstream.arrow.header_columns",
    "millstream.arrow.picks",
    "millstream.arrow.batch",
)


class MissingCompiledModules(ImportError):
    """The package was built without its compiled modules, and MILLSTREAM_PURE is not set."""


def pure_requested() -> bool:
    """Return True if the environment selects the interpreted build."""
    return os.environ.get(PURE_SWITCH) == "1"


class _SourceFirst(importlib.machinery.PathFinder):
    """Finds the ``.py`` of a compiled module even if the extension is beside it."""

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
    """Select the build for this process and return its name: ``compiled`` or ``pure``."""
    if pure_requested():
        if _SourceFirst not in sys.meta_path:
            sys.meta_path.insert(0, _SourceFirst)
        return "pure"
    missing = _without_extension()
    if missing:
        raise MissingCompiledModules(
            f"millstream was built without its compiled modules ({', '.join(missing)}); "
            f"build it again with a C compiler, or set {PURE_SWITCH}=1 to run interpreted"
        )
    return "compiled"


def _without_extension() -> list[str]:
    """Return the compiled modules that have no extension; lists each folder once."""
    root = os.path.dirname(os.path.dirname(__file__))
    files: dict[str, set[str]] = {}
    missing = []
    for name in COMPILED_MODULES:
        package, _, module = name.rpartition(".")
        if package not in files:
            files[package] = set(os.listdir(os.path.join(root, *package.split(".")[1:])))
        if not any(module + suffix in files[package] for suffix in importlib.machinery.EXTENSION_SUFFIXES):
            missing.append(name)
    return missing
