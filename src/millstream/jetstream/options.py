"""Options of JetStream, as frozen values.

Filled by ``millstream.config``, or by hand in tests.  Durations are seconds, sizes are bytes.  Defaults are
nats-server's, except `sync_interval_s`: acknowledged messages are on disk.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from millstream.base.budget import DEFAULT_BUDGET
from millstream.jetstream.consumer_subjects import SubjectForms

DEFAULT_ERASE_WITHIN_S: Final = 120.0


class JetStreamLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits for single requests and streams; 0: the built-in default."""

    max_ack_pending: int = 0  # of a consumer
    max_ha_assets: int = 0  # replicated assets on this server; only shown by monitoring
    max_request_batch: int = 0  # of a pull request
    duplicate_window_s: float = 0.0
    default_max_consumers: int = 1000  # of a stream that sets no limit of its own
    batch_max_inflight_per_stream: int = 0
    batch_max_inflight_total: int = 0
    batch_max_messages: int = 0
    batch_timeout_s: float = 0.0


class AccountJetStreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one account.  -1: unlimited, within the server's limits."""

    max_memory: int = -1
    max_store: int = -1
    max_streams: int = -1
    max_consumers: int = -1
    max_ack_pending: int = -1
    memory_max_stream_bytes: int = -1
    store_max_stream_bytes: int = -1
    max_bytes_required: bool = False  # a stream must set `max_bytes`
    tier: str = ""  # the limits are those of a tier, as `R1` for streams with one copy
    has_tier: bool = True  # or there is no such tier, so that no stream can be created


class JetStreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    enabled: bool = False
    store_dir: str = ""  # files go to its folder `jetstream`; empty: see `store_folder`
    max_memory: int | None = None  # None: three quarters of the machine's memory
    max_file: int | None = None  # None: three quarters of the free space
    domain: str = ""
    strict: bool = True  # refuse unknown fields in API requests
    sync_interval_s: float | None = None  # None: before every acknowledgement (`always`)
    erase_within_s: float = DEFAULT_ERASE_WITHIN_S  # how long removed messages may stay on disk
    memory_budget: int = DEFAULT_BUDGET  # bytes of what the store could do without
    forms: SubjectForms = SubjectForms()
    max_concurrent_io: int = 4096  # disk operations under way
    unique_tag: str = ""  # only shown by monitoring
    request_queue_limit: int = 10_000  # API requests that may wait
    info_queue_limit: int = 10_000  # info requests that may wait
    max_buffered_messages: int = 100_000  # of a stream, not yet stored
    max_buffered_size: int = 128 * 1024 * 1024
    limits: JetStreamLimits = JetStreamLimits()
    # Which accounts have JetStream; without accounts in the configuration that is `$G` alone.
    accounts: Mapping[str, AccountJetStreamOptions] = {}
