"""Permissions to publish and subscribe, and the messages of a refusal."""

import time

import pytest

from tests.kits.conformance.clients import (
    Dial,
    ServerFactory,
    login,
    message,
    publish,
    publish_refused,
    subscribe_refused,
)
from tests.kits.reference import ServerProcess, ServerProcessError

PERMISSIONS = """
authorization {
  default_permissions: { publish: "default.>", subscribe: ["default.>", "_INBOX.>"] }
  users: [
    { user: any, password: p, permissions: {} }
    { user: default, password: p }
    { user: lists, password: p, permissions: { publish: ["a.*", "b"], subscribe: "s.>" } }
    { user: maps, password: p, permissions: {
        publish: { allow: ["a.>"], deny: ["a.secret", "a.deep.>"] }
        subscribe: { allow: ["a.>"], deny: ["a.secret", "a.*.hidden"] } } }
    { user: denies, password: p, permissions: {
        publish: { deny: "no.*" }, subscribe: { deny: ["no.*", "deep.no.>"] } } }
    { user: nothing, password: p, permissions: { publish: { deny: ">" }, subscribe: { deny: ">" } } }
    { user: queues, password: p, permissions: {
        subscribe: { allow: ["plain", "q.* grp", "w.> *.dev", "two a", "two b"] } } }
    { user: queue_deny, password: p, permissions: {
        subscribe: { allow: ["foo", "foo v1", "bar.>"], deny: ["foo *.prod", "bar.x bad"] } } }
    { user: responder, password: p, permissions: { subscribe: "serve.>", allow_responses: true } }
    { user: responder2, password: p, permissions: {
        publish: "log", subscribe: "serve2", allow_responses: { max: 2, expires: "1m" } } }
    { user: quick, password: p, permissions: {
        subscribe: "serve3", allow_responses: { max: -1, expires: "1s" } } }
    { user: denied_responder, password: p, permissions: {
        publish: { deny: "box.denied" }, subscribe: "serve4", allow_responses: true } }
    { user: long_names, password: p, permissions: { pub: "x", sub: "x" } }
    { user: import_names, password: p, permissions: { export: "y", import: "y" } }
  ]
}
"""


@pytest.fixture
def server(shared_server: ServerFactory) -> ServerProcess:
    return shared_server(config=PERMISSIONS, monitor=True)


PUBLISHES = {
    "any": {"a": True, "a.b.c": True},
    "default": {"default.x": True, "default": False, "other": False},
    "lists": {"a.x": True, "b": True, "a": False, "a.x.y": False, "c": False},
    "maps": {"a.x": True, "a.secret": False, "a.deep.x": False, "a.deep": True, "b": False},
    "denies": {"yes": True, "no": True, "no.x": False, "no.x.y": True},
    "nothing": {"a": False, "a.b": False},
    "queues": {"anything.at.all": True},
    "responder": {"anything": False},
    "responder2": {"log": True, "log.x": False},
    "long_names": {"x": True, "y": False},
    "import_names": {"y": True, "x": False},
}


@pytest.mark.parametrize("user", PUBLISHES)
def test_publish(server: ServerProcess, join: Dial, user: str) -> None:
    watcher, client = login(join, server, "any"), login(join, server, user)
    for subject, allowed in PUBLISHES[user].items():
        watcher.round_trip(f"SUB {subject} {subject}\r\n".encode())
        expected = b"" if allowed else publish_refused(subject)
        seen = message(subject, subject, b"x") if allowed else b""
        assert client.round_trip(publish(subject, b"x")) == expected, subject
        assert watcher.round_trip() == seen, subject


SUBSCRIBES = {
    "any": {"a": True, ">": True, "*.x": True},
    "default": {"default.x": True, "default.>": True, "default": False, ">": False, "_INBOX.a.b": True},
    "lists": {"s.a": True, "s.*": True, "s.>": True, "s": False, ">": False, "*.a": False},
    "maps": {
        "a.x": True,
        "a.secret": False,
        "a.>": True,
        "a.*": True,
        "a.x.hidden": False,
        "a.*.hidden": False,
        "a.*.*": True,
        "b": False,
    },
    "denies": {
        "yes": True,
        "no.x": False,
        "no.*": False,
        "no.>": False,
        ">": True,
        "deep.no.a": False,
        "deep.>": True,
    },
    "nothing": {"a": False, ">": False},
    "queues": {"plain": True, "q.x": False, "w.x": False, "two": False},
    "queue_deny": {"foo": True, "bar.x": True, "bar.y": True},
    "long_names": {"x": True, "y": False},
    "import_names": {"y": True, "x": False},
}


@pytest.mark.parametrize("user", SUBSCRIBES)
def test_subscribe(server: ServerProcess, join: Dial, user: str) -> None:
    client = login(join, server, user)
    for number, (subject, allowed) in enumerate(SUBSCRIBES[user].items()):
        expected = b"" if allowed else subscribe_refused(subject)
        assert client.round_trip(f"SUB {subject} {number}\r\n".encode()) == expected, subject


QUEUE_SUBSCRIBES = [
    ("queues", "plain", "any", True),
    ("queues", "q.x", "grp", True),
    ("queues", "q.*", "grp", True),
    ("queues", "q.x", "other", False),
    ("queues", "q.x.y", "grp", False),
    ("queues", "w.x.y", "team.dev", True),
    ("queues", "w.x.y", "team.prod", False),
    ("queues", "w.x.y", "dev", False),
    ("queues", "two", "a", True),
    ("queues", "two", "b", True),
    ("queues", "two", "c", False),
    ("queue_deny", "foo", "v1", True),
    ("queue_deny", "foo", "v2", False),  # an entry with a queue outranks the one without
    ("queue_deny", "bar.z", "v2", True),
    ("queue_deny", "foo", "v1.prod", False),
    ("queue_deny", "bar.x", "good", True),
    ("queue_deny", "bar.x", "bad", False),
    ("queue_deny", "bar.y", "bad", True),
    ("denies", "no.x", "q", False),
    ("any", "x", "q", True),
]


@pytest.mark.parametrize(("user", "subject", "queue", "allowed"), QUEUE_SUBSCRIBES)
def test_queue_subscribe(
    server: ServerProcess, join: Dial, user: str, subject: str, queue: str, allowed: bool
) -> None:
    client = login(join, server, user)
    expected = b"" if allowed else subscribe_refused(subject, queue)
    assert client.round_trip(f"SUB {subject} {queue} 1\r\n".encode()) == expected


def test_denied_messages_are_dropped_from_a_wider_subscription(server: ServerProcess, join: Dial) -> None:
    client, publisher = login(join, server, "denies"), login(join, server, "any")
    client.round_trip(b"SUB > 1\r\nSUB deep.> q 2\r\n")
    for subject in ("yes", "no.x", "no.x.y", "deep.no.a", "deep.yes"):
        publisher.round_trip(publish(subject))
    frames = client.round_trip()
    assert [line for line in frames.split(b"\r\n") if line] == [
        b"MSG yes 1 0",
        b"MSG no.x.y 1 0",
        b"MSG deep.yes 1 0",
        b"MSG deep.yes 2 0",
    ]


def test_message_refused_by_its_only_receiver_has_no_responder(server: ServerProcess, join: Dial) -> None:
    client, publisher = login(join, server, "denies"), login(join, server, "any")
    client.round_trip(b"SUB > 1\r\n")
    answer = publisher.round_trip(b"SUB box 9\r\n" + publish("no.x", b"", "box"))
    assert answer.startswith(b"HMSG box 9 ")
    assert b"503" in answer


def test_queue_member_that_may_not_is_passed_over(server: ServerProcess, join: Dial) -> None:
    denied, member, publisher = (login(join, server, user) for user in ("denies", "any", "any"))
    denied.round_trip(b"SUB > grp 1\r\n")
    member.round_trip(b"SUB no.x grp 1\r\n")
    publisher.round_trip(publish("no.x") * 50)
    assert denied.round_trip() == b""
    assert member.round_trip() == message("no.x", 1) * 50


def test_verbose_gets_the_refusal_instead_of_ok(server: ServerProcess, join: Dial) -> None:
    client = login(join, server, "lists", verbose=True)
    assert client.round_trip(publish("c")) == publish_refused("c")
    assert client.round_trip(b"SUB c 1\r\n") == subscribe_refused("c")
    assert client.round_trip(publish("b")) == b"+OK\r\n"


def test_refused_sid_may_be_used_again(server: ServerProcess, join: Dial) -> None:
    client = login(join, server, "lists")
    assert client.round_trip(b"SUB c 1\r\nSUB s.a 1\r\n") == subscribe_refused("c")
    login(join, server, "any").send(publish("s.a"))
    assert client.read_frame() == message("s.a", 1)


def test_reply_subject_is_not_judged(server: ServerProcess, join: Dial) -> None:
    client = login(join, server, "lists")
    assert client.round_trip(publish("b", b"", "not.allowed")) == b""


def test_payload_of_a_refused_publish_is_skipped(server: ServerProcess, join: Dial) -> None:
    client = login(join, server, "lists")
    assert client.round_trip(publish("c", b"PUB b 0\r\n\r\n" * 100)) == publish_refused("c")


# -- allow_responses --------------------------------------------------------------------------------


def test_one_response_to_a_request(server: ServerProcess, join: Dial) -> None:
    responder, asking = login(join, server, "responder"), login(join, server, "any")
    responder.round_trip(b"SUB serve.x 1\r\n")
    asking.round_trip(b"SUB box.* 1\r\n")
    assert responder.round_trip(publish("box.1")) == publish_refused("box.1")
    asking.send(publish("serve.x", b"?", "box.1"))
    assert responder.read_frame() == message("serve.x", 1, b"?", "box.1")
    assert responder.round_trip(publish("box.2")) == publish_refused("box.2")
    assert responder.round_trip(publish("box.1", b"!")) == b""
    assert responder.round_trip(publish("box.1", b"!")) == publish_refused("box.1")
    assert asking.round_trip() == message("box.1", 1, b"!")


def test_several_responses_to_a_request(server: ServerProcess, join: Dial) -> None:
    responder, asking = login(join, server, "responder2"), login(join, server, "any")
    responder.round_trip(b"SUB serve2 1\r\n")
    asking.round_trip(b"SUB box.1 1\r\n" + publish("serve2", b"?", "box.1"))
    responder.read_frame()
    assert responder.round_trip(publish("log") + publish("box.1", b"!") * 3) == publish_refused("box.1")
    assert asking.round_trip() == message("box.1", 1, b"!") * 2


def test_responses_expire(server: ServerProcess, join: Dial) -> None:
    responder, asking = login(join, server, "quick"), login(join, server, "any")
    responder.round_trip(b"SUB serve3 1\r\n")
    asking.round_trip(publish("serve3", b"?", "box.1"))
    responder.read_frame()
    answers = [responder.round_trip(publish("box.1"))]
    while not answers[-1]:
        time.sleep(0.005)
        answers.append(responder.round_trip(publish("box.1")))
        assert len(answers) < 2_000
    assert answers[0] == b""
    assert answers[-1] == publish_refused("box.1")


def test_a_response_beats_deny(server: ServerProcess, join: Dial) -> None:
    responder, asking = login(join, server, "denied_responder"), login(join, server, "any")
    responder.round_trip(b"SUB serve4 1\r\n")
    for reply in ("box.denied", "box.fine"):
        asking.round_trip(publish("serve4", b"?", reply))
        responder.read_frame()
    assert responder.round_trip(publish("box.fine")) == b""
    assert responder.round_trip(publish("box.denied") * 2) == publish_refused("box.denied")
    assert responder.round_trip(publish("other")) == publish_refused("other")


ACCOUNT_DEFAULTS = """
accounts {
  A {
    default_permissions: { publish: "a.>" }
    users: [ { user: a, password: p }, { user: own, password: p, permissions: { publish: "own" } } ]
  }
  B { users: [ { user: b, password: p } ] }
}
authorization { default_permissions: { publish: "b.>" } }
"""


def test_default_permissions_of_an_account(shared_server: ServerFactory, join: Dial) -> None:
    server = shared_server(config=ACCOUNT_DEFAULTS)
    outcome = {
        user: [
            login(join, server, user).round_trip(publish(subject)) == b"" for subject in ("a.x", "b.x", "own")
        ]
        for user in ("a", "own", "b")
    }
    assert outcome == {"a": [True, False, False], "own": [False, False, True], "b": [True, True, True]}


@pytest.mark.parametrize(
    ("permissions", "complaint"),
    [
        ('{ publish: "a..b" }', "a..b"),
        ('{ subscribe: { allow: ["a.>.b"] } }', "a.>.b"),
        ("{ publish: 5 }", "permission"),
        ('{ wombat: "a" }', "wombat"),
        ('{ publish: "foo bar" }', "foo bar"),
    ],
)
def test_bad_permissions_are_refused_at_the_start(
    own_server: ServerFactory, permissions: str, complaint: str
) -> None:
    with pytest.raises(ServerProcessError) as refusal:
        own_server(
            config=f"authorization {{ users: [{{ user: a, password: b, permissions: {permissions} }}] }}"
        )
    assert complaint.lower() in str(refusal.value).lower()
