"""The responses of the API: a type, an error if there is one, and the fields of the type.

A response about a stream, a consumer or an account has the struct in `info`, whose fields are written among
its own; with an error `info` is None.

    encode(StreamCreateResponse(info=info, did_create=True))
    encode(StreamCreateResponse(error=refusal.body))
"""

from typing import Any

from millstream.golang.time import ZERO_TIME, Time
from millstream.jsapi.account_types import AccountInfo
from millstream.jsapi.consumer_types import ConsumerInfo
from millstream.jsapi.errors import ErrorBody
from millstream.jsapi.go_types import (
    Duration,
    Int,
    Struct,
    UInt64,
    always,
    always_new,
    embedded,
    no_items,
    no_members,
)
from millstream.jsapi.names import response_type
from millstream.jsapi.stream_types import StoredMessage, StreamConfig, StreamInfo, StreamState


def _typed(name: str) -> Any:
    return always(response_type(name))


class Response(Struct):
    """The fields that every response begins with."""

    type: str = always("")
    error: ErrorBody | None = None


class PagedResponse(Response):
    """One page of a list: at most `limit` items after the first `offset`, of `total`."""

    total: Int = always(0)
    offset: Int = always(0)
    limit: Int = always(0)


class SuccessResponse(Response):
    """A response without data."""

    success: bool = False


class SystemResponse(Response):
    """The response to the system account where it has no JetStream."""

    type: str = _typed("system")


class AccountInfoResponse(Response):
    type: str = _typed("account_info")
    info: AccountInfo | None = embedded()


class AccountPurgeResponse(Response):
    type: str = _typed("account_purge")
    initiated: bool = False


# -- streams ----------------------------------------------------------------------------------------


class StreamCreateResponse(Response):
    type: str = _typed("stream_create")
    info: StreamInfo | None = embedded()
    did_create: bool = False


class StreamUpdateResponse(Response):
    type: str = _typed("stream_update")
    info: StreamInfo | None = embedded()


class StreamInfoResponse(PagedResponse):
    """Stream information; the paging applies to the stream's subjects."""

    type: str = _typed("stream_info")
    info: StreamInfo | None = embedded()


class StreamNamesResponse(PagedResponse):
    type: str = _typed("stream_names")
    streams: list[str] | None = always(None)  # no streams at all is null, not an empty list


class StreamListResponse(PagedResponse):
    type: str = _typed("stream_list")
    streams: list[StreamInfo] = always_new(list)
    missing: list[str] = no_items()
    offline: dict[str, str] = no_members()


class StreamDeleteResponse(SuccessResponse):
    type: str = _typed("stream_delete")


class StreamPurgeResponse(SuccessResponse):
    type: str = _typed("stream_purge")
    purged: UInt64 = always(0)


class MsgGetResponse(Response):
    type: str = _typed("stream_msg_get")
    message: StoredMessage | None = None


class MsgDeleteResponse(SuccessResponse):
    type: str = _typed("stream_msg_delete")


class StreamSnapshotResponse(Response):
    type: str = _typed("stream_snapshot")
    config: StreamConfig | None = None
    state: StreamState | None = None


class StreamRestoreResponse(Response):
    type: str = _typed("stream_restore")
    deliver_subject: str = always("")


# -- consumers --------------------------------------------------------------------------------------


class ConsumerCreateResponse(Response):
    type: str = _typed("consumer_create")
    info: ConsumerInfo | None = embedded()


class ConsumerInfoResponse(Response):
    type: str = _typed("consumer_info")
    info: ConsumerInfo | None = embedded()


class ConsumerNamesResponse(PagedResponse):
    type: str = _typed("consumer_names")
    consumers: list[str] = always_new(list)


class ConsumerListResponse(PagedResponse):
    type: str = _typed("consumer_list")
    consumers: list[ConsumerInfo] = always_new(list)
    missing: list[str] = no_items()
    offline: dict[str, str] = no_members()


class ConsumerDeleteResponse(SuccessResponse):
    type: str = _typed("consumer_delete")


class ConsumerPauseResponse(Response):
    type: str = _typed("consumer_pause")
    paused: bool = always(False)
    pause_until: Time = always(ZERO_TIME)
    pause_remaining: Duration = 0


class ConsumerResetResponse(Response):
    type: str = _typed("consumer_reset")
    info: ConsumerInfo | None = embedded()
    reset_seq: UInt64 = always(0)


class ConsumerUnpinResponse(Response):
    type: str = _typed("consumer_unpin")


# -- requests for a cluster, which a single server answers with an error -------------------------------


class StreamLeaderStepdownResponse(SuccessResponse):
    type: str = _typed("stream_leader_stepdown")


class StreamRemovePeerResponse(SuccessResponse):
    type: str = _typed("stream_remove_peer")


class StreamEvacuatePeerResponse(SuccessResponse):
    type: str = _typed("stream_evacuate_peer")


class StreamCancelMoveResponse(SuccessResponse):
    type: str = _typed("stream_cancel_move")


class ConsumerLeaderStepdownResponse(SuccessResponse):
    type: str = _typed("consumer_leader_stepdown")


class ConsumerRemovePeerResponse(SuccessResponse):
    type: str = _typed("consumer_remove_peer")


class ConsumerEvacuatePeerResponse(SuccessResponse):
    type: str = _typed("consumer_evacuate_peer")
