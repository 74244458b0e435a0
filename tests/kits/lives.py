"""Lives of a nats-server with JetStream: random streams, consumers, messages, acks and deletions.

    life = Life(7, version=(2, 15))
    live(life, ServerKind.NATS_SERVER, folder / "store")
    told = told_by(life, ServerKind.NATS_SERVER, folder / "store")
    found = told_by(plain, ServerKind.MILLSTREAM, folder / "adopted")
    assert differences(found, expected(told, folder / "store")) == []

``told_by`` asks a server for everything that must survive an adoption, so that two servers can be compared.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import random
import time
from pathlib import Path
from typing import Any, Final

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import TimeoutError as NatsTimeout

from millstream.archive.store_files import stored_streams
from millstream.archive.store_keys import StoreKeys
from millstream.jsapi.consumer_types import ConsumerState
from tests.kits.life_options import live_with_options
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import Server, ServerProcess

KEY: Final = "a key with ${signs} and spaces"
_CENTURY: Final = 876_000 * 3600 * 10**9  # recorded stores are compared for years: nothing may expire
_MOVED: Final = ("ack_floor", "num_redelivered")  # of a consumer that forgets messages that are gone
_ABSENT: Final = "absent"
_ACKS: Final = (b"+ACK", b"-NAK", b"+TERM", b"+WPI", b"")


class Api:
    """The JetStream API over one connection."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def ask(self, verb: str, body: Any = None) -> dict[str, Any]:
        text = b"" if body is None else json.dumps(body).encode()
        answer = await self.client.request(f"$JS.API.{verb}", text, timeout=PATIENCE_S)
        found: dict[str, Any] = json.loads(answer.data)
        return found

    async def get(self, verb: str, body: Any = None) -> dict[str, Any]:
        """Ask, and fail if the answer is an error."""
        found = await self.ask(verb, body)
        assert "error" not in found, (verb, body, found["error"])
        return found

    async def names(self, verb: str, field: str) -> list[str]:
        return (await self.get(verb)).get(field) or []


class Life:
    """The doings of one server: the same for equal seeds, except for times."""

    def __init__(
        self,
        seed: int,
        version: tuple[int, ...],
        *,
        killed: bool = False,
        size: int = 300,
    ) -> None:
        self._random = random.Random(seed)
        # After a crash, nats-server has messages again that a limit had removed, also if they were settled.
        self._limits_settled = not killed
        self._version = version
        self._size = size  # messages published in a round
        self.cipher = self._random.choice(["", "", "chacha", "aes"])
        self.streams: list[str] = []
        self._flooding = asyncio.Event()  # set after each round of publishing

    def config(self, folder: Path) -> str:
        """Return the configuration of the server: two accounts, perhaps encrypted."""
        secret = f", key: {json.dumps(KEY)}, cipher: {self.cipher}" if self.cipher else ""
        return (
            f'jetstream {{ store_dir: "{folder}"{secret} }}\n'
            "accounts {\n"
            "  ONE { jetstream: enabled, users: [{user: one, password: x}] }\n"
            "  TWO { jetstream: enabled, users: [{user: two, password: x}] }\n"
            "}\nno_auth_user: one\n"
        )

    async def live(self, url: str, *, rounds: int = 3) -> None:
        async with await nats.connect(url) as client:
            api = Api(client)
            await self._make_streams(api)
            for _ in range(rounds):
                await self._publish(api)
                await self._consume(api)
                await self._delete(api)
            await self._buckets(client)
            await live_with_options(api.get, client, self._version)
        async with await nats.connect(url, user="two", password="x") as client:
            await Api(client).get("STREAM.CREATE.OTHER", {"name": "OTHER", "subjects": ["s0.>"]})
            await client.jetstream().publish("s0.x", b"of another account")

    async def flood(self, url: str) -> None:
        """Publish, acknowledge and delete until the server is gone."""
        with contextlib.suppress(Exception):
            client = await nats.connect(url, allow_reconnect=False, error_cb=_ignore)
            api = Api(client)
            while True:
                await self._publish(api, count=50)
                self._flooding.set()
                await self._consume(api)
                await self._delete(api)

    async def flooded(self) -> None:
        """Return at a random moment of a flood."""
        for _ in range(self._random.randrange(1, 4)):
            await self._flooding.wait()
            self._flooding.clear()
        await asyncio.sleep(self._random.random() / 20)

    async def _make_streams(self, api: Api) -> None:
        pick = self._random
        for number, retention in enumerate(["limits", "limits", "interest", "workqueue", "limits"]):
            name = f"S{number}"
            config: dict[str, Any] = {
                "name": name,
                "subjects": [f"s{number}.>"],
                "retention": retention,
                "storage": "file",
                "compression": pick.choice(["none", "s2"]),
                "max_bytes": pick.choice([-1, 60_000, 200_000]),
                "max_msgs": pick.choice([-1, -1, 170]),
                "max_msgs_per_subject": pick.choice([-1, -1, 1, 5]),
                "max_age": pick.choice([0, _CENTURY]),
                "allow_direct": pick.random() < 0.5,
                "allow_rollup_hdrs": pick.random() < 0.5,
                "metadata": {"number": str(number)},
            }
            if retention != "limits" and not self._limits_settled:
                config |= {"max_bytes": -1, "max_msgs": -1, "max_msgs_per_subject": -1}
            # 2.10.25 came back without the messages of such a stream when it was killed.
            if pick.random() < 0.3 and retention == "limits" and self._version >= (2, 11):
                config["first_seq"] = pick.choice([1, 1000, 2**40])
            if self._version >= (2, 11):
                config["allow_msg_ttl"] = pick.random() < 0.5
            if self._version >= (2, 12) and config["max_msgs_per_subject"] != 1:
                config["allow_atomic"] = pick.random() < 0.3
            await api.get(f"STREAM.CREATE.{name}", config)
            self.streams.append(name)
            await self._make_consumers(api, name, retention)
        if self._version >= (2, 15):  # mirrors of 2.10 stop where messages were deleted
            await api.get("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "S0"}})
            sources = [{"name": "S1"}, {"name": "S4", "filter_subject": "s4.a"}]
            await api.get("STREAM.CREATE.ALL", {"name": "ALL", "sources": sources})
        await api.get("STREAM.CREATE.EMPTY", {"name": "EMPTY", "subjects": ["empty"]})
        await api.get("STREAM.CREATE.MEMORY", {"name": "MEMORY", "subjects": ["m.>"], "storage": "memory"})

    async def _make_consumers(self, api: Api, stream: str, retention: str) -> None:
        pick, prefix = self._random, stream.lower()
        count = 1 if retention == "workqueue" else pick.randrange(1, 4)
        for number in range(count):
            config: dict[str, Any] = {
                "durable_name": f"c{number}",
                "ack_policy": pick.choice(["explicit", "explicit", "all", "none"]),
                "deliver_policy": pick.choice(["all", "new", "last_per_subject"]),
                "ack_wait": pick.choice([_CENTURY, 2 * _CENTURY]),
                "max_deliver": pick.choice([-1, 2]),
                "max_ack_pending": pick.choice([-1, 40]),
                "description": f"number {number}",
            }
            if retention == "workqueue":
                config |= {"ack_policy": "explicit", "deliver_policy": "all"}
            if config["deliver_policy"] == "last_per_subject" or pick.random() < 0.3:
                config["filter_subject"] = f"{prefix}.>" if retention == "workqueue" else f"{prefix}.a"
            if config["ack_policy"] == "none":
                config.pop("max_ack_pending")
            body = {"stream_name": stream, "config": config}
            await api.get(f"CONSUMER.DURABLE.CREATE.{stream}.c{number}", body)
        if retention == "limits":
            push = {"durable_name": "push", "deliver_subject": f"to.{stream}", "ack_policy": "explicit"}
            body = {"stream_name": stream, "config": push}
            await api.get(f"CONSUMER.DURABLE.CREATE.{stream}.push", body)

    async def _publish(self, api: Api, count: int = 0) -> None:
        pick = self._random
        waiting = []
        for _ in range(count or self._size):
            stream = pick.choice(self.streams)
            subject = f"{stream.lower()}.{pick.choice('aabcdefgh')}"
            body = pick.choice(
                [b"", b"the same " * pick.randrange(60), pick.randbytes(pick.randrange(self._size))]
            )
            headers = {}
            if pick.random() < 0.4:
                headers = {"X-Number": str(pick.randrange(1000)), "Nats-Msg-Id": str(pick.random())}
            if pick.random() < 0.1:
                headers["Nats-TTL"] = "876000h"
            if pick.random() < 0.01:
                headers["Nats-Rollup"] = pick.choice(["sub", "all"])
            request = api.client.request(subject, body, headers=headers or None, timeout=PATIENCE_S)
            waiting.append(asyncio.ensure_future(request))
            if len(waiting) >= 100:
                await asyncio.gather(*waiting)
                waiting.clear()
        await asyncio.gather(*waiting)

    async def _consume(self, api: Api) -> None:
        pick = self._random
        for stream in self.streams:
            for name in await api.names(f"CONSUMER.NAMES.{stream}", "consumers"):
                if name == "push" or pick.random() < 0.3:
                    continue
                await self._pull(api, stream, name, pick.randrange(1, 60))
        await api.client.flush()

    async def _pull(self, api: Api, stream: str, consumer: str, most: int) -> None:
        inbox = api.client.new_inbox()
        subscription = await api.client.subscribe(inbox)
        body = json.dumps({"batch": most, "expires": 50_000_000}).encode()  # a status ends it
        await api.client.publish(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}", body, reply=inbox)
        got: list[Msg] = []
        while len(got) < most:
            try:
                message = await subscription.next_msg(timeout=PATIENCE_S)
            except NatsTimeout:
                break
            if not message.reply:
                break
            got.append(message)
        await subscription.unsubscribe()
        for message in got:
            ack = self._random.choice(_ACKS)
            if ack:
                await api.client.publish(message.reply, ack)

    async def _delete(self, api: Api) -> None:
        pick = self._random
        for stream in self.streams:
            state = (await api.get(f"STREAM.INFO.{stream}"))["state"]
            first, last = state["first_seq"], state["last_seq"]
            for _ in range(pick.randrange(12)):
                if last >= first:
                    # 2.10 erases at the wrong place of a compressed block, and loses the block.
                    no_erase = pick.random() < 0.5 or self._version < (2, 11)
                    body = {"seq": pick.randrange(first, last + 1), "no_erase": no_erase}
                    await api.ask(f"STREAM.MSG.DELETE.{stream}", body)
            if pick.random() < 0.2:
                how: dict[str, Any] = pick.choice(
                    [{}, {"filter": f"{stream.lower()}.b"}, {"keep": 5}, {"seq": (first + last) // 2}]
                )
                await api.ask(f"STREAM.PURGE.{stream}", how)

    async def _buckets(self, client: Client) -> None:
        streams = client.jetstream()
        keys = await streams.create_key_value(bucket="keys", history=3)
        for number in range(40):
            await keys.put(f"k{number % 7}", b"value %d" % number)
        await keys.delete("k1")
        await keys.purge("k2")
        objects = await streams.create_object_store(bucket="objects")
        await objects.put("large", self._random.randbytes(500 * self._size))
        await objects.put("gone", b"soon")
        await objects.delete("gone")


async def _ignore(error: Exception) -> None:
    """Do nothing about the end of a connection whose server was killed."""


def live(life: Life, kind: Server, store: Path, *, killed: bool = False, rounds: int = 3) -> None:
    """Have a server live, and stop it, or kill it while messages are published, settled and deleted."""
    with ServerProcess(kind, config=life.config(store)) as server:
        asyncio.run(life.live(server.client_url, rounds=rounds))
        if not killed:
            asyncio.run(until_quiet(server.client_url))
            server.stop()
            return
        asyncio.run(_kill_under_load(life, server))


async def _kill_under_load(life: Life, server: ServerProcess) -> None:
    flood = asyncio.create_task(life.flood(server.client_url))
    await life.flooded()
    server.kill()
    await flood


def told_by(life: Life, kind: Server, store: Path) -> dict[str, Any]:
    """Return what a server that is started on a store says of all streams, by account."""
    with ServerProcess(kind, config=life.config(store)) as server:
        asyncio.run(until_quiet(server.client_url))
        told = {user: asyncio.run(all_told(server.client_url, user=user)) for user in ("one", "two")}
        server.kill()
    return told


def expected(told: dict[str, Any], store: Path) -> dict[str, Any]:
    """Return what an adopted store has, without what servers do in different ways when they start.

    nats-server also counts pending messages that are gone. One that was killed has messages of a work queue
    again that were settled. 2.10 lifts the floor of a consumer to the first message.
    """
    for stored in stored_streams(str(store), StoreKeys([KEY])):
        stream = told[stored.account.lower()].get(stored.name)
        if stream is None:
            continue
        states = {}
        for name in stored.consumers():
            state = stored.consumer(name)[0].state
            if state is None or name not in stream["consumers"]:
                continue
            states[name] = state
            _leave_open(stream, stream["consumers"][name], state)
        if stream["config"]["retention"] != "limits" and states.keys() == stream["consumers"].keys():
            _forget_settled(stream, states)
    return told


def _leave_open(stream: dict[str, Any], consumer: dict[str, Any], state: ConsumerState) -> None:
    """Replace by None what servers count in different ways."""
    if stream["config"]["retention"] == "workqueue" and state.delivered_dseq == 0:
        consumer |= dict.fromkeys((*_MOVED, "delivered", "num_pending"))
        return
    first = stream["first_seq"] or stream["state"]["last_seq"] + 1  # an empty stream begins after its end
    if state.floor_sseq < first - 1 == consumer["ack_floor"][1]:
        consumer["ack_floor"] = None
    elif state.pending and state.floor_sseq < consumer["ack_floor"][1] == min(state.pending) - 1:
        # Up to 2.10, a server that starts raises a floor to the first pending message; the file is right.
        consumer["ack_floor"] = [state.floor_dseq, state.floor_sseq]
    if {*state.pending, *state.redelivered} <= {int(seq) for seq in stream["messages"]}:
        return
    there = [seq for seq in state.pending if str(seq) in stream["messages"]]
    consumer |= {"num_ack_pending": len(there), **dict.fromkeys(_MOVED)}


def _forget_settled(stream: dict[str, Any], states: dict[str, ConsumerState]) -> None:
    """Replace messages by None that every consumer has settled or given up, and what counts them."""
    given_up = {str(seq) for each in states.values() for seq in each.redelivered.keys() - each.pending.keys()}
    for seq in given_up - stream["messages"].keys():  # 2.10 removes them when it starts
        stream["messages"][seq] = stream["state"] = stream["first_seq"] = None
    for seq in stream["messages"]:
        if all(_is_settled(int(seq), each) for each in states.values()):
            stream["messages"][seq] = stream["state"] = stream["first_seq"] = None


def _is_settled(seq: int, state: ConsumerState) -> bool:
    open_ones = state.pending.keys() | state.redelivered.keys()
    return seq <= state.floor_sseq or (seq <= state.delivered_sseq and seq not in open_ones)


def differences(found: Any, wanted: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    """Return where two answers differ, except for what ``expected`` leaves open."""
    if not isinstance(found, dict) or not isinstance(wanted, dict):
        return [] if wanted is None or found == wanted else [(path, found, wanted)]
    return [
        each
        for key in sorted(found.keys() | wanted.keys())
        for each in differences(found.get(key, _ABSENT), wanted.get(key, _ABSENT), f"{path}/{key}")
    ]


async def all_told(url: str, *, user: str = "one") -> dict[str, Any]:
    """Return everything that a server says of its streams on disk, for comparison."""
    async with await nats.connect(url, user=user, password="x") as client:
        api = Api(client)
        found = {}
        for name in await api.names("STREAM.NAMES", "streams"):
            info = await api.get(f"STREAM.INFO.{name}", {"deleted_details": True})
            if info["config"]["storage"] == "file":
                found[name] = await _stream_told(api, name, info)
        return found


async def _stream_told(api: Api, name: str, info: dict[str, Any]) -> dict[str, Any]:
    state = info["state"]
    gone = set(state.get("deleted") or [])
    wanted = [] if not state["messages"] else range(state["first_seq"], state["last_seq"] + 1)
    messages: dict[int, Any] = {}
    for at in range(0, len(wanted), 200):
        part = [seq for seq in wanted[at : at + 200] if seq not in gone]
        answers = await asyncio.gather(*(api.ask(f"STREAM.MSG.GET.{name}", {"seq": seq}) for seq in part))
        messages |= {
            seq: answer["message"] for seq, answer in zip(part, answers, strict=True) if "message" in answer
        }
    consumers = {}
    for consumer in await api.names(f"CONSUMER.NAMES.{name}", "consumers"):
        told = await api.get(f"CONSUMER.INFO.{name}.{consumer}")
        if told["config"].get("durable_name") and not told["config"].get("direct"):
            consumers[consumer] = _consumer_told(told)
    config = _config_told(info["config"])
    return {
        "created": info["created"],
        "config": config,
        "state": {
            key: state[key] for key in ("messages", "bytes", "last_seq", "num_subjects") if key in state
        },
        "first_seq": state["first_seq"] if state["messages"] else 0,
        "messages": {str(seq): _message_told(each) for seq, each in messages.items()},
        "consumers": consumers,
    }


def _message_told(message: dict[str, Any]) -> list[Any]:
    headers = base64.b64decode(message.get("hdrs", "")).decode(errors="replace")
    return [message["subject"], message["time"], headers, message.get("data", "")]


def _consumer_told(info: dict[str, Any]) -> dict[str, Any]:
    config = _config_told(info["config"])
    config["name"] = info["name"]  # 2.10 and 2.11 do not show it here
    places = {key: [info[key]["consumer_seq"], info[key]["stream_seq"]] for key in ("delivered", "ack_floor")}
    counts = {key: info[key] for key in ("num_ack_pending", "num_redelivered", "num_pending")}
    if config["deliver_policy"] == "last_per_subject":  # after a restart, nats-server counts subjects
        del counts["num_pending"]
    return {"created": info["created"], "config": config, **places, **counts}


def _config_told(config: dict[str, Any]) -> dict[str, Any]:
    """Return what is set, without what servers add of themselves; newer ones name more that is not."""
    own = {key: value for key, value in (config.get("metadata") or {}).items() if key[:6] != "_nats."}
    return {key: value for key, value in {**config, "metadata": own}.items() if value}


async def until_quiet(url: str) -> None:
    """Wait until mirrors and sources have everything."""
    deadline = time.monotonic() + PATIENCE_S
    async with await nats.connect(url) as client:
        api = Api(client)
        before: Any = None
        while time.monotonic() < deadline:
            names = await api.names("STREAM.NAMES", "streams")
            infos = [await api.get(f"STREAM.INFO.{name}") for name in ("M", "ALL") if name in names]
            if not infos:
                return
            now = [each["state"]["last_seq"] for each in infos]
            origins = [infos[0].get("mirror") or {}, *(infos[1].get("sources") or [])]
            if now == before and all(not each.get("lag") and each.get("active", 0) >= 0 for each in origins):
                return
            before = now
            await asyncio.sleep(0.1)
    raise AssertionError("mirror and sources did not come to rest")
