"""JetStream usage and limits of an account; -1 means no limit."""

from millstream.jsapi.go_types import Int, Int64, Struct, UInt64, always, always_new, no_members


class AccountLimits(Struct):
    go_name = "JetStreamAccountLimits"

    max_memory: Int64 = always(0)
    max_storage: Int64 = always(0)
    max_streams: Int = always(0)
    max_consumers: Int = always(0)
    max_ack_pending: Int = always(0)
    memory_max_stream_bytes: Int64 = always(0)
    storage_max_stream_bytes: Int64 = always(0)
    max_bytes_required: bool = always(False)


class AccountTier(Struct):
    """Usage and limits for streams with the same number of replicas."""

    go_name = "JetStreamTier"

    memory: UInt64 = always(0)
    storage: UInt64 = always(0)
    reserved_memory: UInt64 = always(0)
    reserved_storage: UInt64 = always(0)
    streams: Int = always(0)
    consumers: Int = always(0)
    limits: AccountLimits = always_new(AccountLimits)


class ApiStats(Struct):
    go_name = "JetStreamAPIStats"

    level: Int = always(0)
    total: UInt64 = always(0)
    errors: UInt64 = always(0)
    inflight: UInt64 = 0


class AccountInfo(AccountTier):
    """Usage and limits of the whole account.  With tiers, the limits here stay at their defaults."""

    go_name = "JetStreamAccountStats"

    domain: str = ""
    api: ApiStats = always_new(ApiStats)
    tiers: dict[str, AccountTier] = no_members()
