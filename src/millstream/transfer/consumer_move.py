"""Move a consumer of a copy to the position of the original, through the API.

A consumer that was copied with its stream is where the original was then.  A reset to the first
unacknowledged message sets its position.  If the original has delivered beyond that, those messages are
pulled again, and all that are not pending at the original are acknowledged.  Then both have delivered and
acknowledged the same; delivery counts start again.

``obstacle`` returns why this is impossible; such a stream must be copied again.
"""

from __future__ import annotations

import json
from typing import Any, Final

from millstream.link.errors import LinkError
from millstream.protocol.ack_subject import read_ack_subject
from millstream.transfer.answers import Json
from millstream.transfer.api import JetStreamApi
from millstream.transfer.errors import ServerLost, TransferError

_RESETTABLE: Final = ("all", "by_start_sequence", "by_start_time")
_NOT_COPIED: Final = ("pause_until", "metadata")
_AT_ONCE: Final = 256
_PULL_S: Final = 10.0
_ACK: Final = b"+ACK"


def obstacle(name: str, entry: Json) -> str:
    """Return why the consumer of this archive entry cannot be moved; empty if it can."""
    config, state = entry["config"], entry.get("state") or {}
    if config.get("deliver_policy", "all") not in _RESETTABLE:
        return f"consumer {name} can not be reset ({config['deliver_policy']})"
    delivered, floor, pending = places(state)
    if delivered == floor:
        return ""
    if config.get("deliver_subject") and len(pending) != delivered - floor:
        return f"push consumer {name} has gaps in what it acknowledged"
    if config.get("priority_policy", "none") != "none":
        return f"consumer {name} has priority groups"
    if config.get("ack_policy", "none") not in ("none", "all", "explicit"):
        return f"consumer {name} acknowledges by flow control"
    return ""


def places(state: Json) -> tuple[int, int, frozenset[int]]:
    """Return the last delivered sequence, the ack floor and the pending sequences."""
    delivered = int((state.get("delivered") or {}).get("stream_seq", 0))
    floor = int((state.get("ack_floor") or {}).get("stream_seq", 0))
    return delivered, floor, frozenset(int(seq) for seq in state.get("pending") or {})


def copied_config(config: Json) -> Json:
    """Return the configuration for the target: not paused, without metadata of servers."""
    return {key: value for key, value in config.items() if key not in _NOT_COPIED} | _own_metadata(config)


def _own_metadata(config: Json) -> Json:
    metadata = {
        key: value
        for key, value in (config.get("metadata") or {}).items()
        if not key.startswith(("_nats.", "millstream.promote"))
    }
    return {"metadata": metadata} if metadata else {}


async def carry(target: JetStreamApi, stream: str, name: str, entry: Json, original: Json) -> dict[int, str]:
    """Move the consumer to the position in `entry`; `original` is its information at the frozen source.

    Returns the ack subjects at the target of the pending messages.
    """
    config, state = entry["config"], entry.get("state") or {}
    await target.create_consumer(stream, copied_config(config))
    delivered, floor, pending = places(state)
    if config.get("ack_policy", "none") == "none":
        await target.reset_consumer(stream, name, delivered + 1)
        return {}
    await target.reset_consumer(stream, name, floor + 1)
    if delivered <= floor or config.get("deliver_subject"):
        return {}
    info = await target.consumer(stream, name)
    behind = int(info["num_pending"]) - int(original["num_pending"])
    return await _deliver(target, stream, config, behind, None if config["ack_policy"] == "all" else pending)


async def _deliver(
    target: JetStreamApi, stream: str, config: Json, count: int, pending: frozenset[int] | None
) -> dict[int, str]:
    """Pull the next `count` messages; acknowledge those not in `pending`, or none if it is None."""
    kept: dict[int, str] = {}
    name = config.get("name") or config["durable_name"]
    largest = min(_AT_ONCE, int(config.get("max_batch") or _AT_ONCE))
    link = target.link
    try:
        with target.inbox() as (inbox, subscription):
            while count > 0:
                batch = min(count, largest)
                link.publish(target.next_subject(stream, name), _pull(batch, config), reply=inbox)
                for _ in range(batch):
                    message = await subscription.next(_PULL_S)
                    delivery = read_ack_subject(message.reply)
                    if delivery is None:
                        raise TransferError(
                            f"consumer {name} of the copy does not deliver: {message.status or ''}"
                        )
                    count -= 1
                    if pending is None or delivery.stream_seq in pending:
                        kept[delivery.stream_seq] = message.reply
                    else:
                        await link.request(message.reply, _ACK, timeout_s=_PULL_S)
    except (LinkError, TimeoutError) as error:
        reason = str(error) or f"nothing came for {_PULL_S:g} s"
        raise ServerLost(f"consumer {name} of the copy: {reason}") from error
    return kept


def _pull(batch: int, config: Json) -> bytes:
    request: dict[str, Any] = {"batch": batch, "expires": int(_PULL_S * 0.9 * 1e9)}
    longest = int(config.get("max_expires") or 0)
    if longest:
        request["expires"] = min(request["expires"], longest)
    return json.dumps(request).encode()
