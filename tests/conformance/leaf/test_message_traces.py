"""Message traces across links: each server reports its part, and hops tell which parts belong together."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.kits.conformance.clients import Message, header_block, publish
from tests.kits.leaf import PAIR_NAMES, PAIRS, Linked, client, leafz, linked
from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.server.monitor import eventually

Kinds = tuple[ServerKind, ServerKind]

CLIENT, LEAF = 0, 4
ONLY = {"Nats-Trace-Only": "true"}
DENIED = "Not delivered because publish denied for this subject"
UNWANTED = "Not delivered because subscription denies this subject"
CLOSED = [("hub", "spoke", "dark.x"), ("spoke", "hub", "closed.x"), ("spoke", "hub", "kept.x")]
HUB = """
accounts {
  A { users: [ { user: a, password: p }
               { user: limited, password: p, permissions: { subscribe: { deny: [dark.x] }
                                                            publish: { deny: [closed.x] } } } ]
      mappings: { "old.*": "new.$1" }
      msg_trace: { dest: told.all } } }
no_auth_user: a
"""
SPOKE = (
    "accounts { A { users: [ { user: a, password: p } ], msg_trace: { dest: told.all } } }\nno_auth_user: a"
)


class Ends(NamedTuple):
    """Names of the servers of the publisher and of the receiver."""

    pair: Linked
    near: str
    far: str

    def server(self, name: str) -> ServerProcess:
        return self.pair.hub if name == "hub" else self.pair.spoke


@pytest.fixture(scope="module", params=PAIRS, ids=PAIR_NAMES)
def pair(request: pytest.FixtureRequest) -> Iterator[Linked]:
    kinds: Kinds = request.param
    with linked(
        kinds, hub=HUB, spoke=SPOKE, user="limited:p@", remote="account: A, deny_exports: [kept.x]"
    ) as servers:
        yield servers


@pytest.fixture(params=["to the hub", "to the spoke"])
def ends(pair: Linked, request: pytest.FixtureRequest) -> Ends:
    return Ends(pair, "spoke", "hub") if request.param == "to the hub" else Ends(pair, "hub", "spoke")


class Parties:
    """A publisher, whoever hears the traces at its server, and a receiver at the other."""

    def __init__(self, ends: Ends) -> None:
        self.ends = ends
        self.near = client(ends.server(ends.near), headers=True, name="near")
        self.far = client(ends.server(ends.far), headers=True, name="far")
        self.ear = client(ends.server(ends.near), headers=True, name="ear")
        self.ear.round_trip(b"SUB told.> 1\r\n")
        ends.pair.until_asked(ends.server(ends.far), "told.>")

    def listen(self, *subscriptions: str) -> None:
        """Subscribe at the other server, and wait until the publisher's server knows."""
        for subscription in subscriptions:
            self.far.send(f"SUB {subscription}\r\n".encode())
        self.far.round_trip()
        subjects = [subscription.split()[0] for subscription in subscriptions]
        self.ends.pair.until_asked(self.ends.server(self.ends.near), *subjects)

    def publish(self, subject: str, headers: dict[str, str]) -> None:
        self.near.round_trip(publish(subject, b"hello", block=header_block(headers)))

    def traces(self, subject: str, headers: dict[str, str] | None = None, count: int = 2) -> dict[str, Any]:
        """Publish a message that is to be traced, and return what each server reports."""
        self.publish(subject, {"Nats-Trace-Dest": "told.me", **(headers or {})})
        return self.heard(count)

    def heard(self, count: int) -> dict[str, Any]:
        heard = [Message.read(self.ear.read_frame()).json for _ in range(count)]
        return {each["server"]["name"]: report(each) for each in heard}


@pytest.fixture
def parties(ends: Ends) -> Iterator[Parties]:
    all_three = Parties(ends)
    with all_three.near, all_three.far, all_three.ear:
        yield all_three
    for server in (ends.pair.hub, ends.pair.spoke):
        ends.pair.until_not_asked(server, "told.>")


def report(document: dict[str, Any]) -> dict[str, Any]:
    """Return a trace without what is different each time."""
    events = [{key: event[key] for key in event if key not in ("ts", "cid")} for event in document["events"]]
    hop = document["request"]["header"].get("Nats-Trace-Hop", [""])[0]
    return {"hop": hop, "hops": document.get("hops", 0), "events": events}


def came(kind: int, name: str, subject: str) -> dict[str, Any]:
    return {"type": "in", "kind": kind, "name": name, "acc": "A", "subj": subject}


def went(kind: int, name: str, **more: str) -> dict[str, Any]:
    return {"type": "eg", "kind": kind, "name": name, **more}


def test_both_servers_report(parties: Parties, ends: Ends) -> None:
    parties.listen("t.* 1", "t.q q 2")
    parties.near.round_trip(b"SUB t.a 1\r\n")
    assert parties.traces("t.q") == {
        ends.near: {
            "hop": "",
            "hops": 1,
            "events": [came(CLIENT, "near", "t.q"), went(LEAF, ends.far, hop="1")],
        },
        ends.far: {
            "hop": "1",
            "hops": 0,
            "events": [
                came(LEAF, ends.near, "t.q"),
                went(CLIENT, "far", sub="t.*"),
                went(CLIENT, "far", sub="t.q", queue="q"),
            ],
        },
    }
    for _ in range(2):
        got = Message.read(parties.far.read_frame())
        assert (got.headers, got.payload) == (
            {"Nats-Trace-Dest": "told.me", "Nats-Trace-Hop": "1"},
            b"hello",
        )
    assert parties.traces("t.a")[ends.near]["events"] == [
        came(CLIENT, "near", "t.a"),
        went(CLIENT, "near", sub="t.a"),
        went(LEAF, ends.far, hop="1"),
    ]


def test_a_group_prefers_its_members_at_hand(parties: Parties, ends: Ends) -> None:
    parties.listen("g.1 q 1")
    parties.near.round_trip(b"SUB g.1 q 1\r\n")
    assert parties.traces("g.1", count=1) == {
        ends.near: {
            "hop": "",
            "hops": 0,
            "events": [came(CLIENT, "near", "g.1"), went(CLIENT, "near", sub="g.1", queue="q")],
        }
    }
    assert parties.far.round_trip() == b""


def test_only_a_trace(parties: Parties, ends: Ends) -> None:
    parties.listen("o.* 1", "o.q q 2")
    traces = parties.traces("o.q", ONLY)
    assert traces[ends.near]["events"][1:] == [went(LEAF, ends.far, hop="1")]
    assert traces[ends.far]["events"][1:] == [
        went(CLIENT, "far", sub="o.*"),
        went(CLIENT, "far", sub="o.q", queue="q"),
    ]
    assert parties.far.round_trip() == b""


def test_a_hop_that_a_client_claims_counts_for_nothing(parties: Parties, ends: Ends) -> None:
    parties.listen("h.1 1")
    traces = parties.traces("h.1", {"Nats-Trace-Hop": "7.7", "b": "c"})
    assert traces[ends.far]["hop"] == "1"
    got = Message.read(parties.far.read_frame())
    assert got.block == header_block({"Nats-Trace-Dest": "told.me", "b": "c", "Nats-Trace-Hop": "1"})


def test_a_trace_of_somebody_else(parties: Parties, ends: Ends) -> None:
    """A sampled `traceparent` is traced where the account says, by each server."""
    parties.listen("w.1 1")
    parties.publish("w.1", {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"})
    traces = parties.heard(2)
    assert traces[ends.near]["events"][1:] == [went(LEAF, ends.far, hop="1")]
    assert traces[ends.far]["events"] == [came(LEAF, ends.near, "w.1"), went(CLIENT, "far", sub="w.1")]
    assert Message.read(parties.far.read_frame()).headers["Nats-Trace-Hop"] == "1"


@pytest.mark.parametrize("kinds", PAIRS, ids=PAIR_NAMES)
def test_one_server_decides_what_is_sampled(kinds: Kinds) -> None:
    """A message that the first server does not trace is not traced by the second one either."""
    traced = SPOKE.replace("told.all", "told.all, sampling: 20%")
    with linked(kinds, hub=traced, spoke=traced, user="a:p@", remote="account: A") as pair:
        parties = Parties(Ends(pair, "spoke", "hub"))
        with parties.near, parties.far, parties.ear:
            parties.listen("n.* 1")
            for number in range(50):
                parent = f"00-4bf92f3577b34da6a3ce929d0e0e4736-{number:016x}-01"
                parties.publish(f"n.{number}", {"traceparent": parent})
            parties.publish("n.end", {"Nats-Trace-Dest": "told.end"})
            heard: dict[str, list[str]] = {"hub": [], "spoke": []}
            while not all("n.end" in subjects for subjects in heard.values()):
                document = Message.read(parties.ear.read_frame()).json
                heard[document["server"]["name"]].append(document["events"][0]["subj"])
            assert heard["hub"] == heard["spoke"]
            marks = [Message.read(parties.far.read_frame()).headers for _ in range(50)]
            unmarked = [each for each in marks if each.get("Nats-Trace-Dest") != "trace disabled"]
            assert len(unmarked) == len(heard["hub"]) - 1


def test_a_mapping_behind_the_link(pair: Linked) -> None:
    parties = Parties(Ends(pair, "spoke", "hub"))
    with parties.near, parties.far, parties.ear:
        parties.far.round_trip(b"SUB old.x 1\r\nSUB new.x 2\r\n")
        pair.until_asked(pair.spoke, "old.x")
        assert parties.traces("old.x")["hub"]["events"] == [
            came(LEAF, "spoke", "old.x"),
            {"type": "sm", "to": "new.x"},
            went(CLIENT, "far", sub="new.x"),
        ]
        assert Message.read(parties.far.read_frame()).subject == "new.x"


@pytest.mark.parametrize("headers", [{}, ONLY], ids=["delivered", "only traced"])
@pytest.mark.parametrize("kinds", PAIRS[:2], ids=PAIR_NAMES[:2])
def test_another_account_is_not_traced_behind_its_link(kinds: Kinds, headers: dict[str, str]) -> None:
    """The destination of the trace is in the publisher's account, which the link does not reach."""
    accounts = """
    accounts {
      A { users: [ { user: a, password: p } ]
          imports: [ { stream: { account: B, subject: "news.>" }, allow_trace: true } ] }
      B { users: [ { user: b, password: p } ], exports: [ { stream: "news.>" } ] }
    }
    """
    with (
        linked(kinds, hub=accounts, user="a:p@") as pair,
        client(pair.hub, headers=True, name="near", user="b", **{"pass": "p"}) as near,
        client(pair.spoke, headers=True, name="far") as far,
    ):
        far.round_trip(b"SUB news.x 1\r\nSUB told.> 2\r\n")
        pair.until_asked(pair.hub, "news.x")
        near.round_trip(b"SUB told.> 1\r\n")
        near.send(publish("news.x", b"hello", block=header_block({"Nats-Trace-Dest": "told.me", **headers})))
        [_, crossing, out] = report(Message.read(near.read_frame()).json)["events"]
        assert crossing == {"type": "se", "acc": "A", "to": "news.x"}
        assert (out["kind"], out["acc"], out["hop"]) == (LEAF, "A", "1")
        assert "does not support message tracing" in out["error"]
        if headers:
            assert far.round_trip() == b""
        else:
            assert Message.read(far.read_frame()).headers["Nats-Trace-Dest"] == "trace disabled"


@pytest.mark.parametrize(("near", "far", "subject"), CLOSED)
def test_a_message_that_may_not_cross(pair: Linked, near: str, far: str, subject: str) -> None:
    parties = Parties(Ends(pair, near, far))
    with parties.near, parties.far, parties.ear:
        parties.listen(f"{subject[:-1]}* 1")
        assert parties.traces(subject, count=1)[near]["events"] == [
            came(CLIENT, "near", subject),
            went(LEAF, far, hop="1", error=UNWANTED if near == "hub" else DENIED),
        ]
        assert parties.far.round_trip() == b""


@pytest.mark.parametrize("kinds", PAIRS, ids=PAIR_NAMES)
def test_from_spoke_to_spoke(kinds: Kinds) -> None:
    """The number of a copy tells its way: 1.1 is the first copy that the receiver of copy 1 sent."""
    with linked(kinds) as pair:
        url = f"nats-leaf://127.0.0.1:{pair.leaf_port}"
        remote = f'leafnodes {{ reconnect: 100ms, remotes [ {{ url: "{url}" }} ] }}'
        with (
            ServerProcess(kinds[1], monitor=True, config=f"server_name: other\n{remote}") as other,
            client(pair.spoke, headers=True, name="near") as near,
            client(other, headers=True, name="far") as far,
            client(pair.spoke, headers=True, name="ear") as ear,
        ):
            eventually(lambda: len(leafz(pair.hub)["leafs"]) == 2)
            ear.round_trip(b"SUB told.> 1\r\n")
            far.round_trip(b"SUB c.1 1\r\n")
            pair.until_asked(pair.spoke, "c.1")
            pair.until_asked(other, "told.>")
            near.round_trip(publish("c.1", b"hello", block=header_block({"Nats-Trace-Dest": "told.me"})))
            heard = [Message.read(ear.read_frame()).json for _ in range(3)]
            assert {(each["server"]["name"], each.get("hops", 0)) for each in heard} == {
                ("spoke", 1),
                ("hub", 1),
                ("other", 0),
            }
            hops = {each["server"]["name"]: report(each) for each in heard}
            assert [hops[name]["hop"] for name in ("spoke", "hub", "other")] == ["", "1", "1.1"]
            assert hops["hub"]["events"][1:] == [went(LEAF, "other", hop="1.1")]
            assert Message.read(far.read_frame()).headers["Nats-Trace-Hop"] == "1.1"
