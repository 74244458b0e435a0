"""Windows of publishes on both servers, with and without a loop: every message has its own outcome."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from millstream.link.blocking_link import BlockingLink
from millstream.link.blocking_publisher import BlockingPublisher
from millstream.link.errors import (
    AuthorizationViolation,
    BadMessage,
    ConnectionLost,
    LinkApiError,
    MessageTooLarge,
    NoResponders,
    NotConnected,
    RequestTimeout,
)
from millstream.link.frames import header_block
from millstream.link.link import Link, LinkState
from millstream.link.options import LinkOptions, LinkTlsOptions, parse_servers
from millstream.link.publish_window import PubAck, Receipts, StoredIn
from millstream.link.publisher import Publisher
from tests.kits.certs import CertificateAuthority
from tests.kits.fault_proxy import FaultProxy, Faults
from tests.kits.link import ServerFactory, options_for
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerProcess


@pytest.fixture
def js(shared_server: ServerFactory) -> ServerProcess:
    return shared_server(jetstream=True)


@pytest.fixture
def link(js: ServerProcess) -> Iterator[BlockingLink]:
    """A connection, and the streams PUBS and SMALL, fresh."""
    with BlockingLink(options_for(js)) as link:
        link.api("STREAM.CREATE.PUBS", {"name": "PUBS", "subjects": ["pubs.>"], "storage": "memory"})
        small: dict[str, Any] = {"name": "SMALL", "subjects": ["small"], "storage": "memory"}
        link.api("STREAM.CREATE.SMALL", {**small, "max_msgs": 3, "discard": "new"})
        yield link
        if link.connected:
            link.api("STREAM.DELETE.PUBS")
            link.api("STREAM.DELETE.SMALL")


@pytest_asyncio.fixture
async def publisher(js: ServerProcess, link: BlockingLink) -> AsyncIterator[Publisher]:
    async with Link(options_for(js)) as wire:
        yield Publisher(wire, limit=100)


def message_id(text: str) -> bytes:
    return header_block({"Nats-Msg-Id": text})


# -- without a loop ---------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 7, 4000])
def test_a_window_of_any_size_publishes_all_in_order(link: BlockingLink, limit: int) -> None:
    publisher = BlockingPublisher(link, limit=limit)
    receipts = Receipts()
    for number in range(300):
        publisher.publish(receipts, b"pubs.%d" % (number % 7), b"", b"%d" % number)
    publisher.settle(receipts)
    assert receipts.sequences == list(range(1, 301))
    assert set(receipts.origins) == {StoredIn("PUBS", "")}
    assert receipts.errors == {}
    last = link.api("STREAM.MSG.GET.PUBS", {"seq": 300})
    assert last["message"]["subject"] == "pubs.5"


def test_repeated_ids_are_told_as_duplicates(link: BlockingLink) -> None:
    publisher = BlockingPublisher(link)
    receipts = Receipts()
    for text in "abcabd":
        publisher.publish(receipts, b"pubs.x", message_id(text), b"")
    publisher.settle(receipts)
    assert receipts.sequences == [1, 2, 3, 1, 2, 4]
    assert receipts.duplicates == {3, 4}


def test_refusals_belong_to_their_message(link: BlockingLink) -> None:
    publisher = BlockingPublisher(link)
    receipts = Receipts()
    for subject in [b"small"] * 5 + [b"nobody.takes.this", b"pubs.x"]:
        publisher.publish(receipts, subject, b"", b"x")
    publisher.settle(receipts)
    assert receipts.sequences == [1, 2, 3, 0, 0, 0, 1]
    kinds = {place: type(error) for place, error in receipts.errors.items()}
    assert kinds == {3: LinkApiError, 4: LinkApiError, 5: NoResponders}
    assert "maximum messages exceeded" in str(receipts.errors[3])


def test_a_message_that_no_server_takes_is_not_sent(link: BlockingLink) -> None:
    publisher = BlockingPublisher(link)
    receipts = Receipts()
    for subject, payload in [(b"a b", b""), (b"pubs.*", b""), (b"pubs.x", b"x" * (1024 * 1024 + 1))]:
        with pytest.raises(BadMessage):
            publisher.publish(receipts, subject, b"", payload)
    publisher.settle(receipts)
    assert len(receipts) == 0
    link.flush()


def test_no_answer_in_time_is_an_outcome_too(link: BlockingLink) -> None:
    with BlockingLink(link.options) as silent:
        silent.subscribe("heard.but.not.answered")
        silent.flush()
        publisher = BlockingPublisher(link, timeout_s=PATIENCE_S)
        receipts = Receipts()
        publisher.publish(receipts, b"heard.but.not.answered", b"", b"")
        publisher.publish(receipts, b"pubs.x", b"", b"")
        publisher.flush()
        while receipts.open > 1:
            assert link.work(60)
        publisher._timeout_s = 0.1  # the answer that was to come has come
        publisher.settle(receipts)
    assert isinstance(receipts.errors[0], RequestTimeout)
    assert receipts.sequences == [0, 1]


def test_a_lost_connection_is_told_and_what_was_in_flight_can_be_sent_again(
    own_server: ServerFactory,
) -> None:
    server = own_server(jetstream=True)
    with BlockingLink(options_for(server)) as link:
        link.api("STREAM.CREATE.PUBS", {"name": "PUBS", "subjects": ["pubs.>"]})
        publisher = BlockingPublisher(link)
        receipts = Receipts()
        for number in range(100):
            publisher.publish(receipts, b"pubs.x", message_id(str(number)), b"")
        publisher.settle(receipts)
        server.kill()
        receipts = Receipts()
        for number in range(50, 150):
            publisher.publish(receipts, b"pubs.x", message_id(str(number)), b"")
        with pytest.raises(NotConnected):
            publisher.settle(receipts)
        assert receipts.open == 0
        assert len(receipts.errors) == 100
        server.start()
        link.reconnect(within_s=30)
        publisher.reconnected()
        receipts = Receipts()
        for number in range(50, 150):
            publisher.publish(receipts, b"pubs.x", message_id(str(number)), b"")
        publisher.settle(receipts)
        assert receipts.errors == {}
        assert link.api("STREAM.INFO.PUBS")["state"]["messages"] == 150


# -- with a loop ------------------------------------------------------------------------------------


async def test_batches_larger_than_the_window_get_their_receipts_in_order(publisher: Publisher) -> None:
    batches = await asyncio.gather(
        *(
            publisher.publish_many([(b"pubs.%d" % batch, b"", b"%d" % number) for number in range(250)])
            for batch in range(4)
        )
    )
    assert all(receipts.errors == {} for receipts in batches)
    assert all(receipts.sequences == sorted(receipts.sequences) for receipts in batches)
    assert sorted(seq for receipts in batches for seq in receipts.sequences) == list(range(1, 1001))


async def test_single_publishes_say_where_they_were_stored(publisher: Publisher) -> None:
    assert await publisher.publish(b"pubs.a", b"x", message_id("1")) == PubAck("PUBS", 1)
    assert await publisher.publish(b"pubs.a", b"x", message_id("1")) == PubAck("PUBS", 1, duplicate=True)
    receipts = await asyncio.gather(*(publisher.publish(b"pubs.a", b"x") for _ in range(500)))
    assert sorted(receipt.seq for receipt in receipts) == list(range(2, 502))


async def test_errors_stand_at_the_place_of_their_message(publisher: Publisher) -> None:
    receipts = await publisher.publish_many(
        [
            (b"pubs.a", b"", b""),
            (b"bad subject", b"", b""),
            (b"nobody", b"", b""),
            (b"pubs.a", b"", b"x" * 2_000_000),
            (b"pubs.a", header_block({"Nats-Expected-Last-Sequence": "77"}), b""),
            (b"pubs.a", b"", b""),
        ]
    )
    kinds = {place: type(error) for place, error in receipts.errors.items()}
    assert kinds == {1: BadMessage, 2: NoResponders, 3: MessageTooLarge, 4: LinkApiError}
    assert receipts.sequences == [1, 0, 0, 0, 0, 2]
    with pytest.raises(LinkApiError) as caught:
        receipts.ack(4)
    assert caught.value.err_code == 10071


async def test_an_empty_batch_is_done_at_once(publisher: Publisher) -> None:
    assert len(await publisher.publish_many([])) == 0


async def test_large_messages_pass(publisher: Publisher) -> None:
    receipts = await publisher.publish_many([(b"pubs.a", b"", b"x" * 500_000)] * 12)
    assert receipts.sequences == list(range(1, 13))


async def test_a_connection_that_breaks_fails_what_is_in_flight_and_comes_back(
    js: ServerProcess, link: BlockingLink
) -> None:
    states: list[bool] = []
    back = asyncio.Event()

    def on_state(state: LinkState, _: object) -> None:
        states.append(state is LinkState.CONNECTED)
        if states[-1]:
            back.set()

    async with FaultProxy(js.port) as proxy:
        options = LinkOptions(servers=parse_servers(f"127.0.0.1:{proxy.port}"))
        wire = Link(options, on_state=on_state)
        await wire.connect()
        publisher = Publisher(wire)
        assert (await publisher.publish(b"pubs.a", b"x")).seq == 1
        proxy.faults = Faults(stuck=True)
        batch = asyncio.create_task(publisher.publish_many([(b"pubs.a", b"", b"x")] * 10))
        await asyncio.sleep(0)
        back.clear()
        proxy.cut_all()
        receipts = await batch
        assert {type(error) for error in receipts.errors.values()} == {ConnectionLost}
        assert len(receipts.errors) == 10
        assert not wire.is_up
        with pytest.raises(NotConnected, match=str(proxy.port)):
            await publisher.publish(b"pubs.a", b"x")
        proxy.faults = Faults()
        await asyncio.wait_for(back.wait(), PATIENCE_S)
        assert (await publisher.publish(b"pubs.a", b"x")).seq >= 2
        assert states[-1] is True
        await wire.close()
    assert states[0] is True
    assert False in states


async def test_no_answer_in_time_fails_one_message_and_frees_its_place(
    js: ServerProcess, link: BlockingLink
) -> None:
    link.subscribe("heard.but.not.answered")
    link.flush()
    wire = Link(options_for(js))
    await wire.connect()
    publisher = Publisher(wire, limit=2, timeout_s=0.1)
    receipts = await publisher.publish_many([(b"heard.but.not.answered", b"", b"")] * 3)
    assert [type(receipts.errors[place]) for place in range(3)] == [RequestTimeout] * 3
    assert receipts.sequences == [0, 0, 0]
    publisher._timeout_s = 60.0  # an answer that does come may take its time
    assert (await publisher.publish(b"pubs.a", b"")).seq == 1
    await wire.close()


async def test_a_server_that_does_not_answer_pings_is_left(js: ServerProcess, link: BlockingLink) -> None:
    lost = asyncio.Event()
    async with FaultProxy(js.port) as proxy:
        options = LinkOptions(servers=parse_servers(f"127.0.0.1:{proxy.port}"))
        wire = Link(
            options,
            ping_interval_s=0.05,
            on_state=lambda state, _: lost.set() if state is LinkState.LOST else None,
        )
        await wire.connect()
        publisher = Publisher(wire)
        proxy.faults = Faults(stuck=True)
        receipts = await asyncio.wait_for(publisher.publish_many([(b"pubs.a", b"", b"")]), PATIENCE_S)
        assert "does not answer" in str(receipts.errors[0])
        assert lost.is_set()
        await wire.close()


async def test_closing_fails_what_waits(js: ServerProcess, link: BlockingLink) -> None:
    link.subscribe("heard.but.not.answered")
    link.flush()
    wire = Link(options_for(js))
    await wire.connect()
    publisher = Publisher(wire, limit=1)
    batch = asyncio.create_task(publisher.publish_many([(b"heard.but.not.answered", b"", b"")] * 3))
    await asyncio.sleep(0)
    await wire.close()
    receipts = await batch
    assert len(receipts.errors) == 3
    with pytest.raises(NotConnected, match="closed"):
        await publisher.publish(b"pubs.a", b"")


async def test_wrong_credentials_are_told(shared_server: ServerFactory) -> None:
    server = shared_server(config='authorization { token: "right" }')
    with pytest.raises(AuthorizationViolation, match="refused the credentials"):
        await Link(options_for(server, token="wrong")).connect()
    with pytest.raises(NotConnected, match="refused"):
        await Link(LinkOptions(servers=parse_servers("127.0.0.1:1"))).connect()


@pytest.mark.parametrize("first", [False, True])
async def test_tls_with_a_loop(own_server: ServerFactory, tmp_path: Any, first: bool) -> None:
    authority = CertificateAuthority(tmp_path)
    issued = authority.issue_for_loopback()
    extra = "handshake_first: true" if first else ""
    config = f'tls {{ cert_file: "{issued.cert_file}", key_file: "{issued.key_file}", {extra} }}'
    server = own_server(config=config, jetstream=True)
    options = options_for(server, tls=LinkTlsOptions(ca_file=str(authority.cert_file), first=first))
    with BlockingLink(options) as link:
        link.api("STREAM.CREATE.PUBS", {"name": "PUBS", "subjects": ["pubs.>"]})
    async with Link(options) as wire:
        receipts = await Publisher(wire).publish_many([(b"pubs.a", b"", b"x" * 1000)] * 500)
        assert receipts.sequences == list(range(1, 501))
    untrusting = Link(options_for(server, tls=LinkTlsOptions(first=first)))
    with pytest.raises(NotConnected, match="not trusted"):
        await untrusting.connect()
