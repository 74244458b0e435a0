"""A range that comes as Arrow up to some place, and over the wire from there on."""

from collections.abc import Iterator
from typing import Any

import pytest

from millstream.link.blocking_link import BlockingLink
from millstream.link.options import LinkOptions, parse_servers
from millstream.tables.errors import DataLoss
from millstream.tables.readers.arrow import ArrowUnusable
from millstream.tables.readers.ranges import _read_arrow
from millstream.tables.stream_range import ARROW, PULL, Fetching, StreamRange
from tests.kits.spark.scripted_server import ScriptedServer, api

CREATED = "2026-01-02T03:04:05Z"


class HalfReader:
    """An `ArrowReader` after some batches, in which a few sequences were missing."""

    def __init__(self) -> None:
        self.through = 5
        self.gaps = [(2, 4)]

    def batches(self) -> Iterator[Any]:
        raise ArrowUnusable("the ticket has expired")
        yield


def answer(subject: str, request: dict[str, Any]) -> list[bytes]:
    state = {"first_seq": 5, "last_seq": 10, "messages": 6, "bytes": 60}
    return [api({"config": {"name": "S"}, "created": CREATED, "state": state})]


def test_messages_that_went_before_the_change_are_told_all_the_same() -> None:
    partition = StreamRange("S", 1, 10, transport=ARROW, fallback=PULL, id=CREATED, dense=True)
    with (
        ScriptedServer(answer) as server,
        BlockingLink(LinkOptions(servers=parse_servers(server.url))) as link,
        pytest.raises(DataLoss, match="messages 2 to 4 were to be read and are gone"),
    ):
        list(_read_arrow(HalfReader(), link, partition, Fetching()))  # type: ignore[arg-type]
