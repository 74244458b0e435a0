"""A stream for each option of streams and consumers, for the lives of a nats-server (``lives``).

    await live_with_options(ask, client, version=(2, 12))

Each stream gets its option, one consumer, messages on three subjects, deliveries and acknowledgements.
Options that a version does not know are left out.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from nats.aio.client import Client

from tests.kits.patience import PATIENCE_S

Ask = Callable[[str, Any], Awaitable[dict[str, Any]]]  # a verb of the API and its body; fails on an error

_CENTURY: Final = 876_000 * 3600 * 10**9
_MOST_DELIVERED: Final = 8
_DAY: Final = "2100-01-01T00:00:00Z"


class Option(msgspec.Struct, frozen=True):
    """One option, and what makes a server act on it."""

    name: str
    since: tuple[int, int] = (2, 10)
    stream: dict[str, Any] = {}
    consumer: dict[str, Any] = {}
    update: dict[str, Any] = {}  # of the stream, at the end
    headers: dict[str, str] = {}  # of each message
    body: bytes = b""
    each_once: bool = False  # every message has a subject of its own
    pull: dict[str, Any] = {}  # fields of the pull request


OPTIONS: Final = (
    # Of streams.
    Option(
        "transform", stream={"subject_transform": {"src": "o.transform.*", "dest": "o.new.{{wildcard(1)}}"}}
    ),
    Option("republish", stream={"republish": {"src": ">", "dest": "again.>", "headers_only": True}}),
    Option("rejecting", stream={"discard": "new", "max_msgs": 6}),
    Option(
        "per_subject",
        stream={"discard": "new", "discard_new_per_subject": True, "max_msgs_per_subject": 2, "max_msgs": 40},
    ),
    Option("kept", stream={"deny_delete": True, "deny_purge": True}),
    Option("sealed", update={"sealed": True}),
    Option("silent", stream={"no_ack": True}),
    Option("small", stream={"max_msg_size": 1000, "max_consumers": 2, "duplicate_window": 10**9}),
    Option("limited", stream={"consumer_limits": {"max_ack_pending": 9, "inactive_threshold": _CENTURY}}),
    Option("direct", stream={"allow_direct": True, "description": "read directly"}),
    Option("expiring", (2, 11), {"allow_msg_ttl": True}, headers={"Nats-TTL": "never"}),
    Option("marked", (2, 11), {"allow_msg_ttl": True, "subject_delete_marker_ttl": _CENTURY}),
    Option("counted", (2, 12), {"allow_msg_counter": True}, headers={"Nats-Incr": "+3"}),
    Option(
        "scheduled",
        (2, 12),
        {"allow_msg_schedules": True},
        headers={"Nats-Schedule": f"@at {_DAY}", "Nats-Schedule-Target": "o.scheduled.target"},
        each_once=True,
    ),
    Option("batches", (2, 12), {"allow_atomic": True}),
    Option("lazy", (2, 12), {"persist_mode": "async"}),
    Option("fast", (2, 14), {"allow_batched": True}),
    # Of consumers.
    Option("headers", consumer={"headers_only": True}, body=b"large" * 50),
    Option("backoff", consumer={"backoff": [_CENTURY, 2 * _CENTURY], "max_deliver": 4}),
    Option("filters", consumer={"filter_subjects": ["o.filters.a", "o.filters.c"]}),
    Option("from_seq", consumer={"deliver_policy": "by_start_sequence", "opt_start_seq": 4}),
    Option(
        "from_time", consumer={"deliver_policy": "by_start_time", "opt_start_time": "2020-01-01T00:00:00Z"}
    ),
    Option("last", consumer={"deliver_policy": "last"}),
    Option("original", consumer={"replay_policy": "original"}),
    Option("sampled", consumer={"sample_freq": "100"}),
    Option("pulls", consumer={"max_batch": 20, "max_expires": 10**10, "max_bytes": 10_000, "max_waiting": 5}),
    Option("passing", consumer={"inactive_threshold": _CENTURY, "mem_storage": False}),
    Option(
        "pushed",
        consumer={"deliver_subject": "to.pushed", "deliver_group": "g", "rate_limit_bps": 10**9},
    ),
    Option(
        "flowing", consumer={"deliver_subject": "to.flowing", "flow_control": True, "idle_heartbeat": 10**9}
    ),
    Option("paused", (2, 11), consumer={"pause_until": _DAY}),
    Option(
        "overflow",
        (2, 11),
        consumer={"priority_policy": "overflow", "priority_groups": ["g"]},
        pull={"group": "g"},
    ),
    Option(
        "pinned",
        (2, 11),
        consumer={"priority_policy": "pinned_client", "priority_groups": ["g"], "priority_timeout": 10**11},
        pull={"group": "g"},
    ),
    Option(
        "prioritized",
        (2, 12),
        consumer={"priority_policy": "prioritized", "priority_groups": ["g"]},
        pull={"group": "g", "priority": 3},
    ),
)


async def live_with_options(ask: Ask, client: Client, version: tuple[int, ...]) -> None:
    """Create a stream for each option that the version knows, and use it."""
    for option in OPTIONS:
        if version >= option.since:
            await _use(ask, client, option)


async def _use(ask: Ask, client: Client, option: Option) -> None:
    stream, prefix = option.name.upper(), f"o.{option.name}"
    config = {"name": stream, "subjects": [f"{prefix}.*"], **option.stream}
    await ask(f"STREAM.CREATE.{stream}", config)
    consumer = {"durable_name": "c", "ack_policy": "explicit", "ack_wait": _CENTURY, **option.consumer}
    if "backoff" in consumer:
        del consumer["ack_wait"]
    await ask(f"CONSUMER.DURABLE.CREATE.{stream}.c", {"stream_name": stream, "config": consumer})
    for number in range(12):
        subject = f"{prefix}.{number if option.each_once else 'abc'[number % 3]}"
        headers = {"X-Number": str(number), **option.headers}
        body = b"" if "Nats-Incr" in headers else option.body or b"%d" % number
        if config.get("no_ack"):
            await client.publish(subject, body, headers=headers)
        else:
            await client.request(subject, body, headers=headers, timeout=PATIENCE_S)
    if "deliver_subject" not in consumer and "pause_until" not in consumer:
        await _pull(client, stream, option.pull)
    if option.update:
        told = await ask(f"STREAM.INFO.{stream}", None)
        await ask(f"STREAM.UPDATE.{stream}", {**told["config"], **option.update})


async def _pull(client: Client, stream: str, fields: dict[str, Any]) -> None:
    """Take some messages; acknowledge every second one and reject the third."""
    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox)
    body = json.dumps({"batch": _MOST_DELIVERED, "no_wait": True, **fields}).encode()
    await client.publish(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.c", body, reply=inbox)
    for number in range(_MOST_DELIVERED):
        message = await subscription.next_msg(timeout=PATIENCE_S)
        if not message.reply:
            break
        if number % 2:
            await client.publish(message.reply, b"+ACK")
        elif number == 2:
            await client.publish(message.reply, b"-NAK")
    await subscription.unsubscribe()
    await asyncio.wait_for(client.flush(), PATIENCE_S)
