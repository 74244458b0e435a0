"""The memory of a consumer that goes is freed in slices, with whatever it goes."""

from __future__ import annotations

import json
import weakref
from typing import Any

import pytest

from millstream.jsapi.names import METADATA_PER_KEY
from tests.kits.large_site import Site, consumers

_MESSAGES = 3000


def _site(*, keys: bool = False, waiting: int = 0) -> Site:
    """A consumer got all messages and refused some; requests wait."""
    site = Site()
    site.ask("STREAM.CREATE.M", {"name": "M", "subjects": ["m.*"]})
    more: dict[str, Any] = {"max_ack_pending": _MESSAGES, "max_waiting": max(waiting, 1)}
    if keys:
        more["metadata"] = {METADATA_PER_KEY: "1"}
    config = {"durable_name": "d", "ack_policy": "explicit", **more}
    site.ask("CONSUMER.DURABLE.CREATE.M.d", {"stream_name": "M", "config": config})
    site.client.say(b"".join(b"PUB m.%d 0\r\n\r\n" % number for number in range(_MESSAGES)))
    site.client.say(b"PUB $JS.API.CONSUMER.MSG.NEXT.M.d _INBOX 4\r\n%d\r\n" % _MESSAGES)
    assert len(site.account.stream("M").consumers["d"].ledger.pending) == _MESSAGES
    nak = b'-NAK {"delay":1000000000000}'
    line = b"PUB $JS.ACK.M.d.1.%d.%d.0.0 %d\r\n%b\r\n"
    site.say_in_chunks([line % (seq, seq, len(nak), nak) for seq in range(1, 500)])
    body = json.dumps({"batch": 1, "expires": 30_000_000_000}).encode()
    site.say_in_chunks(
        [b"PUB $JS.API.CONSUMER.MSG.NEXT.M.d _INBOX %d\r\n%b\r\n" % (len(body), body)] * waiting
    )
    return site


@pytest.mark.parametrize("endpoint", ["CONSUMER.DELETE.M.d", "STREAM.DELETE.M", "CONSUMER.RESET.M.d"])
@pytest.mark.parametrize("keys", [False, True])
def test_pending_messages_are_freed_in_slices(endpoint: str, keys: bool) -> None:
    site = _site(keys=keys)
    ledger = site.account.stream("M").consumers["d"].ledger
    pending = ledger.pending
    site.ask(endpoint)
    assert ledger.pending is not pending
    site.loop.run_ready()
    assert len(pending) == 0
    assert 0 < site.watchdog.most_items["freeing memory"] < _MESSAGES


def test_requests_of_a_deleted_consumer_end_in_slices() -> None:
    site = _site(waiting=1000)
    heard = site.client.say(b"PUB $JS.API.CONSUMER.DELETE.M.d _INBOX 0\r\n\r\n")
    site.loop.run_ready()
    heard += site.client.heard()
    assert heard.count(b"409 Consumer Deleted") == 1000
    assert b'"success":true' in heard
    assert 0 < site.watchdog.most_items["statuses"] <= 1024


def test_consumers_of_a_deleted_stream_are_freed_one_by_one() -> None:
    site = Site()
    consumers(site, 1)
    manager = site.account.stream("M").consumers
    alive = [weakref.ref(each.advisories) for each in manager.values()]
    list(manager.end())
    pieces = manager.tell_ended()
    for told in range(1, len(alive) + 1):
        next(pieces)
        assert sum(each() is not None for each in alive) <= len(alive) - told + 1
    list(pieces)
    assert not any(each() for each in alive)
