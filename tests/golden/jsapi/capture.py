"""Ask a real nats-server for the JSON that our types must read and write again byte for byte.

Run as ``python -m tests.golden.jsapi.capture``; it writes the files beside it.  What differs from run to
run (times, ids, round trips) is replaced by values of the same form, so the files change only if the
server does.  A file is called ``<struct>.<case>.json``.
"""

import asyncio
import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import nats
from nats.aio.client import Client

from tests.golden.jsapi.complaints import COMPLAINTS
from tests.kits.reference import ServerKind, ServerProcess

FOLDER = Path(__file__).parent
TIME = "2026-01-02T03:04:05.678901234Z"

FULL_STREAM = {
    "name": "FULL",
    "description": "<a> & 'b' \u2028 é \x7f \b\f\n",
    "subjects": ["full.>"],
    "retention": "interest",
    "max_consumers": 9,
    "max_msgs": 1000,
    "max_bytes": 1_000_000,
    "max_age": 3600 * 10**9,
    "max_msgs_per_subject": 10,
    "max_msg_size": 4096,
    "discard": "new",
    "storage": "memory",
    "duplicate_window": 60 * 10**9,
    "placement": {"cluster": "", "tags": ["x", "y"]},
    "compression": "s2",
    "first_seq": 10,
    "subject_transform": {"src": "full.in", "dest": "full.out"},
    "republish": {"src": "full.*", "dest": "copy.{{wildcard(1)}}", "headers_only": True},
    "allow_direct": True,
    "discard_new_per_subject": True,
    "deny_delete": True,
    "allow_rollup_hdrs": True,
    "consumer_limits": {"inactive_threshold": 5 * 10**9, "max_ack_pending": 100},
    "allow_msg_ttl": True,
    "subject_delete_marker_ttl": 10**9,
    "allow_atomic": True,
    "allow_batched": True,
    "metadata": {"b": "<2>", "a": "1", "é": "3"},
}
FULL_CONSUMER = {
    "durable_name": "full",
    "name": "full",
    "description": "all of it",
    "deliver_policy": "by_start_time",
    "opt_start_time": "2020-01-01T00:00:00.120+02:00",
    "ack_policy": "explicit",
    "max_deliver": 5,
    "backoff": [10**9, 2 * 10**9],
    "filter_subjects": ["s.1", "s.2.>"],
    "replay_policy": "original",
    "sample_freq": "100%",
    "max_waiting": 7,
    "max_ack_pending": 20,
    "headers_only": True,
    "max_batch": 10,
    "max_expires": 10**9,
    "max_bytes": 1000,
    "inactive_threshold": 60 * 10**9,
    "num_replicas": 1,
    "mem_storage": True,
    "metadata": {"k": "v"},
    "pause_until": "2036-01-01T00:00:00.500+02:00",
    "priority_groups": ["g"],
    "priority_policy": "pinned_client",
    "priority_timeout": 10**9,
}
PUSH_CONSUMER = {
    "deliver_subject": "push.here",
    "deliver_group": "q",
    "idle_heartbeat": 10**9,
    "flow_control": True,
    "rate_limit_bps": 1_000_000,
    "opt_start_seq": 2,
    "deliver_policy": "by_start_sequence",
    "filter_subject": "s.>",
}

MASKS = (
    (r"20(?:2[6-9]|3[0-5])-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", TIME),
    (r'("(?:id|pinned_client_id|pinned_id)":)"[A-Za-z0-9]{22}"', r'\1"ABCDEFGHIJKLMNOPQRSTUV"'),
    (r"(RESTORE\.[^.]+\.)[A-Za-z0-9]{22}", r"\1ABCDEFGHIJKLMNOPQRSTUV"),
    (r'(\\?"(?:rtt|pause_remaining|ack_time)\\?":)\d+', r"\g<1>123456789"),
    (r'(\\?"active\\?":)\d+', r"\g<1>123456789"),
    (r'(\\?"api\\?":{\\?"level\\?":\d+,\\?"total\\?":)\d+', r"\g<1>61"),
    (r'(\\?"id\\?":)\d+', r"\g<1>7"),
    (r'(\\?"ver\\?":)\\?"[^"]*"', r'\g<1>"1.0.0"'),
    (r'("name":)"[A-Za-z0-9]{8}"', r'\1"abcdefgh"'),
)


class Capture:
    def __init__(self, connection: Client) -> None:
        self._connection = connection
        self.events: dict[str, str] = {}
        self._heard = asyncio.Event()

    async def listen(self) -> None:
        async def note(message: Any) -> None:
            self.events[message.subject] = message.data.decode()
            self._heard.set()

        await self._connection.subscribe("$JS.EVENT.>", cb=note)
        await self._connection.flush()

    async def ask(self, subject: str, body: Any = None, headers: dict[str, str] | None = None) -> str:
        payload = (
            b"" if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
        )
        answer = await self._connection.request(subject, payload, timeout=5, headers=headers)
        return answer.data.decode()

    async def keep(
        self, name: str, subject: str, body: Any = None, headers: Any = None, entries: str = ""
    ) -> str:
        """Write the answer down, with the list called `entries` in an order that is always the same."""
        answer = await self.ask(subject, body, headers)
        write(name, in_order(answer, entries) if entries else answer)
        return answer

    async def holds(self, stream: str, messages: int) -> None:
        """Wait until a stream has so many."""
        found = -1
        while found != messages:  # a wait in vain ends with the whole
            found = json.loads(await self.ask(f"$JS.API.STREAM.INFO.{stream}"))["state"]["messages"]

    async def event(self, name: str, subject: str) -> None:
        while subject not in self.events:  # a wait in vain ends with the whole
            self._heard.clear()
            await self._heard.wait()
        write(name, self.events[subject])


def in_order(answer: str, entries: str) -> str:
    """Sort what nats-server tells in any order: what has a long text first, which is never a name made up."""
    begin = answer.rindex(f'"{entries}":[') + len(entries) + len('"":[')
    texts, at = [], begin
    while answer[at - 1] != "]":
        end = json.JSONDecoder().raw_decode(answer, at)[1]
        texts.append(answer[at:end])
        at = end + 1
    return answer[:begin] + ",".join(sorted(texts, key=len, reverse=True)) + answer[at - 1 :]


def write(name: str, answer: str) -> None:
    for pattern, replacement in MASKS:
        answer = re.sub(pattern, replacement, answer)
    (FOLDER / f"{name}.json").write_text(answer + "\n")


async def capture_plain(server: ServerProcess) -> None:
    connection = await nats.connect(server.client_url)
    api = Capture(connection)
    await api.listen()
    await streams(api, connection)
    await consumers(api, connection)
    await publishing(api, connection)
    await complaints(api)
    await connection.close()


async def streams(api: Capture, connection: Client) -> None:
    await api.keep("AccountInfoResponse.fresh", "$JS.API.INFO")
    await api.keep("StreamNamesResponse.none", "$JS.API.STREAM.NAMES")
    await api.keep("StreamListResponse.none", "$JS.API.STREAM.LIST")
    await api.keep(
        "StreamCreateResponse.least", "$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]}
    )
    await api.event("StreamActionAdvisory.created", "$JS.EVENT.ADVISORY.STREAM.CREATED.S")
    await api.keep("StreamCreateResponse.full", "$JS.API.STREAM.CREATE.FULL", FULL_STREAM)
    await api.keep("StreamCreateResponse.refused", "$JS.API.STREAM.CREATE.FULL", {"name": "FULL"})
    await api.keep(
        "StreamCreateResponse.async",
        "$JS.API.STREAM.CREATE.ASYNC",
        {"name": "ASYNC", "persist_mode": "async", "retention": "workqueue", "allow_msg_schedules": True},
    )
    await api.keep(
        "StreamCreateResponse.counter",
        "$JS.API.STREAM.CREATE.COUNTER",
        {"name": "COUNTER", "subjects": ["count"], "allow_msg_counter": True, "no_ack": False},
    )
    for number in range(6):
        await connection.request(f"s.{number % 3}", b"body", headers={"h": "v"} if number % 2 else None)
    await api.ask("$JS.API.STREAM.MSG.DELETE.S", {"seq": 3})
    await api.ask(
        "$JS.API.STREAM.CREATE.SOURCED",
        {
            "name": "SOURCED",
            "sources": [
                {"name": "S", "filter_subject": "s.1", "opt_start_seq": 1},
                {
                    "name": "S",
                    "subject_transforms": [{"src": "s.2", "dest": "t.2"}],
                    "opt_start_time": "2020-01-01T00:00:00.5+01:00",
                },
                {"name": "ELSEWHERE", "external": {"api": "$JS.hub.API", "deliver": "from.hub"}},
                {"name": "NONE", "consumer": {"name": "durable", "deliver_subject": "to.here"}},
            ],
        },
    )
    await api.ask("$JS.API.STREAM.CREATE.MIRROR", {"name": "MIRROR", "mirror": {"name": "S"}})
    await api.holds("SOURCED", 3)  # sources and mirrors start after a while
    await api.holds("MIRROR", 5)
    await api.keep("StreamInfoResponse.sourced", "$JS.API.STREAM.INFO.SOURCED", entries="sources")
    await api.keep("StreamInfoResponse.mirror", "$JS.API.STREAM.INFO.MIRROR")
    await api.keep(
        "StreamInfoResponse.details",
        "$JS.API.STREAM.INFO.S",
        {"deleted_details": True, "subjects_filter": ">"},
    )
    await api.keep("StreamInfoResponse.missing", "$JS.API.STREAM.INFO.NONE")
    await api.keep("StreamNamesResponse.some", "$JS.API.STREAM.NAMES")
    await api.keep("StreamNamesResponse.refused", "$JS.API.STREAM.NAMES", "{")
    await api.keep("StreamListResponse.some", "$JS.API.STREAM.LIST", {"subject": "s.>"})
    await api.keep("StreamListResponse.refused", "$JS.API.STREAM.LIST", "{")
    await api.keep("MsgGetResponse.headers", "$JS.API.STREAM.MSG.GET.S", {"seq": 2})
    await api.keep("MsgGetResponse.plain", "$JS.API.STREAM.MSG.GET.S", {"seq": 1})
    await api.keep("MsgGetResponse.missing", "$JS.API.STREAM.MSG.GET.S", {"seq": 99})
    await api.keep("MsgDeleteResponse.done", "$JS.API.STREAM.MSG.DELETE.S", {"seq": 4})
    await api.keep("MsgDeleteResponse.refused", "$JS.API.STREAM.MSG.DELETE.S", {"seq": 4})
    await api.keep(
        "StreamUpdateResponse.done",
        "$JS.API.STREAM.UPDATE.S",
        {"name": "S", "subjects": ["s.>"], "max_msgs": 9},
    )
    await api.event("StreamActionAdvisory.modified", "$JS.EVENT.ADVISORY.STREAM.UPDATED.S")
    await api.keep("StreamUpdateResponse.missing", "$JS.API.STREAM.UPDATE.NONE", {"name": "NONE"})
    await api.keep("StreamSnapshotResponse.done", "$JS.API.STREAM.SNAPSHOT.S", {"deliver_subject": "archive"})
    await api.event("SnapshotCreate.done", "$JS.EVENT.ADVISORY.STREAM.SNAPSHOT_CREATE.S")
    await api.event("SnapshotComplete.no_interest", "$JS.EVENT.ADVISORY.STREAM.SNAPSHOT_COMPLETE.S")
    await api.keep("StreamSnapshotResponse.refused", "$JS.API.STREAM.SNAPSHOT.S")
    answer = await api.keep(
        "StreamRestoreResponse.done", "$JS.API.STREAM.RESTORE.R", {"config": {"name": "R"}, "state": {}}
    )
    await api.event("RestoreCreate.done", "$JS.EVENT.ADVISORY.STREAM.RESTORE_CREATE.R")
    await api.keep("StreamRestoreResponse.refused", "$JS.API.STREAM.RESTORE.R")
    await api.keep("StreamCreateResponse.not_restored", json.loads(answer)["deliver_subject"])
    await api.event("RestoreComplete.failed", "$JS.EVENT.ADVISORY.STREAM.RESTORE_COMPLETE.R")
    await api.keep("StreamPurgeResponse.done", "$JS.API.STREAM.PURGE.MIRROR")
    await api.keep("StreamPurgeResponse.missing", "$JS.API.STREAM.PURGE.NONE")
    await api.keep("StreamDeleteResponse.done", "$JS.API.STREAM.DELETE.MIRROR")
    await api.keep("StreamDeleteResponse.missing", "$JS.API.STREAM.DELETE.NONE")
    for name, subject in (
        ("StreamLeaderStepdownResponse", "STREAM.LEADER.STEPDOWN.S"),
        ("StreamRemovePeerResponse", "STREAM.PEER.REMOVE.S"),
        ("StreamEvacuatePeerResponse", "STREAM.PEER.EVACUATE.S"),
        ("StreamCancelMoveResponse", "STREAM.CANCEL_MOVE.S"),
        ("ConsumerLeaderStepdownResponse", "CONSUMER.LEADER.STEPDOWN.S.c"),
        ("ConsumerRemovePeerResponse", "CONSUMER.PEER.REMOVE.S.c"),
        ("ConsumerEvacuatePeerResponse", "CONSUMER.PEER.EVACUATE.S.c"),
    ):
        await api.keep(f"{name}.single_server", f"$JS.API.{subject}", {"peer": "x"})
    await api.keep("AccountInfoResponse.used", "$JS.API.INFO")
    await asyncio.sleep(0.1)
    write("ApiAudit.info", api.events["$JS.EVENT.ADVISORY.API"])


async def consumers(api: Capture, connection: Client) -> None:
    def body(config: Any) -> Any:
        return {"stream_name": "S", "config": config}

    await api.keep("ConsumerNamesResponse.none", "$JS.API.CONSUMER.NAMES.S")
    await api.keep("ConsumerListResponse.none", "$JS.API.CONSUMER.LIST.S")
    await api.keep("ConsumerNamesResponse.missing", "$JS.API.CONSUMER.NAMES.NONE")
    await api.keep("ConsumerListResponse.missing", "$JS.API.CONSUMER.LIST.NONE")
    await api.keep("ConsumerCreateResponse.full", "$JS.API.CONSUMER.CREATE.S.full", body(FULL_CONSUMER))
    await api.event("ConsumerActionAdvisory.created", "$JS.EVENT.ADVISORY.CONSUMER.CREATED.S.full")
    await api.keep("ConsumerCreateResponse.refused", "$JS.API.CONSUMER.CREATE.S.full", {})
    await connection.subscribe("push.here", queue="q")
    await api.keep("ConsumerCreateResponse.push", "$JS.API.CONSUMER.CREATE.S", body(PUSH_CONSUMER))
    await api.keep("ConsumerInfoResponse.full", "$JS.API.CONSUMER.INFO.S.full")
    await api.keep("ConsumerInfoResponse.missing", "$JS.API.CONSUMER.INFO.S.none")
    await api.keep("ConsumerListResponse.some", "$JS.API.CONSUMER.LIST.S", entries="consumers")
    await api.keep("ConsumerPauseResponse.resumed", "$JS.API.CONSUMER.PAUSE.S.full")
    await api.event("ConsumerPause.resumed", "$JS.EVENT.ADVISORY.CONSUMER.PAUSE.S.full")
    await pull(api, connection, body)
    until = {"pause_until": "2036-01-01T00:00:00+02:00"}
    await api.keep("ConsumerPauseResponse.paused", "$JS.API.CONSUMER.PAUSE.S.full", until)
    await api.keep("ConsumerPauseResponse.missing", "$JS.API.CONSUMER.PAUSE.S.none", until)
    await api.keep("ConsumerResetResponse.done", "$JS.API.CONSUMER.RESET.S.full")
    await api.keep("ConsumerResetResponse.refused", "$JS.API.CONSUMER.RESET.S.full", "{")
    await api.keep("ConsumerUnpinResponse.done", "$JS.API.CONSUMER.UNPIN.S.full", {"group": "g"})
    await api.keep("ConsumerUnpinResponse.refused", "$JS.API.CONSUMER.UNPIN.S.full", {"group": "x"})
    await api.event("GroupUnpinned.admin", "$JS.EVENT.ADVISORY.CONSUMER.UNPINNED.S.full")
    await api.keep("ConsumerDeleteResponse.done", "$JS.API.CONSUMER.DELETE.S.full")
    await api.keep("ConsumerDeleteResponse.missing", "$JS.API.CONSUMER.DELETE.S.full")


async def pull(api: Capture, connection: Client, body: Any) -> None:
    inbox = await connection.subscribe("pulled")
    request = {"batch": 1, "group": "g"}
    await connection.publish("$JS.API.CONSUMER.MSG.NEXT.S.full", json.dumps(request).encode(), "pulled")
    message = await inbox.next_msg(timeout=5)
    await api.keep("ConsumerInfoResponse.pinned", "$JS.API.CONSUMER.INFO.S.full")
    await api.event("GroupPinned.first", "$JS.EVENT.ADVISORY.CONSUMER.PINNED.S.full")
    await connection.request(message.reply, b"+ACK", timeout=5)
    await api.event("ConsumerAckMetric.sampled", "$JS.EVENT.METRIC.CONSUMER.ACK.S.full")
    config = {"durable_name": "d", "ack_policy": "explicit", "max_deliver": 1, "ack_wait": 2 * 10**8}
    await api.ask("$JS.API.CONSUMER.DURABLE.CREATE.S.d", body(config))
    await connection.publish("$JS.API.CONSUMER.MSG.NEXT.S.d", b"3", "pulled")
    messages = [await inbox.next_msg(timeout=5) for _ in range(3)]
    await connection.request(messages[0].reply, b"-NAK", timeout=5)
    await api.event("MessageNaked.plain", "$JS.EVENT.ADVISORY.CONSUMER.MSG_NAKED.S.d")
    await connection.request(messages[1].reply, b"+TERM no <use>", timeout=5)
    await api.event("MessageTerminated.reason", "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.S.d")
    await api.event("MaxDeliveries.used_up", "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.S.d")


async def publishing(api: Capture, connection: Client) -> None:
    await api.keep("PubAckResponse.plain", "s.9", "x", {"Nats-Msg-Id": "1"})
    await api.keep("PubAckResponse.duplicate", "s.9", "x", {"Nats-Msg-Id": "1"})
    await api.keep("PubAckResponse.refused", "s.9", "x", {"Nats-Expected-Last-Sequence": "1000"})
    await api.keep("PubAckResponse.counter", "count", "", {"Nats-Incr": "+5"})
    await api.ask(
        "$JS.API.STREAM.CREATE.BATCH", {"name": "BATCH", "allow_atomic": True, "allow_batched": True}
    )
    batch = {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1"}
    await api.ask("BATCH", "x", batch)
    last = {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "2", "Nats-Batch-Commit": "1"}
    await api.keep("PubAckResponse.batch", "BATCH", "x", last)
    inbox = await connection.subscribe("fast.>")
    for operation, sequence in ((0, 1), (1, 2), (1, 5)):
        await connection.publish("BATCH", b"x", f"fast.x.1.ok.{sequence}.{operation}.$FI")
    found = set[str]()
    while found != {"ack", "gap"}:
        message = (await inbox.next_msg(timeout=5)).data.decode()
        kind = json.loads(message)["type"]
        found.add(kind)
        write(f"BatchFlow{kind.capitalize()}.fast", message)
    await api.ask("BATCH", "x", {"Nats-Batch-Id": "late", "Nats-Batch-Sequence": "1"})
    await api.event("BatchAbandoned.timeout", "$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.BATCH")


async def complaints(api: Capture) -> None:
    """Record the error for each body that cannot be read."""
    said = []
    for subject, kind, bodies in COMPLAINTS:
        for body in bodies:
            answer = json.loads(await api.ask(f"$JS.API.{subject}", body))
            prefix = "invalid JSON: "
            description = answer.get("error", {}).get("description", "")
            text = description.removeprefix(prefix) if description.startswith(prefix) else ""
            said.append([kind, body, text])
    lines = ",\n".join(json.dumps(line) for line in said)
    (FOLDER / "complaints.json").write_text(f"[\n{lines}\n]\n")


async def capture_domain(server: ServerProcess) -> None:
    connection = await nats.connect(server.client_url)
    api = Capture(connection)
    await api.listen()
    await api.keep("StreamCreateResponse.domain", "$JS.API.STREAM.CREATE.S", {"name": "S"})
    await api.event("StreamActionAdvisory.domain", "$JS.EVENT.ADVISORY.STREAM.CREATED.S")
    await api.keep("StreamInfoResponse.domain", "$JS.API.STREAM.INFO.S")
    await api.keep("StreamUpdateResponse.domain", "$JS.API.STREAM.UPDATE.S", {"name": "S", "max_msgs": 3})
    await api.keep("AccountInfoResponse.domain", "$JS.API.INFO")
    await api.keep("PubAckResponse.domain", "S", "x")
    await connection.close()


def capture() -> None:
    with ServerProcess(ServerKind.NATS_SERVER, "--name", "reference", jetstream=True) as server:
        asyncio.run(asyncio.wait_for(capture_plain(server), 60))
    store = tempfile.mkdtemp()
    try:
        config = f'server_name: reference\njetstream {{ domain: hub, store_dir: "{store}" }}'
        with ServerProcess(ServerKind.NATS_SERVER, config=config) as server:
            asyncio.run(asyncio.wait_for(capture_domain(server), 30))
    finally:
        shutil.rmtree(store)


def main() -> None:
    for old in FOLDER.glob("*.json"):
        old.unlink()
    for tries_left in reversed(range(5)):
        try:
            capture()
            return
        except TimeoutError:  # two sources of one stream: nats-server forgets a message of one now and then
            if not tries_left:
                raise


if __name__ == "__main__":
    main()
