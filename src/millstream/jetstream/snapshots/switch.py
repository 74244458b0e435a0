"""The last step of a restore: add the stream that was read to its account.

Runs on the loop, between two messages.  The checks from the beginning of the restore are repeated, because
time has passed.  Consumers are written to their journal while it is still in the staging folder, so that one
rename makes stream and consumers appear together, whenever the machine fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from millstream.archive.errors import ArchiveError
from millstream.golang.time import Time
from millstream.jetstream.config import stream as stream_config
from millstream.jetstream.config.limits import check_room as check_reservation
from millstream.jetstream.consumers import config as consumer_config
from millstream.jetstream.consumers.config import ConsumerLimits
from millstream.jetstream.consumers.config_sharing import CheckedConfigs
from millstream.jetstream.snapshots.messages import told
from millstream.jetstream.stream import meta
from millstream.jetstream.stream.header_recovery import restore
from millstream.jetstream.stream.torn_commit import discard_torn
from millstream.jsapi.enums import StorageType
from millstream.jsapi.errors import ApiError, Err

if TYPE_CHECKING:
    from millstream.archive.states import ArchivedConsumer
    from millstream.jetstream.account import AccountJetStream
    from millstream.jetstream.snapshots.loader import Loaded
    from millstream.jetstream.stream.staging_folder import Staging
    from millstream.jetstream.stream.stream import Stream
    from millstream.jsapi.stream_types import StreamConfig


def check_room(account: AccountJetStream, config: StreamConfig, size: int) -> None:
    """Raise ApiError if account or server have no room for a stream of `size` bytes."""
    in_memory = config.storage is StorageType.MEMORY
    full = ApiError(Err.MEMORY_RESOURCES_EXCEEDED if in_memory else Err.STORAGE_RESOURCES_EXCEEDED)
    if size > 2**63 - 1:
        raise full
    reserving = msgspec.structs.replace(config, max_bytes=max(config.max_bytes, size))
    check_reservation(reserving, account.configs(), account.usage.stream_limits())
    limit = account.usage.limit(config.storage)
    if limit >= 0 and account.usage.used(config.storage) + size > limit:
        raise full
    if account.resources.exhausted(config.storage):
        raise full


def prepare(staging: Staging, config: StreamConfig, loaded: Loaded, now_ns: int) -> None:
    """Prepare, in a worker, the restored log before it becomes a stream."""
    loaded.created = loaded.created or now_ns
    discard_torn(loaded.log)
    if not staging.in_memory:
        found = meta.StreamMeta(config=config, created=Time(loaded.created), id=staging.id)
        meta.write(staging.fs, staging.folder, found)


def switch_in(account: AccountJetStream, staging: Staging, config: StreamConfig, loaded: Loaded) -> None:
    """Add a stream made of what was loaded and prepared; if that raises, there is none."""
    stream = put_in_place(account, staging, config, loaded)
    account.take_in(stream)
    account.advisories.stream_created(config.name)


def put_in_place(account: AccountJetStream, staging: Staging, config: StreamConfig, loaded: Loaded) -> Stream:
    """Return a stream that is complete on disk and not started; if that raises, there is none."""
    name = config.name
    if name in account.streams:
        raise ApiError(Err.STREAM_NAME_IN_USE_RESTORE)
    try:
        stream_config.check_restored(name, config, account.configs(), account.usage.stream_limits())
        stream_config.check_restorable(config, account.configs())
    except ApiError as error:
        raise ArchiveError(f"error adding stream: {told(error)}") from error
    stream = account.build(config, loaded.created, loaded.log, staging.id)
    try:
        restore(stream)
        _add_consumers(account, staging, stream, loaded.consumers)
        account.set_aside(name)
        staging.switch()
    except Exception:
        stream.stop()
        stream.consumers.forget()
        stream.let_go()
        raise
    journal = stream.consumers.journal
    if journal is not None:
        journal.move(f"{staging.target}/consumers")
    return stream


def _add_consumers(
    account: AccountJetStream, staging: Staging, stream: Stream, consumers: list[ArchivedConsumer]
) -> None:
    checked = CheckedConfigs()
    for each in consumers:
        check_consumer(account, stream.config, each, checked)
        each.created = each.created or account.world.now_ns()
    if not consumers:
        return
    if not staging.in_memory:
        stream.consumers.journal = account.open_journal(f"{staging.folder}/consumers")
    for each in consumers:
        stream.consumers.put_back(each.name, each.config, each.created, each.state)
    stream.consumers.all_are_back()
    if stream.consumers.journal is not None:
        account.committer.flush(stream.consumers.journal)


def check_consumer(
    account: AccountJetStream,
    stream: StreamConfig,
    consumer: ArchivedConsumer,
    checked: CheckedConfigs,
) -> None:
    """Complete the configuration of a consumer and add it to those checked; raise ArchiveError."""
    limits = ConsumerLimits(account=account.options, server=account.resources.limits)
    name = consumer.name
    if not name or name in checked:
        raise ArchiveError(f'failed to add consumer "{name}": consumer name already in use')
    config = msgspec.structs.replace(consumer.config, name=name)
    try:
        new = consumer_config.check_new(config, stream, checked, limits, counted=checked.counted)
    except ApiError as error:
        raise ArchiveError(f'failed to add consumer "{name}": {told(error)}') from error
    consumer.config = msgspec.structs.replace(new, metadata=consumer.config.metadata)
    checked.add(name, consumer.config)
