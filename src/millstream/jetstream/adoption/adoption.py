"""Adopt a store: read the files of a nats-server that has stopped, and write a store of ours.

    plan = AdoptionPlan(store, keys)             # raises AdoptionError; nothing is written
    report = adopt(plan, folder, progress)

A new store is built beside its final place and gets it with one rename at the very end:

    <folder>/jetstream.partial/jetstream/…       while it is built; `serve` refuses such a folder
    <folder>/jetstream/…                         when it is complete and durable

Each stream is written as a restore writes it (``snapshots.switch``).  The original is opened for reading
only.  It must not change meanwhile, so the plan notes the sizes and times of all files, and ``adopt``
compares them at the end.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from millstream.archive.errors import ArchiveError
from millstream.archive.store_files import NatsServerStream, jetstream_folder, stored_streams
from millstream.archive.store_keys import StoreKeyError, StoreKeys
from millstream.base.errors import MillstreamError
from millstream.base.ids import nuid
from millstream.jetstream import store_folder
from millstream.jetstream.account import AccountJetStream
from millstream.jetstream.adoption.quiet_world import QuietWorld
from millstream.jetstream.adoption.report import AdoptionReport, StreamReport
from millstream.jetstream.adoption.running_server import user_of
from millstream.jetstream.adoption.stream_loader import CountingSink, StreamLoading
from millstream.jetstream.config import stream as stream_config
from millstream.jetstream.consumers.config_sharing import CheckedConfigs
from millstream.jetstream.options import AccountJetStreamOptions
from millstream.jetstream.ports import MessageLimits
from millstream.jetstream.snapshots.loader import Loaded, LogWriter
from millstream.jetstream.snapshots.messages import LoadLimits, MessageLoader
from millstream.jetstream.snapshots.switch import check_consumer, prepare, put_in_place
from millstream.jsapi.enums import RetentionPolicy
from millstream.jsapi.errors import ApiError
from millstream.store.fs import RealFileSystem

if TYPE_CHECKING:
    from millstream.archive.blocks import BlockReader
    from millstream.archive.states import ArchivedConsumer
    from millstream.archive.stream_index import DeletedSequences
    from millstream.jetstream.stream.staging_folder import Staging
    from millstream.jsapi.stream_types import StreamConfig

_LARGEST: Final = 2**27  # bytes of a message; nats-server stores none above 64 MiB
_LIMITS: Final = MessageLimits(payload=_LARGEST, subject=2**16 - 1)
_STEP: Final = "adopt"


class AdoptionError(MillstreamError):
    """Raised if a store cannot be adopted at all; nothing was changed."""


class AdoptionProgress(Protocol):
    """Shows how far it is."""

    def begin(self, stream: str, step: str, total: int) -> None: ...

    def advance(self, stream: str, step: str, done: int) -> None: ...

    def end(self, stream: str, step: str) -> None: ...


class PlannedStream(msgspec.Struct):
    """A stream to be adopted."""

    stored: NatsServerStream
    report: StreamReport
    config: StreamConfig | None = None  # None: it cannot be adopted, see the report
    created: int = 0  # ns since 1970
    size: int = 0  # bytes of its blocks
    locked: bool = False  # it is encrypted, and the key is missing or wrong


class AdoptionPlan:
    """Everything that is known before messages are read."""

    def __init__(self, store: str, keys: StoreKeys) -> None:
        self.store = store
        if not os.path.isdir(store):
            raise AdoptionError(f"{store}: there is no such folder")
        folder = jetstream_folder(store)
        if os.path.lexists(os.path.join(folder, store_folder.MARK)):
            raise AdoptionError(f"{store}: it is a store of Millstream already")
        user = user_of(folder)
        if user:
            raise AdoptionError(f"{store}: {user} uses it; stop the server first")
        self._files = _fingerprint(folder)
        self.streams = [_planned(each) for each in _each_stream(store, keys)]
        if not self.streams:
            raise AdoptionError(f"{store}: there are no streams of nats-server in it")
        _check_keys(self.streams, store)

    def check_unchanged(self) -> None:
        """Raise AdoptionError if a server used the store meanwhile."""
        folder = jetstream_folder(self.store)
        user = user_of(folder)
        if user:
            raise AdoptionError(f"{self.store}: {user} has begun to use it; stop the server and start again")
        if _fingerprint(folder) != self._files:
            raise AdoptionError(f"{self.store}: its files changed while they were read: a server uses it")


def check_target(folder: str) -> None:
    """Raise AdoptionError unless a folder is empty or does not exist."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise AdoptionError(f"{folder}: {error.strerror}") from error
    if store_folder.PARTIAL in names:
        raise AdoptionError(f"{folder}: an adoption into it was interrupted; remove the folder first")
    if names:
        raise AdoptionError(f"{folder}: it is not empty; the new store needs a folder of its own")


def adopt(plan: AdoptionPlan, folder: str, progress: AdoptionProgress) -> AdoptionReport:
    """Write a new store into `folder`; raise AdoptionError or StoreError, and then there is none."""
    check_target(folder)
    if _is_inside(folder, plan.store):
        raise AdoptionError(f"{folder}: it is inside the store to be adopted, which is only read")
    partial = os.path.join(folder, store_folder.PARTIAL)
    made = not os.path.isdir(folder)
    _begin(partial)
    try:
        _Adopting(plan, store_folder.claim(partial), progress).run()
        plan.check_unchanged()
        _finish(folder, partial)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)  # all of it was written here
        if made:
            _remove_empty(folder)
        raise
    return AdoptionReport(plan.store, folder, [each.report for each in plan.streams])


def _begin(partial: str) -> None:
    """Create the folder of an unfinished adoption; raise AdoptionError if another one has it."""
    try:
        os.makedirs(os.path.dirname(partial), exist_ok=True)
        os.mkdir(partial)
    except FileExistsError:
        raise AdoptionError(f"{os.path.dirname(partial)}: another adoption writes there") from None
    except OSError as error:
        raise AdoptionError(f"{partial}: {error.strerror}") from error


def look(plan: AdoptionPlan, progress: AdoptionProgress) -> AdoptionReport:
    """Read and verify everything, and write nothing."""
    for each in plan.streams:
        if each.config is None:
            continue
        sink = CountingSink()
        _load(each, sink, progress)
        each.report.messages, each.report.first_seq = sink.messages, sink.first_seq
        each.report.last_seq = sink.highest
        each.report.consumers = [one.name for one in _consumers(each)]
    plan.check_unchanged()
    return AdoptionReport(plan.store, "", [each.report for each in plan.streams])


class _Adopting:
    """One adoption, into a folder that was created for it."""

    def __init__(self, plan: AdoptionPlan, folder: str, progress: AdoptionProgress) -> None:
        self._plan = plan
        self._folder = folder
        self._progress = progress
        self._fs = RealFileSystem()
        self._world = QuietWorld(_LIMITS)
        self._accounts: dict[str, AccountJetStream] = {}

    def run(self) -> None:
        for each in self._plan.streams:
            if each.config is None:
                continue
            try:
                self._adopt(each, each.config)
            except (ArchiveError, ApiError) as error:
                each.report.error = str(error)

    def _account(self, name: str) -> AccountJetStream:
        found = self._accounts.get(name)
        if found is None:
            found = self._accounts[name] = AccountJetStream(
                name,
                self._world,
                AccountJetStreamOptions(),
                fs=self._fs,
                folder=os.path.join(self._folder, name),
            )
        return found

    def _adopt(self, planned: PlannedStream, config: StreamConfig) -> None:
        account = self._account(planned.report.account)
        config = stream_config.check_restored(
            config.name, config, account.configs(), account.usage.stream_limits()
        )
        staging = account.stage(config, nuid())
        try:
            self._write(account, staging, planned, config)
        except BaseException:
            staging.remove()
            raise

    def _write(
        self, account: AccountJetStream, staging: Staging, planned: PlannedStream, config: StreamConfig
    ) -> None:
        report = planned.report
        sink = _LogSink(staging)
        _load(planned, sink, self._progress)
        consumers = self._checked(account, config, planned)
        loaded = Loaded(sink.log, consumers, planned.created)
        prepare(staging, config, loaded, self._world.now_ns())
        stream = put_in_place(account, staging, config, loaded)
        account.configs().put(config)
        account.committer.flush(stream)
        report.messages, report.bytes = stream.log.messages, stream.bytes()
        report.first_seq, report.last_seq = stream.log.first_seq, stream.log.last_seq
        report.consumers = [each.name for each in consumers]
        stream.consumers.stop()
        stream.stop()
        account.committer.forget(stream)
        stream.log.close()
        stream.log.free_subjects()

    def _checked(
        self, account: AccountJetStream, config: StreamConfig, planned: PlannedStream
    ) -> list[ArchivedConsumer]:
        """Return the consumers that a stream of ours can have."""
        checked = CheckedConfigs()
        fit = []
        for each in _consumers(planned):
            try:
                check_consumer(account, config, each, checked)
            except ArchiveError as error:
                planned.report.notes.append(f"consumer {each.name} is lost: {error}")
            else:
                fit.append(each)
        return fit


class _LogSink:
    """Stores messages in a new log."""

    def __init__(self, staging: Staging) -> None:
        self.log = staging.begin_log(1)
        self._messages = MessageLoader(
            self.log, LoadLimits(_LIMITS.payload, _LIMITS.payload, _LIMITS.subject), 0
        )
        self._writer = LogWriter(self.log)

    @property
    def last_seq(self) -> int:
        return self._messages.last_seq

    def take(self, reader: BlockReader, most: int, deleted: DeletedSequences | None) -> bool:
        more = self._messages.take_records(reader, most, deleted)
        self._writer.write_if_due()
        return more

    def end(self, seq: int, timestamp: int) -> None:
        self._messages.skip_to(seq, timestamp)
        self._writer.write(sync=True)


def _load(planned: PlannedStream, sink: CountingSink | _LogSink, progress: AdoptionProgress) -> None:
    title = f"{planned.report.account} > {planned.report.stream}"
    progress.begin(title, _STEP, planned.size)
    loading = StreamLoading(
        planned.stored, sink, planned.report, lambda done: progress.advance(title, _STEP, done)
    )
    loading.run()
    progress.end(title, _STEP)


def _consumers(planned: PlannedStream) -> list[ArchivedConsumer]:
    """Read the consumers; what is wrong with one goes to the report."""
    found = []
    for name in planned.stored.consumers():
        try:
            consumer, problem = planned.stored.consumer(name)
        except ArchiveError as error:
            planned.report.notes.append(f"consumer {name} is lost: {error}")
            continue
        if problem:
            planned.report.notes.append(f"consumer {name}: {problem}")
        if _is_unused(planned, consumer):
            consumer.state = None
        consumer.config.num_replicas = min(consumer.config.num_replicas, 1)
        found.append(consumer)
    return found


def _is_unused(planned: PlannedStream, consumer: ArchivedConsumer) -> bool:
    """Return True for a consumer of a work queue that never delivered a message.

    A purge moves its position to the first message that is left, which would count as settled.
    """
    assert planned.config is not None
    of_queue = planned.config.retention is RetentionPolicy.WORKQUEUE
    return of_queue and consumer.state is not None and consumer.state.delivered_dseq == 0


def _planned(stored: NatsServerStream) -> PlannedStream:
    report = StreamReport(stored.account, stored.name)
    planned = PlannedStream(stored, report)
    try:
        config, planned.created, problem = stored.config()
        planned.size = sum(each.size for each in stored.blocks())
    except StoreKeyError as error:
        report.error = str(error)
        planned.locked = True
        return planned
    except ArchiveError as error:
        report.error = f"its configuration cannot be read: {error}"
        return planned
    if problem:
        report.notes.append(f"{problem}; it is used as it is")
    if config.num_replicas > 1:
        report.notes.append(f"it had {config.num_replicas} replicas; this is the copy of one server")
        config.num_replicas = 1
    planned.config = config
    return planned


def _check_keys(streams: list[PlannedStream], store: str) -> None:
    """Raise AdoptionError if the key of the store is missing or wrong."""
    opened = any(each.config is not None and each.stored.encrypted for each in streams)
    for each in streams:
        if each.locked and not opened:
            raise AdoptionError(f"{store}: stream {each.report.stream}: {each.report.error}")


def _each_stream(store: str, keys: StoreKeys) -> Iterator[NatsServerStream]:
    try:
        yield from stored_streams(store, keys)
    except ArchiveError as error:
        raise AdoptionError(str(error)) from error


def _fingerprint(folder: str) -> dict[str, tuple[int, int]]:
    """Return size and time of change of every file."""
    found = {}
    for path, _, names in os.walk(folder, onerror=_raise):
        for name in names:
            full = os.path.join(path, name)
            try:
                about = os.lstat(full)
            except OSError as error:
                raise AdoptionError(f"{full}: {error.strerror}") from error
            found[full] = (about.st_size, about.st_mtime_ns)
    return found


def _raise(error: OSError) -> None:
    raise AdoptionError(f"{error.filename}: {error.strerror}") from error


def _finish(folder: str, partial: str) -> None:
    """Give the complete store its place."""
    fs = RealFileSystem()
    fs.rename(os.path.join(partial, "jetstream"), os.path.join(folder, "jetstream"))
    fs.sync_folder(folder)
    os.rmdir(partial)


def _is_inside(folder: str, store: str) -> bool:
    inner, outer = os.path.realpath(folder), os.path.realpath(store)
    return os.path.commonpath([inner, outer]) == outer


def _remove_empty(folder: str) -> None:
    with contextlib.suppress(OSError):  # somebody else has put something into it
        os.rmdir(folder)
