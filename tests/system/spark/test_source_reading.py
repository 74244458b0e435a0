"""Batch reads of real streams, on both servers and over every transport."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from millstream.link.blocking_link import BlockingLink
from millstream.link.options import LinkOptions, parse_servers
from millstream.spark.partitions import RangePartition
from millstream.tables.errors import DataLoss, NotAllowed, OptionError, SourceUnavailable, StreamMissing
from tests.kits.fault_proxy import FaultProxy
from tests.kits.ports import free_ports
from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.spark.source import ALL, Lab, partitions, read, rows, schema_of, source_of

ODD_BLOCKS = (
    b"NATS/1.0\r\nA: 1\r\nB: 2\r\nA: 3\r\n\r\n",
    b"NATS/1.0\r\nEmpty:\r\nSpaces:   x y  \r\nTab:\tz\r\n\r\n",
    b"NATS/1.0\r\nLatin: \xe4\xf6\r\n\xc3\xa4: \xe2\x82\xac\r\n\r\n",
    b"NATS/1.0\r\nNats-Streams: not this\r\nNats-Sequences: 99\r\nNats-Subjects: q\r\n\r\n",
    b"NATS/1.0\r\n\r\n",
)


def transports_of(lab: Lab) -> list[str]:
    return ["pull", "direct", *(["arrow"] if lab.server.kind is ServerKind.MILLSTREAM else [])]


@pytest.fixture
def odd(lab: Lab) -> str:
    """A stream of everything that is legal and unusual."""
    stream = lab.stream(allow_direct=True)
    lab.publish(stream, [b"", b"plain", bytes(range(256)), b"1" * 1_000_000])
    for number, block in enumerate(ODD_BLOCKS):
        lab.publish(stream, [b"payload"], f"odd.{number}", block)
    lab.publish(stream, [b"id"], "with.id", {"Nats-Msg-Id": "order-1", "X": "y"})
    for subject in (
        "a.b.c.d.e.f",
        "dash-and_underscore",
        "tilde~",
        "ünïcödé",
        "$dollar",
        "quote'\"",
        "per%cent",
    ):
        lab.publish(stream, [b"s"], subject)
    return stream


def test_all_transports_give_the_same_rows_byte_for_byte(lab: Lab, odd: str) -> None:
    by_transport = {
        transport: rows(lab.options(odd, transport=transport), ALL) for transport in transports_of(lab)
    }
    expected = by_transport["pull"]
    assert [row["seq"] for row in expected] == list(range(1, 18))
    for transport, found in by_transport.items():
        assert found == expected, transport


def test_rows_are_what_was_published(lab: Lab, odd: str) -> None:
    found = rows(lab.options(odd), ALL)
    assert [row["data"] for row in found[:4]] == [b"", b"plain", bytes(range(256)), b"1" * 1_000_000]
    assert [row["size"] for row in found[:4]] == [0, 5, 256, 1_000_000]
    assert [row["headers"] for row in found[4:9]] == [
        [("A", ["1", "3"]), ("B", ["2"])],
        [("Empty", [""]), ("Spaces", ["x y"]), ("Tab", ["z"])],
        [("Latin", ["��"]), ("ä", ["€"])],
        [("Nats-Streams", ["not this"]), ("Nats-Sequences", ["99"]), ("Nats-Subjects", ["q"])],
        [],
    ]
    assert [row["headers_raw"] for row in found[4:9]] == [*ODD_BLOCKS[:4], b""]
    assert [row["msg_id"] for row in found[8:11]] == [None, "order-1", None]
    assert found[9]["tokens"] == [odd, "with", "id"]
    assert found[13]["subject"] == f"{odd}.ünïcödé"
    assert {row["stream"] for row in found} == {odd}
    stored = lab.api(f"STREAM.MSG.GET.{odd}", {"seq": 1})["message"]["time"]
    assert stored.startswith(f"{found[0]['time']:%Y-%m-%dT%H:%M:%S.%f}".rstrip("0"))
    assert found[0]["time_ns"] // 1000 == int(found[0]["time"].timestamp() * 1_000_000 + 0.5)


def test_without_data_payloads_stay_on_the_server(lab: Lab, odd: str) -> None:
    columns = [name for name in ALL if name != "data"]
    whole = [{name: row[name] for name in columns} for row in rows(lab.options(odd), ALL)]
    for transport in transports_of(lab):
        assert rows(lab.options(odd, transport=transport), columns) == whole, transport


def test_headers_that_say_what_the_server_says_are_the_servers(lab: Lab) -> None:
    """A direct get says in headers which message it is; Millstream leaves out what a publisher says there."""
    stream = lab.stream(allow_direct=True)
    block = b"NATS/1.0\r\nNats-Stream: not this\r\nNats-Sequence: 99\r\nNats-Subject: q\r\nA: 1\r\n\r\n"
    lab.publish(stream, [b"payload"], "odd", block)
    said = [("Nats-Stream", ["not this"]), ("Nats-Sequence", ["99"]), ("Nats-Subject", ["q"])]
    for transport in transports_of(lab):
        [row] = rows(lab.options(stream, transport=transport), ALL)
        assert (row["stream"], row["seq"], row["subject"]) == (stream, 1, f"{stream}.odd")
        kept = transport != "direct" or lab.server.kind is not ServerKind.MILLSTREAM
        assert row["headers"] == [*(said if kept else []), ("A", ["1"])]


def test_headers_can_be_left_out(lab: Lab, odd: str) -> None:
    for transport in transports_of(lab):
        found = rows(lab.options(odd, transport=transport, includeHeaders="false"))
        assert [row["headers"] for row in found] == [[]] * 17


def test_more_messages_than_fit_in_a_batch_or_a_request_all_come(lab: Lab) -> None:
    stream = lab.stream(allow_direct=True, storage="memory")
    lab.fill(stream, 12_345)
    for transport in transports_of(lab):
        options = lab.options(stream, transport=transport, fetch__batch="1000", minPartitions="3")
        found = rows(options, ("seq", "data"))
        assert [row["seq"] for row in found] == list(range(1, 12_346)), transport
        assert [int(row["data"]) for row in found] == list(range(12_345)), transport


def test_payloads_larger_than_a_request_may_be_come_too(lab: Lab) -> None:
    stream = lab.stream(allow_direct=True)
    lab.fill(stream, 40, size=10_000)
    for transport in transports_of(lab):
        found = rows(lab.options(stream, transport=transport, fetch__maxBytes="4k"), ("seq",))
        assert [row["seq"] for row in found] == list(range(1, 41)), transport


def test_deleted_messages_are_left_out_and_ranges_end_where_they_should(lab: Lab) -> None:
    stream = lab.stream(allow_direct=True)
    lab.fill(stream, 30)
    for seq in (1, 2, 14, 15, 16, 29, 30):
        lab.api(f"STREAM.MSG.DELETE.{stream}", {"seq": seq})
    kept = [seq for seq in range(3, 29) if seq not in (14, 15, 16)]
    for transport in transports_of(lab):
        options = lab.options(stream, transport=transport, maxRecordsPerPartition="4")
        assert len(partitions(options)) == 7
        assert [row["seq"] for row in rows(options, ("seq",))] == kept, transport


@pytest.mark.parametrize("filters", ["{}.0", "{}.0,{}.2", "{}.>", "*.1", "{}.nothing"])
def test_filters_are_kept(lab: Lab, filters: str) -> None:
    stream = lab.stream(allow_direct=True)
    lab.fill(stream, 100)
    wanted = filters.replace("{}", stream)
    expected = [number for number in range(100) if any(token in wanted for token in (f".{number % 3}", ".>"))]
    for transport in transports_of(lab):
        options = lab.options(stream, transport=transport, filterSubjects=wanted, minPartitions="3")
        assert [int(row["data"]) for row in rows(options, ("data",))] == expected, transport


def test_several_streams_and_patterns_are_read_together(lab: Lab) -> None:
    names = sorted(lab.stream() for _ in range(3))
    for number, name in enumerate(names):
        lab.publish(name, [f"{name}-{count}" for count in range(number)])
    expected = sorted(f"{name}-{count}" for number, name in enumerate(names) for count in range(number))
    by_list = rows(lab.options(",".join(names)), ("stream", "data"))
    assert sorted(row["data"].decode() for row in by_list) == expected
    assert {row["stream"] for row in by_list} == set(names[1:])
    by_pattern = rows(lab.options(subscribePattern="|".join(names)), ("data",))
    assert sorted(row["data"].decode() for row in by_pattern) == expected


def test_starts_and_ends(lab: Lab) -> None:
    stream = lab.stream()
    lab.fill(stream, 20)

    def seqs(**more: str) -> list[int]:
        return [row["seq"] for row in rows(lab.options(stream, **more), ("seq",))]

    whole = list(range(1, 21))
    assert seqs(startingOffsets="15") == whole[14:]
    assert seqs(startingOffsets="-3") == [18, 19, 20]
    assert seqs(startingOffsets="5", endingOffsets="8") == [5, 6, 7]
    assert seqs(startingOffsets=json.dumps({stream: 3}), endingOffsets=json.dumps({stream: 5})) == [3, 4]
    assert seqs(startingTimestamp="-1 hour") == whole
    assert seqs(startingTimestamp="2100-01-01", startingOffsetsByTimestampStrategy="latest") == []
    [tenth] = rows(lab.options(stream, startingOffsets="10", endingOffsets="11"), ("time_ns",))
    moment = str(tenth["time_ns"] // 1_000_000 + 1)  # milliseconds: the next one after it
    later = seqs(startingTimestamp=moment, startingOffsetsByTimestampStrategy="latest")
    assert later == [seq for seq in whole if seq in later]
    assert 10 not in later
    assert seqs(endingTimestamp=moment) == [seq for seq in whole if seq not in later]
    assert seqs(startingOffsets="21") == []


def test_an_empty_stream_is_one_empty_partition(lab: Lab) -> None:
    stream = lab.stream()
    [partition] = partitions(lab.options(stream))
    assert isinstance(partition, RangePartition)
    assert rows(lab.options(stream)) == []


def test_work_queues_are_read_without_touching_them(lab: Lab) -> None:
    for direct in (True, False):
        stream = lab.stream(retention="workqueue", allow_direct=direct)
        lab.fill(stream, 25)
        found = rows(lab.options(stream), ("seq", "data"))
        assert [int(row["data"]) for row in found] == list(range(25))
        filtered = rows(lab.options(stream, filterSubjects=f"{stream}.0,{stream}.1"), ("data",))
        assert [int(row["data"]) for row in filtered] == [n for n in range(25) if n % 3 < 2]
        assert (lab.state(stream)["messages"], lab.consumers(stream)) == (25, [])
    with pytest.raises(OptionError, match=r"transport=pull: .* is a work queue"):
        rows(lab.options(stream, transport="pull"))
    with pytest.raises(OptionError, match="does not have allow_direct"):
        rows(lab.options(stream, transport="direct"))


def test_interest_streams_are_read_without_adding_interest(lab: Lab) -> None:
    stream = lab.stream(retention="interest", allow_direct=True)
    lab.api(
        f"CONSUMER.CREATE.{stream}.other",
        {
            "stream_name": stream,
            "config": {"name": "other", "durable_name": "other", "ack_policy": "explicit"},
        },
    )
    lab.fill(stream, 10)
    assert [int(row["data"]) for row in rows(lab.options(stream), ("data",))] == list(range(10))
    assert lab.consumers(stream) == ["other"]


def test_readers_leave_no_consumer_behind(lab: Lab) -> None:
    stream = lab.stream()
    lab.fill(stream, 10)
    assert len(rows(lab.options(stream, transport="pull"), ("seq",))) == 10
    assert lab.consumers(stream) == []


def test_a_reader_that_is_closed_early_leaves_no_consumer_behind(lab: Lab) -> None:
    """Spark's `limit` closes a reader early; if Spark kills the worker instead, the consumer expires."""
    stream = lab.stream(storage="memory")
    lab.fill(stream, 25_000)
    reader = source_of(lab.options(stream, transport="pull")).reader(schema_of(("seq",)))
    [partition] = reader.partitions()
    batches = iter(reader.read(partition))
    next(batches)
    [consumer] = lab.consumers(stream)
    config = lab.api(f"CONSUMER.INFO.{stream}.{consumer}")["config"]
    assert config["inactive_threshold"] == 60_000_000_000
    assert (config["ack_policy"], config["num_replicas"], config["mem_storage"]) == ("none", 1, True)
    batches.close()  # type: ignore[attr-defined]
    while lab.consumers(stream):
        pass


# -- what is gone ------------------------------------------------------------------------------------


def test_a_start_that_is_purged_is_loss_with_exact_sequences(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    stream = lab.stream()
    lab.fill(stream, 20)
    lab.purge(stream, 8)
    with pytest.raises(DataLoss, match=rf"stream {stream}: messages 3 to 7 were to be read and are gone"):
        rows(lab.options(stream, startingOffsets="3"))
    found = rows(lab.options(stream, startingOffsets="3", failOnDataLoss="false"), ("seq",))
    assert [row["seq"] for row in found] == list(range(8, 21))
    assert "messages 3 to 7 were to be read and are gone" in caplog.text


@pytest.mark.parametrize("transport", ["pull", "direct", "arrow"])
def test_what_is_purged_between_plan_and_read_is_loss(
    lab: Lab, transport: str, caplog: pytest.LogCaptureFixture
) -> None:
    if transport not in transports_of(lab):
        pytest.skip("nats-server has no such transport")
    for fail in ("true", "false"):
        stream = lab.stream(allow_direct=True)
        lab.fill(stream, 20)
        options = lab.options(stream, transport=transport, failOnDataLoss=fail)
        reader = source_of(options).reader(schema_of(("seq",)))
        planned = list(reader.partitions())
        lab.purge(stream, 6)
        if fail == "true":
            with pytest.raises(DataLoss, match="messages 1 to 5 were to be read and are gone"):
                read(reader, planned)
        else:
            assert [row["seq"] for row in read(reader, planned)] == list(range(6, 21))
            assert "messages 1 to 5 were to be read and are gone" in caplog.text
        lab.delete(stream)
        lab.create_again(stream, allow_direct=True)
        lab.fill(stream, 30)
        if fail == "true":
            with pytest.raises(DataLoss, match=r"messages 1 to 20 .* deleted and created again"):
                read(reader, planned)
        else:
            assert read(reader, planned) == []


# -- bad surroundings --------------------------------------------------------------------------------


def test_a_missing_stream_is_named(lab: Lab) -> None:
    with pytest.raises(StreamMissing, match="there is no stream NOPE on nats://127"):
        rows(lab.options("NOPE"))
    with pytest.raises(StreamMissing, match=r"matches subscribePattern=NOPE.*"):
        rows(lab.options(subscribePattern="NOPE.*"))


def test_a_server_that_is_not_there_is_named() -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    options = {"nats.servers": f"nats://{address}", "subscribe": "X", "fetchTimeout": "10ms"}
    with pytest.raises(SourceUnavailable, match=f"cannot connect to {address}: .*refused"):
        rows(options)


def test_credentials_decide(own_server: Callable[..., ServerProcess]) -> None:
    config = """
        accounts: { A: { jetstream: enabled, users: [
            { user: ann, password: secret }
            { user: bob, password: secret, permissions: { publish: { deny: ["$JS.API.CONSUMER.>"] } } }
        ] } }
    """
    server = own_server(jetstream=True, config=config)
    base = {"nats.servers": server.client_url, "subscribe": "O"}
    ann = base | {"nats.user": "ann", "nats.password": "secret"}
    login = LinkOptions(servers=parse_servers(server.client_url), user="ann", password="secret")
    with BlockingLink(login) as link:
        link.api("STREAM.CREATE.O", {"name": "O", "subjects": ["o"], "allow_direct": True})
        link.request("o", b"x")
    assert len(rows(ann)) == 1
    with pytest.raises(NotAllowed, match="refused the credentials: Authorization Violation") as refused:
        rows(ann | {"nats.password": "wrong-secret"})
    assert "wrong-secret" not in str(refused.value)
    with pytest.raises(NotAllowed, match="asks for credentials, and none were given"):
        rows(base)
    bob = ann | {"nats.user": "bob"}
    with pytest.raises(NotAllowed, match=r"CONSUMER.CREATE.*transport=direct reads without a consumer"):
        rows(bob | {"transport": "pull"})
    assert len(rows(bob | {"transport": "direct"})) == 1


class ProxyThread:
    """A bad line that lives in a thread of its own, since readers block."""

    def __init__(self, port: int) -> None:
        self.loop = asyncio.new_event_loop()
        self.proxy = FaultProxy(port)
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()
        self.call(self.proxy.start())

    def call(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(20)

    def cut(self) -> None:
        async def cut() -> None:
            self.proxy.cut_all()

        self.call(cut())

    def close(self) -> None:
        self.call(self.proxy.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


@pytest.fixture
def line_to() -> Iterator[Callable[[int], ProxyThread]]:
    """A bad line to a port."""
    made: list[ProxyThread] = []

    def make(port: int) -> ProxyThread:
        made.append(ProxyThread(port))
        return made[-1]

    yield make
    for proxy in made:
        proxy.close()


@pytest.fixture
def line(lab: Lab, line_to: Callable[[int], ProxyThread]) -> ProxyThread:
    return line_to(lab.server.port)


@pytest.mark.parametrize("transport", ["pull", "direct"])
def test_a_broken_connection_costs_no_row_and_doubles_none(
    lab: Lab, line: ProxyThread, transport: str
) -> None:
    stream = lab.stream(allow_direct=True, storage="memory")
    lab.fill(stream, 30_000)
    options = lab.options(stream, transport=transport, fetch__batch="500")
    options["nats.servers"] = f"nats://127.0.0.1:{line.proxy.port}"
    reader = source_of(options).reader(schema_of(("seq",)))
    [partition] = reader.partitions()
    found: list[int] = []
    for batch in reader.read(partition):
        found += batch.column("seq").to_pylist()
        line.cut()
    assert found == list(range(1, 30_001))
    assert line.proxy.accepted >= 2  # what was cut may have been on this side of the line already


def test_a_broken_http_connection_costs_no_row_and_doubles_none(
    line_to: Callable[[int], ProxyThread], own_server: Callable[..., ServerProcess], server_kind: ServerKind
) -> None:
    if server_kind is not ServerKind.MILLSTREAM:
        pytest.skip("nats-server has no such transport")
    [port] = free_ports(1)
    line = line_to(port)
    config = f'millstream {{ arrow {{ port: {port}, advertise: "127.0.0.1:{line.proxy.port}" }} }}'
    lab = Lab(own_server(jetstream=True, config=config))
    stream = lab.stream(storage="memory")
    lab.fill(stream, 35_000, size=500)  # more than fits into what sockets hold
    reader = source_of(lab.options(stream, transport="arrow")).reader(schema_of(("seq", "data")))
    [partition] = reader.partitions()
    found: list[int] = []
    for batch in reader.read(partition):
        found += batch.column("seq").to_pylist()
        line.cut()
    assert found == list(range(1, 35_001))
    assert line.proxy.accepted >= 2
    line.call(line.proxy.stop())  # auto goes over to the wire
    assert len(rows(lab.options(stream, fetch__numRetries="0"), ("seq",))) == 35_000
    lab.close()


def test_a_line_that_breaks_all_the_time_ends_with_its_cause(lab: Lab, line: ProxyThread) -> None:
    stream = lab.stream()
    lab.fill(stream, 10)
    options = lab.options(stream, transport="pull", fetch__numRetries="1", fetchTimeout="1s")
    options["nats.servers"] = f"nats://127.0.0.1:{line.proxy.port}"
    reader = source_of(options).reader(schema_of(("seq",)))
    [partition] = reader.partitions()
    line.call(line.proxy.stop())
    with pytest.raises(SourceUnavailable, match=r"cannot connect to 127\.0\.0\.1:.*refused"):
        list(reader.read(partition))
