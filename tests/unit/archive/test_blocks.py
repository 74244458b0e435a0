"""Blocks of nats-server with damaged records."""

import pytest

from millstream.archive.blocks import BlockReader
from millstream.archive.errors import DamagedRecord
from tests.kits.jetstream.archive import block_record


def record(seq: int, body: bytes = b"body") -> bytes:
    return block_record("S", 1, seq, b"a.b", body)


def test_a_damaged_record_costs_one_message() -> None:
    parts = [record(seq) for seq in range(1, 5)]
    broken = parts[1][:-1] + bytes([parts[1][-1] ^ 1])
    reader = BlockReader("S")
    reader.begin(1, b"".join([parts[0], broken, *parts[2:]]))
    assert reader.next()
    with pytest.raises(DamagedRecord):
        reader.next()
    assert reader.skip_damage() == len(broken)
    assert [reader.seq for _ in range(2) if reader.next()] == [3, 4]
    assert not reader.next()


def test_the_search_behind_damage_is_bounded_whatever_a_body_looks_like() -> None:
    """Every eighth byte of the body begins something that could be a record of 16 KiB."""
    crafted = (0x4000).to_bytes(4, "little") + (1).to_bytes(4, "little")
    damaged = b"\xff" + record(1, crafted * 20_000)[1:]  # its length is lost
    data = damaged + record(2)
    reader = BlockReader("S")
    reader.begin(1, data)
    with pytest.raises(DamagedRecord):
        reader.next()
    reader.skip_damage()
    assert 16 * len(data) < reader.hashed_in_vain < 65 * len(data)
    while reader.next():
        pass


def test_the_limit_counts_for_each_block() -> None:
    crafted = (0x4000).to_bytes(4, "little") + (1).to_bytes(4, "little")
    reader = BlockReader("S")
    reader.begin(1, b"\xff" + record(1, crafted * 20_000)[1:])
    with pytest.raises(DamagedRecord):
        reader.next()
    reader.skip_damage()
    reader.begin(2, b"\xff" + block_record("S", 2, 1)[1:] + block_record("S", 2, 2))
    with pytest.raises(DamagedRecord):
        reader.next()
    reader.skip_damage()
    assert reader.next()
    assert reader.seq == 2
