"""All requests to the server and all fields of configurations that nats-server 2.15 has exist.

A name that a server does not know is refused: as a request without responders, or as an unknown field.
"""

import json
import re

import msgspec
import pytest

from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.go_types import Struct
from millstream.jsapi.stream_types import StreamConfig
from tests.kits.conformance.clients import Dial, Message, ServerFactory, login, publish
from tests.kits.reference import ServerKind, ServerProcess

CONFIG = """
accounts {
  A { jetstream: enabled, users: [ { user: a, password: p } ] }
  SYS { users: [ { user: sys, password: p } ] }
}
system_account: SYS
"""


def words(text: str) -> list[str]:
    return text.split()


DOCUMENTS = words(
    """
    ACCOUNTZ CONNZ EXPVARZ GATEWAYZ HEALTHZ IDZ IPQUEUESZ JSZ LEAFZ PROFILEZ RAFTZ ROUTEZ STATSZ SUBSZ VARZ
    """
)
OF_GO = words(
    "EXPVARZ IPQUEUESZ PROFILEZ RAFTZ"
)  # and of clusters: docs/compat.md tells that they are missing
OF_ACCOUNTS = words(
    """
    CONNS CONNZ INFO JSZ LEAFZ STATZ SUBSZ
    """
)
STREAM_FIELDS = words(
    """
    name description subjects retention max_consumers max_msgs max_bytes max_age max_msgs_per_subject
    max_msg_size discard storage num_replicas no_ack duplicate_window placement mirror sources compression
    first_seq subject_transform republish allow_direct mirror_direct discard_new_per_subject sealed
    deny_delete deny_purge allow_rollup_hdrs consumer_limits allow_msg_ttl subject_delete_marker_ttl
    allow_msg_counter allow_atomic allow_msg_schedules persist_mode allow_batched metadata
    """
)
CONSUMER_FIELDS = words(
    """
    durable_name name description deliver_policy opt_start_seq opt_start_time ack_policy ack_wait
    max_deliver backoff filter_subject filter_subjects replay_policy rate_limit_bps sample_freq max_waiting
    max_ack_pending flow_control headers_only max_batch max_expires max_bytes deliver_subject deliver_group
    idle_heartbeat inactive_threshold num_replicas mem_storage direct sourcing metadata pause_until
    priority_groups priority_policy priority_timeout
    """
)
FIELDS = {
    "STREAM.CREATE.S": (STREAM_FIELDS, StreamConfig),
    "CONSUMER.CREATE.S.c": (CONSUMER_FIELDS, ConsumerConfig),
}


@pytest.fixture
def server(shared_server: ServerFactory) -> ServerProcess:
    return shared_server(config=CONFIG, jetstream=True)


def unanswered(server: ServerProcess, join: Dial, user: str, subjects: list[str]) -> list[str]:
    """Return those of the subjects that nobody listens to."""
    client = login(join, server, user, headers=True, no_responders=True)
    client.round_trip(b"SUB in.* 1\r\n")
    requests = b"".join(publish(subject, b"", "in.x") for subject in subjects)
    found = re.findall(rb"NATS/1.0 503\r\nNats-Subject: (\S+)\r\n", client.round_trip(requests))
    return [subject.decode() for subject in found]


def test_requests_to_the_server(server: ServerProcess, join: Dial) -> None:
    own = login(join, server, "sys").info["server_id"]
    asked = [
        "$SYS.REQ.SERVER.PING",
        "$SYS.REQ.USER.INFO",
        "$SYS.DEBUG.SUBSCRIBERS",
        *(f"$SYS.REQ.SERVER.{which}.{name}" for which in ("PING", own) for name in DOCUMENTS),
        *(f"$SYS.REQ.SERVER.{own}.{name}" for name in ("KICK", "LDM", "RELOAD")),
        *(f"$SYS.REQ.ACCOUNT.A.{name}" for name in OF_ACCOUNTS),
    ]
    expected = ["$SYS.REQ.SERVER.PING.NONE"]
    if server.kind is ServerKind.MILLSTREAM:
        expected += [f"$SYS.REQ.SERVER.{which}.{name}" for which in ("PING", own) for name in OF_GO]
    assert sorted(unanswered(server, join, "sys", [*asked, expected[0]])) == sorted(expected)


def test_requests_of_any_account(server: ServerProcess, join: Dial) -> None:
    asked = [
        "$SYS.REQ.USER.INFO",
        "$SYS.REQ.ACCOUNT.PING.CONNZ",
        "$SYS.REQ.ACCOUNT.PING.STATZ",
        "$SYS.REQ.SERVER.PING.CONNZ",
    ]
    assert unanswered(server, join, "a", [*asked, "$SYS.REQ.SERVER.PING.VARZ"]) == [
        "$SYS.REQ.SERVER.PING.VARZ"
    ]


@pytest.mark.parametrize("verb", FIELDS)
def test_fields_of_configurations(server: ServerProcess, join: Dial, verb: str) -> None:
    """A strict server refuses the fields that it does not know, even without a value."""
    fields, known = FIELDS[verb]
    client = login(join, server, "a", headers=True)
    client.round_trip(b"SUB in.* 1\r\n")

    def refusal(*names: str) -> str:
        config = dict.fromkeys(names)
        body = config if verb.startswith("STREAM") else {"stream_name": "S", "config": config}
        client.send(publish(f"$JS.API.{verb}", json.dumps(body).encode(), "in.x"))
        return str(Message.read(client.read_frame()).json["error"]["description"])

    assert refusal("no_such_field").startswith("invalid JSON: json: unknown field")
    assert "unknown field" not in refusal(*fields)
    assert wire_names(known) == set(fields)


def wire_names(known: type[Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(known)}
