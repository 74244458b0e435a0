"""httpmq's documents about streams and consumers, made from JetStream's; every key is always present."""

from __future__ import annotations

from typing import Any, Final

ZERO_TIME: Final = "0001-01-01T00:00:00Z"

_STREAM_LIMITS: Final = ("max_consumers", "max_msgs", "max_bytes", "max_msgs_per_subject", "max_msg_size")


def stream_document(info: dict[str, Any]) -> dict[str, Any]:
    config: dict[str, Any] = info.get("config") or {}
    state: dict[str, Any] = info.get("state") or {}
    return {
        "config": {
            "name": config.get("name", ""),
            "description": config.get("description", ""),
            "subjects": config.get("subjects") or [],
            **{name: _unlimited(config.get(name)) for name in _STREAM_LIMITS},
            "max_age": config.get("max_age") or 0,
        },
        "created": info.get("created") or ZERO_TIME,
        "state": {
            "messages": state.get("messages") or 0,
            "bytes": state.get("bytes") or 0,
            "first_seq": state.get("first_seq") or 0,
            "first_ts": state.get("first_ts") or ZERO_TIME,
            "last_seq": state.get("last_seq") or 0,
            "last_ts": state.get("last_ts") or ZERO_TIME,
            "consumer_count": state.get("consumer_count") or 0,
        },
    }


def consumer_document(info: dict[str, Any]) -> dict[str, Any]:
    config: dict[str, Any] = info.get("config") or {}
    return {
        "stream_name": info.get("stream_name", ""),
        "name": info.get("name", ""),
        "created": info.get("created") or ZERO_TIME,
        "config": {
            "notes": config.get("description", ""),
            "deliver_subject": config.get("deliver_subject", ""),
            "deliver_group": config.get("deliver_group", ""),
            "max_deliver": config.get("max_deliver") or -1,
            "ack_wait": config.get("ack_wait") or 0,
            "filter_subject": config.get("filter_subject", ""),
            "max_waiting": config.get("max_waiting") or 0,
            "max_ack_pending": config.get("max_ack_pending") or 0,
        },
        "delivered": _sequences(info.get("delivered")),
        "ack_floor": _sequences(info.get("ack_floor")),
        "num_ack_pending": info.get("num_ack_pending") or 0,
        "num_redelivered": info.get("num_redelivered") or 0,
        "num_waiting": info.get("num_waiting") or 0,
        "num_pending": info.get("num_pending") or 0,
    }


def _sequences(pair: dict[str, Any] | None) -> dict[str, Any]:
    pair = pair or {}
    told = {"consumer_seq": pair.get("consumer_seq") or 0, "stream_seq": pair.get("stream_seq") or 0}
    if pair.get("last_active"):
        told["last_active"] = pair["last_active"]
    return told


def _unlimited(value: int | None) -> int:
    return value or -1
