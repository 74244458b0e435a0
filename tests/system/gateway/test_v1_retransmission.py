"""Retransmission on `/v1`: after `ack_wait`, whoever came or left meanwhile (httpmq's own rule)."""

import asyncio

import pytest

from tests.kits.gateway.v1 import Lab, eventually, payload_of

SECOND_NS = 1_000_000_000


async def left(lab: Lab) -> None:
    """Wait until the gateway is done with every caller that left."""

    async def nobody_is_there() -> bool:
        return not lab.gateway.server.core.links.own.is_held

    await eventually(nobody_is_there, "a subscription is still open")


async def test_leaving_changes_nothing_about_what_was_sent(lab: Lab) -> None:
    await lab.consumer(max_inflight=10)  # and half a minute to acknowledge
    await lab.publish("one")
    async with lab.subscribed() as lines:
        await lines.next()
    await left(lab)
    async with lab.subscribed() as lines:
        await lab.publish("two")
        assert await lines.text() == "two"  # and not the first one again
        info = await lab.info()
        assert (info["num_redelivered"], info["delivered"]["consumer_seq"]) == (0, 2)


async def test_a_worker_may_disconnect_to_work_and_acknowledge_in_time(lab: Lab) -> None:
    await lab.consumer(max_inflight=1)
    await lab.publish("work")
    await lab.publish("next")
    async with lab.subscribed() as lines:
        work = await lines.next()
    async with lab.subscribed() as other:  # who waits for the place
        assert (await lab.ack(work))["acked"] is True
        line = await other.next()
        assert (payload_of(line), line["num_delivered"]) == ("next", 1)


async def test_a_message_comes_again_when_ack_wait_is_over_and_not_before(lab: Lab) -> None:
    await lab.consumer(max_inflight=4, ack_wait=2 * SECOND_NS)
    await lab.publish("one")
    loop = asyncio.get_running_loop()
    before = loop.time()
    async with lab.subscribed() as lines:
        await lines.next()
    async with lab.subscribed() as lines:
        again = await lines.next()
    assert (payload_of(again), again["num_delivered"]) == ("one", 2)
    assert loop.time() - before >= 2.0
    assert again["sequence"] == {"stream": 1, "consumer": 2}


async def test_callers_that_come_and_go_do_not_use_up_max_retry(lab: Lab) -> None:
    await lab.consumer(max_inflight=4, max_retry=3, ack_wait=3 * SECOND_NS)
    await lab.publish("one")
    async with lab.subscribed() as lines:
        await lines.next()
    for _ in range(5):
        async with lab.subscribed():
            pass
    async with lab.subscribed() as lines:
        line = await lines.next()
        assert (payload_of(line), line["num_delivered"] <= 3) == ("one", True)
        assert (await lab.ack(line))["acked"] is True


async def test_callers_that_come_and_go_do_not_use_up_what_nobody_has_seen(lab: Lab) -> None:
    """The window is smaller than the consumer's, so messages wait in the gateway, delivered but not sent."""
    # Long enough for six callers to come and go, on a busy machine too.
    await lab.consumer(max_inflight=4, max_retry=3, ack_wait=15 * SECOND_NS)
    texts = {"one", "two", "three", "four"}
    for text in sorted(texts):
        await lab.publish(text)
    for _ in range(6):
        async with lab.subscribed(max_msg_inflight=1):
            pass
        await left(lab)
    seen: set[str] = set()
    async with lab.subscribed() as lines:
        while seen != texts:
            seen.add(await lines.text())


async def test_what_was_never_sent_goes_to_the_next_caller_at_once(lab: Lab) -> None:
    await lab.consumer(max_inflight=10)  # and half a minute to acknowledge
    for text in ("one", "two", "three"):
        await lab.publish(text)
    async with lab.subscribed(max_msg_inflight=1) as lines:
        assert await lines.text() == "one"
    async with lab.subscribed() as lines:
        assert sorted([await lines.text() for _ in range(2)]) == ["three", "two"]


@pytest.mark.parametrize("query", [{}, {"max_msg_inflight": 0}, {"max_msg_inflight": 100}])
async def test_without_a_window_of_its_own_a_subscription_has_the_consumers(
    lab: Lab, query: dict[str, int]
) -> None:
    await lab.consumer(max_inflight=4)
    for number in range(6):
        await lab.publish(str(number))
    async with lab.subscribed(**query) as lines:
        four = [await lines.next() for _ in range(4)]
        assert [payload_of(line) for line in four] == ["0", "1", "2", "3"]
        info = await lab.info()
        assert (info["num_ack_pending"], info["num_pending"]) == (4, 2)
        await lab.ack(four[2])
        assert await lines.text() == "4"


async def test_a_window_of_its_own_is_kept(lab: Lab) -> None:
    await lab.consumer(max_inflight=4)
    for number in range(4):
        await lab.publish(str(number))
    async with lab.subscribed(max_msg_inflight=2) as lines:
        first, _ = await lines.next(), await lines.next()
        await lab.ack(first)
        assert await lines.text() == "2"
        assert await lines.silent_for(0.2)
