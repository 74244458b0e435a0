"""A link on bad days: lines cut at every byte, servers killed while it mends, credentials that change."""

import asyncio
import contextlib
import secrets
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from millstream.base.nkeys import KeyKind
from millstream.base.seeds import Signer, make_seed
from millstream.jsapi.errors import Err
from millstream.link.deliveries import LinkMessage
from millstream.link.errors import (
    AuthorizationViolation,
    ConnectionLost,
    JetStreamOff,
    LinkApiError,
    MessageTooLarge,
    NoResponders,
    NotConnected,
    PermissionViolation,
    RequestTimeout,
    SlowConsumer,
)
from millstream.link.link import Link, LinkState
from millstream.link.options import LinkOptions, ServerAddress, parse_servers
from millstream.link.publisher import Publisher
from millstream.link.servers import Reconnect
from millstream.link.subscriptions import Overflow
from millstream.link.verbs import STREAM_INFO
from tests.kits.fault_proxy import FaultProxy
from tests.kits.link import ServerFactory, eventually, options_for
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerProcess

QUICK = Reconnect(first_s=0.01, longest_s=0.05)


async def until(link: Link, *, up: bool) -> None:
    """Wait until the link has a connection, or has none."""
    changed = asyncio.Event()
    link.listen(changed.set)
    async with asyncio.timeout(PATIENCE_S):
        while link.is_up is not up:
            await changed.wait()
            changed.clear()
    link.unlisten(changed.set)


class Collected:
    """Messages of a subscription, and whoever waits for them."""

    def __init__(self) -> None:
        self.payloads: list[bytes] = []
        self._more = asyncio.Event()

    def take(self, messages: list[LinkMessage]) -> None:
        self.payloads += [message.payload for message in messages]
        self._more.set()

    async def have(self, payload: bytes) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while payload not in self.payloads:
                await self._more.wait()
                self._more.clear()


@pytest.fixture
def js(shared_server: ServerFactory) -> ServerProcess:
    return shared_server(jetstream=True)


@pytest_asyncio.fixture
async def link(js: ServerProcess) -> AsyncIterator[Link]:
    async with Link(options_for(js), reconnect=QUICK) as made:
        yield made


# -- the vocabulary ---------------------------------------------------------------------------------


async def test_messages_come_in_lists_with_what_belongs_to_them(link: Link) -> None:
    seen: list[LinkMessage] = []
    done = asyncio.Event()

    def take(messages: list[LinkMessage]) -> None:
        seen.extend(messages)
        if len(seen) == 100:
            done.set()

    link.subscribe("lists.>", deliver=take)
    for number in range(100):
        link.publish(f"lists.{number}", b"%d" % number, reply="back", headers={"N": str(number)})
    await asyncio.wait_for(done.wait(), PATIENCE_S)
    assert [message.payload for message in seen] == [b"%d" % number for number in range(100)]
    assert (seen[7].subject, seen[7].reply, seen[7].headers) == ("lists.7", "back", {"N": "7"})


async def test_requests_have_one_outcome_each(link: Link, js: ServerProcess) -> None:
    def answer(messages: list[LinkMessage]) -> None:
        for message in messages:
            link.publish(message.reply, message.payload.upper())

    link.subscribe("question", deliver=answer)
    link.subscribe("silence", deliver=lambda messages: None)
    replies = await asyncio.gather(*(link.request("question", b"q%d" % number) for number in range(50)))
    assert [reply.payload for reply in replies] == [b"Q%d" % number for number in range(50)]
    with pytest.raises(NoResponders):
        await link.request("nobody")
    with pytest.raises(RequestTimeout, match=r"silence within 0\.01 s"):
        await link.request("silence", timeout_s=0.01)
    with pytest.raises(MessageTooLarge):
        await link.request("question", b"x" * (link.max_payload + 1))
    asking = asyncio.create_task(link.request("silence"))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert len(link.dialogue.requests) == 0


async def test_jetstream_is_asked_by_the_table_of_verbs(link: Link, shared_server: ServerFactory) -> None:
    with pytest.raises(LinkApiError) as caught:
        await link.ask(STREAM_INFO, "NONE")
    assert (caught.value.code, caught.value.err) == (404, Err.STREAM_NOT_FOUND)
    async with Link(options_for(shared_server())) as plain:
        with pytest.raises(JetStreamOff, match="not enabled"):
            await plain.api("INFO")


async def test_a_queue_group_shares_and_a_subscription_ends_after_its_messages(link: Link) -> None:
    one, two = Collected(), Collected()
    link.subscribe("work", queue="g", deliver=one.take)
    link.subscribe("work", queue="g", deliver=two.take)
    few = link.subscribe("work", max_messages=3)
    for number in range(40):
        link.publish("work", b"%d" % number)
    await link.flush()
    assert sorted(map(int, one.payloads + two.payloads)) == list(range(40))
    assert [message.payload async for message in few] == [b"0", b"1", b"2"]


async def test_a_reader_that_does_not_keep_up_loses_messages_or_its_subscription(link: Link) -> None:
    dropping = link.subscribe("fast", buffer=3)
    ending = link.subscribe("fast", buffer=3, overflow=Overflow.END)
    for number in range(10):
        link.publish("fast", b"%d" % number)
    await link.flush()
    assert (dropping.received, dropping.dropped) == (10, 7)
    assert [(await dropping.next()).payload for _ in range(3)] == [b"0", b"1", b"2"]
    assert [(await ending.next()).payload for _ in range(3)] == [b"0", b"1", b"2"]
    with pytest.raises(SlowConsumer):
        await ending.next()


async def test_draining_takes_what_is_on_its_way(link: Link, js: ServerProcess) -> None:
    seen = Collected()
    async with Link(options_for(js)) as other:
        subscription = link.subscribe("drained", deliver=seen.take)
        await link.flush()
        for number in range(1000):
            other.publish("drained", b"%d" % number)
        await other.flush()
        await subscription.drain()
        assert len(seen.payloads) == 1000
        other.publish("drained", b"late")
        await other.flush()
        await link.flush()
        assert len(seen.payloads) == 1000
        await other.drain()
        assert other.is_closed


async def test_what_is_not_permitted_is_told_to_whoever_asked(own_server: ServerFactory) -> None:
    server = own_server(
        config="authorization { users: [ { user: a, password: b, permissions: { publish: [ok], "
        'subscribe: [ok, "_INBOX.>"] } } ] }'
    )
    async with Link(options_for(server, user="a", password="b")) as link:
        with pytest.raises(PermissionViolation, match="Publish to"):
            await link.request("not.ok")
        refused = link.subscribe("not.ok")
        with pytest.raises(PermissionViolation, match="Subscription to"):
            await refused.next(PATIENCE_S)
        assert link.generation == 1


# -- cuts -------------------------------------------------------------------------------------------


async def test_whatever_was_under_way_at_a_cut_is_told_and_subscriptions_are_restored(
    js: ServerProcess,
) -> None:
    async with FaultProxy(js.port) as proxy:
        options = LinkOptions(servers=parse_servers(f"127.0.0.1:{proxy.port}"))
        states: list[LinkState] = []
        link = Link(options, reconnect=QUICK, on_state=lambda state, _: states.append(state))
        await link.connect()
        seen = Collected()
        link.subscribe("again", deliver=seen.take)
        link.subscribe("silence", deliver=lambda messages: None)
        await link.flush()
        asking = asyncio.create_task(link.request("silence"))
        await asyncio.sleep(0)
        flushing = asyncio.create_task(link.flush())
        proxy.cut_all()
        for task in (asking, flushing):
            with pytest.raises(ConnectionLost):
                await asyncio.wait_for(task, PATIENCE_S)
        with pytest.raises(NotConnected):
            link.publish("again", b"refused")
        await until(link, up=True)
        link.publish("again", b"yes")
        await seen.have(b"yes")
        assert seen.payloads == [b"yes"]
        await link.close()
        assert states[0] is LinkState.CONNECTED
        assert states[1] is LinkState.LOST
        assert states[-1] is LinkState.CLOSED


async def test_publishes_are_kept_up_to_a_limit_and_requests_that_may_be_are_repeated(
    own_server: ServerFactory,
) -> None:
    server = own_server(jetstream=True)
    async with Link(options_for(server), reconnect=QUICK, hold_bytes=1000) as link:
        seen = Collected()
        link.subscribe("kept", deliver=seen.take)
        await link.flush()
        server.kill()
        await until(link, up=False)
        link.publish("kept", b"first")
        link.publish("kept", b"second")
        with pytest.raises(NotConnected):
            link.publish("kept", b"x" * 1000)
        asking = asyncio.create_task(link.api("INFO", repeat_s=PATIENCE_S))
        await asyncio.to_thread(server.start)
        await seen.have(b"second")
        assert seen.payloads == [b"first", b"second"]
        assert "streams" in await asking


class CuttingServer:
    """Speaks a server's side of a conversation, and cuts each line one byte later than the one before."""

    PARTS = (
        (b"", b'INFO {"server_id":"X","headers":true}\r\n'),
        (b"PING\r\n", b"PONG\r\nPING\r\n"),
        (b"SUB a 1\r\n", b"MSG a 1 2\r\nhi\r\n"),
    )
    LENGTH = sum(len(said) for _, said in PARTS)

    def __init__(self) -> None:
        self.cut_after = 0
        self.port = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["CuttingServer"]:
        async with await asyncio.start_server(self._serve, "127.0.0.1", 0) as server:
            self.port = server.sockets[0].getsockname()[1]
            yield self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = self.cut_after
        self.cut_after += 1
        heard = b""
        with contextlib.suppress(OSError, asyncio.CancelledError):  # the loop may end first
            for awaited, said in self.PARTS:
                while awaited not in heard:
                    heard += await reader.read(4096) or b"PING\r\nSUB a 1\r\n"
                writer.write(said[:left])
                left -= len(said)
                if left < 0:
                    break
            else:
                await reader.read()
        writer.close()


async def test_a_line_cut_at_every_byte_is_mended() -> None:
    async with CuttingServer().running() as server:
        options = LinkOptions(servers=(ServerAddress("127.0.0.1", server.port),))
        link = Link(options, reconnect=Reconnect(first_s=0.0001, longest_s=0.0002))
        seen = Collected()
        link.subscribe("a", deliver=seen.take)
        link.connect_in_background()
        await seen.have(b"hi")
        await link.close()
        assert server.cut_after == server.LENGTH + 1
        assert seen.payloads == [b"hi"]


async def test_a_server_killed_while_the_link_is_mended_is_waited_for(own_server: ServerFactory) -> None:
    server = own_server(jetstream=True)
    link = Link(options_for(server), reconnect=QUICK)
    await link.connect()
    seen = Collected()
    link.subscribe("still", deliver=seen.take)
    publisher = Publisher(link)
    for number in range(4):
        server.kill()
        await until(link, up=False)
        await asyncio.to_thread(server.start)
        if number % 2:
            server.kill()  # while the link comes back, or just after
            await asyncio.to_thread(server.start)
        async with asyncio.timeout(PATIENCE_S):
            while True:
                with contextlib.suppress(NotConnected, RequestTimeout):
                    await link.flush(5)
                    link.publish("still", b"%d" % number)
                    await link.flush(5)
                    break
                await asyncio.sleep(0.01)
        await seen.have(b"%d" % number)
    with pytest.raises(NoResponders):
        await publisher.publish(b"nobody.stores.this", b"")
    await link.close()


# -- credentials and clusters -----------------------------------------------------------------------


async def test_credentials_that_change_are_read_again(own_server: ServerFactory, tmp_path: Path) -> None:
    config = "authorization {{ users: [ {{ nkey: {} }} ] }}"
    first, second = (_seed(), _seed())
    server = own_server(config=config.format(first[1]))
    file = tmp_path / "user.creds"
    file.write_text(_creds(first[0]))
    refusals: list[LinkState] = []
    link = Link(
        options_for(server, creds_file=str(file)),
        reconnect=QUICK,
        on_state=lambda state, error: (
            refusals.append(state) if isinstance(error, AuthorizationViolation) else None
        ),
    )
    await link.connect()
    assert await asyncio.to_thread(server.reload, config.format(second[1]))
    await eventually(lambda: LinkState.RETRYING in refusals)
    file.write_text(_creds(second[0]))
    await until(link, up=True)
    await link.close()
    with pytest.raises(AuthorizationViolation):
        await Link(options_for(server, nkey_seed=first[0])).connect()


def _seed() -> tuple[str, str]:
    seed = make_seed(KeyKind.USER, secrets.token_bytes(32))
    return seed, Signer(seed).public_key


def _creds(seed: str) -> str:
    return f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"


async def test_refused_credentials_end_a_link_that_is_told_so(own_server: ServerFactory) -> None:
    server = own_server(config="authorization { token: right }")
    link = Link(options_for(server, token="right"), reconnect=Reconnect(0.01, 0.05, stop_when_refused=True))
    await link.connect()
    assert await asyncio.to_thread(server.reload, "authorization { token: other }")
    await eventually(lambda: link.is_closed)
    with pytest.raises(AuthorizationViolation):
        await link.request("x")


async def test_a_server_in_lame_duck_mode_is_left_for_another(own_server: ServerFactory) -> None:
    patient = "lame_duck_grace_period: 60s, lame_duck_duration: 120s"  # long before it closes connections
    leaving, staying = own_server(config=patient), own_server()
    first, second = parse_servers([leaving.client_url, staying.client_url])
    link = Link(LinkOptions(servers=(first, second)), reconnect=QUICK)
    link.dialogue.pool.avoid(second)  # so that the first is tried first
    await link.connect()
    assert link.where == str(first)
    link.dialogue.pool.connected(second)
    seen = Collected()
    link.subscribe("moved", deliver=seen.take)
    await link.flush()
    leaving.signal(signal.SIGUSR2)
    await eventually(lambda: link.where == str(second))
    link.publish("moved", b"yes")
    await seen.have(b"yes")
    await link.close()
    leaving.signal(signal.SIGKILL)  # lame duck mode ignores SIGTERM, and ends after the grace period
