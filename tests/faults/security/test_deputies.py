"""A subject that a client chose never makes the server's own messages reach a service."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kits.security.gate import Client, client, running

CONFIG = """
jetstream { domain: hub }
system_account: SYS
MAY: ["mine.>", "$JS.API.DIRECT.GET.MINE", "$JS.API.STREAM.INFO.MINE", "help"]
accounts {
  SYS { users: [{user: sys, password: sys}] }
  SERVICES {
    users: [{user: desk, password: desk}]
    exports: [{service: "help"}]
  }
  A {
    jetstream: enabled
    users: [
      {user: admin, password: admin}
      {user: low, password: low, permissions: {publish: $MAY, subscribe: ">"}}
    ]
    imports: [{service: {account: SERVICES, subject: "help"}}]
  }
}
"""
SERVICES = [
    b"$JS.API.STREAM.DELETE.OTHER",
    b"$JS.hub.API.STREAM.DELETE.OTHER",
    b"$JS.API.STREAM.PURGE.OTHER",
    b"$JS.API.STREAM.MSG.DELETE.OTHER",
    b"$JS.API.CONSUMER.DELETE.OTHER.c",
    b"$JS.API.CONSUMER.MSG.NEXT.OTHER.c",
    b"$SYS.REQ.USER.INFO",
    b"$MILLSTREAM.ARROW.INFO",
]


def _prepare(admin: Client) -> None:
    mine = {"name": "MINE", "subjects": ["mine.>"], "allow_direct": True}
    assert "error" not in admin.api("STREAM.CREATE.MINE", mine)
    assert "error" not in admin.api("STREAM.CREATE.OTHER", {"name": "OTHER", "subjects": ["other"]})
    assert admin.call("other")["seq"] == 1
    durable = {"stream_name": "OTHER", "config": {"durable_name": "c", "ack_policy": "explicit"}}
    assert "error" not in admin.api("CONSUMER.DURABLE.CREATE.OTHER.c", durable)
    assert admin.call("mine.x")["seq"] == 1


def _is_untouched(admin: Client) -> bool:
    state = admin.api("STREAM.INFO.OTHER")["state"]
    consumer = admin.api("CONSUMER.INFO.OTHER.c")
    return bool(
        (state["messages"], state["consumer_count"]) == (1, 1)
        and consumer["num_waiting"] == 0
        and consumer["delivered"]["consumer_seq"] == 0
    )


@pytest.mark.parametrize("reply", SERVICES)
def test_no_answer_is_a_request(tmp_path: Path, reply: bytes) -> None:
    """Applies to direct gets, API requests, publishes and imported services, with any user."""
    body = b'{"seq":1}'
    with (
        running(CONFIG, tmp_path) as server,
        client(server, "admin") as admin,
        client(server, "desk") as desk,
    ):
        _prepare(admin)
        desk.round_trip(b"SUB help 1\r\n")
        for user in ("low", "admin"):
            with client(server, user) as asker:
                asker.publish("$JS.API.DIRECT.GET.MINE", body, reply)
                asker.publish("$JS.API.STREAM.INFO.MINE", b"", reply)
                asker.publish("mine.x", body, reply)
                asker.publish("help", b"", reply)
                request = desk.wire.read_frame()
                desk.publish(request.split(b" ")[3], body)
                asker.round_trip()
            assert _is_untouched(admin)


def test_no_configuration_makes_a_request(tmp_path: Path) -> None:
    """Republished messages, deliveries of a push consumer, traces, schedules, transforms."""
    with running(CONFIG, tmp_path) as server, client(server, "admin") as admin:
        _prepare(admin)
        target = "$JS.API.STREAM.DELETE.OTHER"
        streams = [
            {"subjects": ["r"], "republish": {"src": "r", "dest": target}},
            {"subjects": ["t"], "subject_transform": {"src": "t", "dest": target}},
            {"subjects": ["s", "at"], "allow_msg_schedules": True},
        ]
        for number, stream in enumerate(streams):
            admin.api(f"STREAM.CREATE.S{number}", {"name": f"S{number}"} | stream)
        for subject in ("r", "t"):
            admin.publish(subject, b"")
        for header in (
            b"Nats-Trace-Dest",
            b"Nats-Schedule: @at 2020-01-01T00:00:00Z\r\nNats-Schedule-Target",
        ):
            block = b"NATS/1.0\r\n%b: %b\r\n\r\n" % (header, target.encode())
            admin.round_trip(b"HPUB s %d %d\r\n%b\r\n" % (len(block), len(block), block))
        consumer = {"deliver_subject": target, "ack_policy": "none"}
        for stream in ("MINE", "S1"):
            admin.api(f"CONSUMER.CREATE.{stream}", {"stream_name": stream, "config": consumer})
        assert admin.call("mine.x")["stream"] == "MINE"
        assert _is_untouched(admin)


def test_a_direct_get_injects_nothing_where_its_client_may_not_publish(tmp_path: Path) -> None:
    """The client may even subscribe there itself: then it alone gets the answer."""
    with (
        running(CONFIG, tmp_path) as server,
        client(server, "admin") as admin,
        client(server, "low") as low,
    ):
        _prepare(admin)
        admin.round_trip(b"SUB admin.commands 7\r\n")
        low.publish("mine.evil", b"DROP-ALL!")
        for request in (b'{"last_by_subj":"mine.evil"}', b'{"seq":1,"batch":10}', b'{"seq":999}', b"{"):
            low.publish("$JS.API.DIRECT.GET.MINE", request, b"admin.commands")
        low.publish("$JS.API.STREAM.INFO.MINE", b"", b"admin.commands")
        assert admin.round_trip() == b""
        low.round_trip(b"SUB admin.commands 8\r\n")
        answer = low.publish("$JS.API.DIRECT.GET.MINE", b'{"last_by_subj":"mine.evil"}', b"admin.commands")
        answer = answer or low.wire.read_frame()
        assert b"HMSG admin.commands 8 " in answer
        assert b"DROP-ALL!" in answer
        assert admin.round_trip() == b""


def test_an_inbox_that_its_user_may_only_subscribe_to_works(tmp_path: Path) -> None:
    with (
        running(CONFIG, tmp_path) as server,
        client(server, "admin") as admin,
        client(server, "low") as low,
    ):
        _prepare(admin)
        assert low.api("STREAM.INFO.MINE")["state"]["messages"] == 1
        low.wire.send(b'PUB $JS.API.DIRECT.GET.MINE %b.1 9\r\n{"seq":1}\r\n' % low.inbox)
        assert b"Nats-Sequence: 1\r\n" in low.wire.read_frame()
        low.wire.send(b'PUB $JS.API.DIRECT.GET.MINE %b.2 20\r\n{"seq":1,"batch":10}\r\n' % low.inbox)
        assert b"Nats-Sequence: 1\r\n" in low.wire.read_frame()
        assert b"204 EOB" in low.wire.read_frame()
