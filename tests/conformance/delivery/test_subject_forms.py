"""Both forms of the subjects of acks, flow control and answers to sources: one is sent, both are read."""

import json
import urllib.request
from typing import Any

import pytest

from tests.kits.conformance.clients import Dial, Message, ServerFactory, eventually
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerProcess
from tests.kits.wire import WireClient

ACCOUNT = "281ax8Mn"  # the hash of ORIGIN
USERS = """
accounts {
  ORIGIN {
    jetstream: enabled, users: [{user: o, password: p}]
    exports: [{service: "$JS.API.>"}, {service: "$JS.FC.>"}, {stream: "to.>"}]
  }
  TARGET {
    jetstream: enabled, users: [{user: t, password: p}]
    imports: [
      {service: {account: ORIGIN, subject: "$JS.API.>"}, to: "ACC.ORIGIN.API.>"}
      {service: {account: ORIGIN, subject: "$JS.FC.>"}}, {stream: {account: ORIGIN, subject: "to.>"}}
    ]
  }
}
"""
CHOSEN = "feature_flags { js_ack_fc_v2: true, js_api_reply_v2: true, no_such_flag: true }\n"


def configured(flags: str = CHOSEN, domain: str = "") -> str:
    return flags + (f"jetstream {{ domain: {domain} }}\n" if domain else "") + USERS


def ask(client: WireClient, subject: str, body: Any = None) -> dict[str, Any]:
    """Make a request of the API; the client hears answers on `answers`."""
    text = json.dumps(body).encode() if body is not None else b""
    client.send(b"PUB %b answers %d\r\n%b\r\n" % (subject.encode(), len(text), text))
    answer: dict[str, Any] = json.loads(Message.read(client.read_frame()).payload)
    assert "error" not in answer, answer
    return answer


def user(server: ServerProcess, join: Dial, name: str) -> WireClient:
    client = join(server, user=name, **{"pass": "p"}, headers=True)
    client.round_trip(b"SUB answers 1\r\n")
    return client


def delivered(client: WireClient) -> Message:
    client.send(b"PUB $JS.API.CONSUMER.MSG.NEXT.S.c pulled 0\r\n\r\n")
    return Message.read(client.read_frame())


def pending(client: WireClient) -> int:
    return int(ask(client, "$JS.API.CONSUMER.INFO.S.c")["num_ack_pending"])


def one_message(client: WireClient, **consumer: Any) -> None:
    ask(client, "$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s"], "storage": "memory"})
    config = {"durable_name": "c", "ack_policy": "explicit", "ack_wait": 3600 * 10**9, **consumer}
    client.round_trip(b"SUB pulled 2\r\nPUB s 1\r\nx\r\n")
    ask(client, "$JS.API.CONSUMER.DURABLE.CREATE.S.c", {"stream_name": "S", "config": config})


@pytest.mark.parametrize(("domain", "home"), [("", "_"), ("hub", "hub")])
def test_a_delivery_names_domain_and_account_if_the_flag_is_set(
    own_server: ServerFactory, join: Dial, domain: str, home: str
) -> None:
    client = user(own_server(config=configured(domain=domain), jetstream=True), join, "o")
    one_message(client)
    reply = delivered(client).reply
    start = f"$JS.ACK.{home}.{ACCOUNT}.S.c."
    assert reply.startswith(start)
    assert len(reply.removeprefix(start).split(".")) == 5
    client.send(b"PUB %b 0\r\n\r\n" % reply.encode())
    eventually(lambda: pending(client) == 0)


@pytest.mark.parametrize("flags", ["", CHOSEN])
@pytest.mark.parametrize("start", ["$JS.ACK.S.c.", f"$JS.ACK._.{ACCOUNT}.S.c."])
@pytest.mark.parametrize("end", ["", ".more.tokens"])
def test_acks_of_both_forms_are_understood_always(
    own_server: ServerFactory, join: Dial, flags: str, start: str, end: str
) -> None:
    client = user(own_server(config=configured(flags), jetstream=True), join, "o")
    one_message(client)
    numbers = ".".join(delivered(client).reply.split(".")[-5:])
    client.send(b"PUB %b answers 4\r\n+ACK\r\n" % f"{start}{numbers}{end if '_' in start else ''}".encode())
    assert Message.read(client.read_frame()).payload == b""  # the confirmation
    assert pending(client) == 0


def test_flow_control_is_requested_in_the_new_form(own_server: ServerFactory, join: Dial) -> None:
    client = user(own_server(config=configured(), jetstream=True), join, "o")
    ask(client, "$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s"], "storage": "memory"})
    client.round_trip(b"SUB d 2\r\n" + b"PUB s 102400\r\n%b\r\n" % bytes(102_400) * 40)
    config = {"durable_name": "c", "deliver_subject": "d", "flow_control": True, "idle_heartbeat": 10**9}
    body = json.dumps({"stream_name": "S", "config": config}).encode()
    client.send(b"PUB $JS.API.CONSUMER.DURABLE.CREATE.S.c %d\r\n%b\r\n" % (len(body), body))
    count = 0
    while count < 40:
        message = Message.read(client.read_frame())
        if b" 100 FlowControl" in message.block:
            assert message.reply.startswith(f"$JS.FC._.{ACCOUNT}.S.c.")
            client.send(b"PUB %b 0\r\n\r\n" % message.reply.encode())
        elif not message.block.startswith(b"NATS/1.0 100"):
            count += 1


def test_sources_name_their_origins_in_the_subjects_of_answers(own_server: ServerFactory, join: Dial) -> None:
    server = own_server(config=configured(), jetstream=True)
    origin, target = user(server, join, "o"), user(server, join, "t")
    heard = join(server, user="t", **{"pass": "p"}, headers=True)
    heard.round_trip(b"SUB $JSC.R.> 7\r\n")
    ask(origin, "$JS.API.STREAM.CREATE.O", {"name": "O", "subjects": ["o"]})
    origin.round_trip(b"PUB o 1\r\nx\r\n")
    external = {"api": "ACC.ORIGIN.API", "deliver": "to.T"}
    ask(target, "$JS.API.STREAM.CREATE.L", {"name": "L", "subjects": ["l"]})
    target.round_trip(b"PUB l 1\r\nx\r\n")
    sources = [{"name": "O", "external": external}, {"name": "L"}]
    ask(target, "$JS.API.STREAM.CREATE.T", {"name": "T", "sources": sources})
    eventually(lambda: ask(target, "$JS.API.STREAM.INFO.T")["state"]["messages"] == 2)
    found = {tuple(Message.read(heard.read_frame()).subject.split(".")[2:5]) for _ in range(2)}
    hashed = {each[1] for each in found}
    assert {(each[0], each[2]) for each in found} == {("ORIGIN", "O"), ("_", "L")}
    assert len(hashed) == 1


def test_the_flags_in_force_are_shown_and_unknown_ones_are_not(own_server: ServerFactory) -> None:
    server = own_server(config=configured(), monitor=True)
    with urllib.request.urlopen(f"{server.monitor_url}/varz", timeout=PATIENCE_S) as answer:
        assert json.load(answer)["feature_flags"] == {
            "js_ack_fc_v2": True,
            "js_api_reply_v2": True,
            "js_raft_delete_range": True,
            "js_snapshot_sources": False,
        }
    assert "no_such_flag" in server.log


def test_a_reload_does_not_change_flags(own_server: ServerFactory) -> None:
    server = own_server(config=configured(), jetstream=True)
    assert not server.reload(configured(flags=""))


def test_a_trace_of_headers_leaves_payloads_out(own_server: ServerFactory, join: Dial) -> None:
    server = own_server(config="trace_headers: true")
    client = join(server, headers=True)
    client.round_trip(b"PUB a 6\r\nhidden\r\nHPUB a 18 24\r\nNATS/1.0\r\nK: v\r\n\r\nhidden\r\n")
    server.wait_for_log(r'MSG_PAYLOAD: \["NATS/1\.0')
    assert "hidden" not in server.log
