"""The buffer between what arrives and what is taken, and the answers that wait in it."""

import asyncio

import pytest

from millstream.client.buffer import Buffer
from millstream.client.message import OrderedMessage
from millstream.testing.patience import PATIENCE_S


def message(sequence: int, data: bytes = b"x") -> OrderedMessage:
    return OrderedMessage("s", data, {}, "S", sequence, sequence, 0, 0)


def test_an_answer_is_due_when_all_before_it_was_taken() -> None:
    buffer = Buffer(max_messages=10, max_bytes=1000)
    buffer.put(message(1))
    buffer.put_answer("fc")
    buffer.put_answer("fc")  # a heartbeat asks for the same again
    buffer.put(message(2))
    assert buffer.answers_due() == []
    assert buffer.take_message() == message(1)
    assert buffer.take_message() is None
    assert buffer.take() == "fc"
    assert buffer.take() == message(2)
    assert buffer.take() is None
    buffer.put_answer("next")
    assert buffer.answers_due() == ["next"]
    assert buffer.take() is None


def test_it_is_full_by_messages_or_by_bytes() -> None:
    buffer = Buffer(max_messages=2, max_bytes=10)
    buffer.put(message(1))
    assert not buffer.full
    buffer.put(message(2))
    assert buffer.full
    buffer.take()
    buffer.take()
    assert (buffer.messages, buffer.bytes, buffer.full) == (0, 0, False)
    buffer.put(message(3, b"0123456789"))
    assert buffer.full


async def test_it_is_drained_when_half_of_it_is_free() -> None:
    buffer = Buffer(max_messages=4, max_bytes=1000)
    for sequence in range(1, 5):
        buffer.put(message(sequence))
    drained = asyncio.create_task(buffer.drained())
    buffer.take()
    await asyncio.sleep(0)
    assert not drained.done()
    buffer.take()
    await asyncio.wait_for(drained, PATIENCE_S)


async def test_waiting_ends_when_something_comes_or_nothing_will() -> None:
    buffer = Buffer(max_messages=4, max_bytes=1000)
    waiting = asyncio.create_task(buffer.wait())
    await asyncio.sleep(0)
    buffer.put(message(1))
    await asyncio.wait_for(waiting, PATIENCE_S)
    buffer.end(discard=False)
    assert not buffer.ended
    assert buffer.take() == message(1)
    assert buffer.ended
    await asyncio.wait_for(buffer.wait(), PATIENCE_S)


async def test_what_was_not_taken_may_be_discarded_in_the_end() -> None:
    buffer = Buffer(max_messages=1, max_bytes=1000)
    buffer.put(message(1))
    buffer.end(discard=True)
    assert buffer.ended
    assert (buffer.messages, buffer.bytes) == (0, 0)
    await asyncio.wait_for(buffer.drained(), PATIENCE_S)


def test_a_buffer_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="room"):
        Buffer(max_messages=1, max_bytes=0)
