"""Read the `jetstream` blocks of the server and of accounts.

Sizes keep a trap of nats-server's because files rely on it: a bare ``1G`` is 10^9 bytes, a quoted ``"1G"``
is 2^30, and quoted sizes accept only K, M, G and T.
"""

import re
from typing import Any, Final

from millstream.base.decimals import read_integer
from millstream.config.errors import Notes
from millstream.config.fields import (
    between,
    block,
    boolean,
    duration,
    duration_text,
    field,
    integer,
    positive,
    read_block,
    refused,
    string,
    unsupported,
    wrong,
)
from millstream.config.tree import Block, TreeEntry
from millstream.jetstream.options import AccountJetStreamOptions, JetStreamLimits

REFERENCE_SYNC_INTERVAL_S: Final = 120.0  # nats-server's default, which `sync_interval: 0` selects

_QUOTED_SIZE = re.compile(r"([+-]?[0-9]+)([KMGT])")
_SWITCH: Final = {"enabled": True, "enable": True, "disabled": False, "disable": False}
_ENCRYPTION = unsupported("encryption at rest")
_CLUSTER = unsupported("clustering")


def read_jetstream(entry: TreeEntry, notes: Notes) -> dict[str, Any]:
    """Read the server's block; results are named `jetstream` and `jetstream_…`."""
    switch = _read_switch(entry)
    if switch is not None:
        return {"jetstream": switch}
    settings = read_block(block(entry), _JETSTREAM, notes)
    results = {f"jetstream_{name}": value for name, value in settings.items()}
    return {"jetstream": results.pop("jetstream_enabled", True), **results}


def read_account_jetstream(entry: TreeEntry, notes: Notes) -> AccountJetStreamOptions | None:
    switch = _read_switch(entry)
    if switch is not None:
        return AccountJetStreamOptions() if switch else None
    return AccountJetStreamOptions(**read_block(block(entry), _ACCOUNT, notes))


def _read_switch(entry: TreeEntry) -> bool | None:
    """Return true or false for the short forms, None for a map."""
    data = entry.value.data
    if isinstance(data, Block):
        return None
    if isinstance(data, bool):
        return data
    if isinstance(data, str) and data.lower() in _SWITCH:
        return _SWITCH[data.lower()]
    raise wrong(entry, "'enabled', 'disabled', true, false or a map")


def _read_size(entry: TreeEntry, notes: Notes) -> int | None:
    data = entry.value.data
    if isinstance(data, int) and not isinstance(data, bool):
        size = data
    elif data == "":
        size = 0
    elif isinstance(data, str):
        match = _QUOTED_SIZE.fullmatch(data)
        if match is None:
            raise refused(
                entry,
                f'"{data}" is not a size: a size in quotes must end in K, M, G or T; or remove the quotes',
            )
        size = (read_integer(match[1]) or 0) << 10 * ("KMGT".index(match[2]) + 1)
    else:
        raise wrong(entry, "a size")
    return size if size >= 0 else None  # negative: unlimited


def _read_amount(entry: TreeEntry, notes: Notes) -> int:
    size = _read_size(entry, notes)
    if size is None:
        raise refused(entry, "must not be negative")
    return size


def _read_sync(entry: TreeEntry, notes: Notes) -> float | None:
    data = entry.value.data
    if isinstance(data, str) and data.lower() == "always":
        return None
    return positive(duration)(entry, notes) or REFERENCE_SYNC_INTERVAL_S


def _read_limits(entry: TreeEntry, notes: Notes) -> JetStreamLimits:
    return JetStreamLimits(**read_block(block(entry), _LIMITS, notes))


def _read_batch(entry: TreeEntry, notes: Notes) -> dict[str, Any]:
    return dict(read_block(block(entry), _BATCH, notes))


def _read_tag(entry: TreeEntry, notes: Notes) -> str:
    return string(entry, notes).strip().lower()


_BATCH = (
    field("max_inflight_per_stream", integer, "batch_max_inflight_per_stream"),
    field("max_inflight_total", integer, "batch_max_inflight_total"),
    field("max_msgs", integer, "batch_max_messages"),
    field("timeout", positive(duration_text), "batch_timeout_s"),
)

_LIMITS = (
    field("max_ack_pending", integer, "max_ack_pending"),
    field("max_ha_assets", integer, "max_ha_assets"),
    field("max_request_batch", integer, "max_request_batch"),
    field("duplicate_window", positive(duration_text), "duplicate_window_s"),
    field("default_max_consumers", integer, "default_max_consumers"),
    field("batch", _read_batch),
)

_JETSTREAM = (
    field("enabled enable", boolean, "enabled"),
    field("store_dir store storedir", string, "store_dir"),
    field("max_mem max_memory_store max_mem_store", _read_size, "max_memory"),
    field("max_file max_file_store", _read_size, "max_file"),
    field("domain", string, "domain"),
    field("strict", boolean, "strict"),
    field("sync_interval sync", _read_sync, "sync_interval_s"),
    field("unique_tag", _read_tag, "unique_tag"),
    field("limits", _read_limits, "limits"),
    field("request_queue_limit", integer, "request_queue_limit"),
    field("info_queue_limit", integer, "info_queue_limit"),
    field("max_buffered_msgs", between(0), "max_buffered_messages"),
    field("max_buffered_size", _read_amount, "max_buffered_size"),
    field("max_concurrent_io", between(4, 8192), "max_concurrent_io"),
    field("key ek encryption_key", unsupported("encryption at rest", harmless=("",))),
    field("prev_key prev_ek prev_encryption_key", unsupported("encryption at rest", harmless=("",))),
    field("cipher", _ENCRYPTION),
    field("tpm", _ENCRYPTION),
    field("max_outstanding_catchup", _CLUSTER),
    field("extension_hint", _CLUSTER),
    field("meta_compact", _CLUSTER),
    field("meta_compact_size", _CLUSTER),
    field("meta_compact_sync", _CLUSTER),
)

_ACCOUNT = (
    field("max_memory max_mem mem memory", integer, "max_memory"),
    field("max_file max_store max_disk store disk", integer, "max_store"),
    field("max_streams streams", integer, "max_streams"),
    field("max_consumers consumers", integer, "max_consumers"),
    field("max_bytes_required max_stream_bytes max_bytes", boolean, "max_bytes_required"),
    field("mem_max_stream_bytes memory_max_stream_bytes", integer, "memory_max_stream_bytes"),
    field("disk_max_stream_bytes store_max_stream_bytes", integer, "store_max_stream_bytes"),
    field("max_ack_pending", integer, "max_ack_pending"),
    field("cluster_traffic", unsupported("clustering", harmless=("", "system"))),
)
