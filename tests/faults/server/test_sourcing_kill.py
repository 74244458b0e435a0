"""kill -9 while messages flow from stream to stream: none is lost on the way, and none comes twice.

The streams that are read take what clients publish; those that read them must have all of it in the end, in
order and once.  Some keep only the newest messages, or hand them to a consumer that forgets them: then what
is left does not tell how far a source was.
"""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.server.process import Caller, Ledger, Publisher

KILLS = 6
NEWEST = 50


def create(caller: Caller) -> list[Ledger]:
    caller.create("one")
    caller.create("two")
    caller.create("work", retention="workqueue")
    caller.create("mirror", subjects=[], mirror={"name": "one"})
    caller.create("again", subjects=[], mirror={"name": "mirror"})
    caller.create("both", subjects=[], sources=[{"name": "one"}, {"name": "two"}])
    caller.create("few", subjects=[], sources=[{"name": "two"}], max_msgs=NEWEST)
    caller.create(
        "none", subjects=[], sources=[{"name": "two"}], retention="interest"
    )  # nobody is interested
    caller.create("done", subjects=[], sources=[{"name": "work"}])
    return [Ledger("one"), Ledger("two"), Ledger("work")]


def settled(caller: Caller) -> bool:
    """Return whether every message has arrived in every stream."""
    last = {
        name: caller.state(name)["last_seq"] for name in ("one", "two", "work", "mirror", "again", "both")
    }
    last |= {name: caller.state(name)["last_seq"] for name in ("few", "none", "done")}
    return (
        last["mirror"] >= last["one"]
        and last["again"] >= last["one"]
        and last["both"] >= last["one"] + last["two"]
        and last["few"] >= last["two"]
        and last["none"] >= last["two"]
        and last["done"] >= last["work"]
        and caller.state("work")["messages"] == 0
    )


def told(caller: Caller) -> str:
    """Return the state of all streams as a text, for the message of a failed test."""
    names = ("one", "two", "work", "mirror", "again", "both", "few", "none", "done")
    infos = {name: caller.ask(f"STREAM.INFO.{name}") for name in names}
    return "\n".join(
        f"{name}: {info['state']} {info.get('mirror', '')} {info.get('sources', '')}"
        for name, info in infos.items()
    )


def check(caller: Caller) -> None:
    one, two, both = (caller.read(name) for name in ("one", "two", "both"))
    for copy in ("mirror", "again"):
        found = caller.read(copy)
        assert list(found) == list(one)
        for seq, message in found.items():
            assert message.payload == one[seq].payload
            assert message.headers["Nats-Time-Stamp"] == one[seq].headers["Nats-Time-Stamp"]
    assert sorted(message.payload for message in both.values()) == sorted(
        message.payload for origin in (one, two) for message in origin.values()
    )
    assert caller.state("none")["last_seq"] == len(two), "nothing of it is left to tell where it was"
    few = caller.read("few")
    assert list(few) == list(two)[-NEWEST:], "a source that forgot where it was counts differently"
    assert [message.payload for message in few.values()] == [two[seq].payload for seq in few]


def check_done(caller: Caller, ledger: Ledger) -> None:
    """Every message that was acknowledged, once."""
    payloads = [message.payload for message in caller.read("done").values()]
    assert len(set(payloads)) == len(payloads)
    assert set(payloads) <= ledger.sent.keys()
    assert set(ledger.acked.values()) <= set(payloads)


def test_killed_servers_lose_nothing_on_the_way_from_stream_to_stream(tmp_path: Path) -> None:
    random = Random(5)
    server = ServerProcess(ServerKind.MILLSTREAM, jetstream=True, store_dir=tmp_path / "store")
    with server:
        with Caller(server.port) as caller:
            ledgers = create(caller)
        for number in range(KILLS):
            publisher = Publisher(server.port, f"p{number}", ledgers, random.getrandbits(32))
            publisher.start()
            deadline = time.monotonic() + PATIENCE_S
            wanted = random.randint(200, 1500)
            while publisher.answers < wanted and time.monotonic() < deadline:
                time.sleep(0.003)
            server.kill()
            publisher.finish()
            assert server.start().running
        with Caller(server.port) as caller:
            deadline = time.monotonic() + PATIENCE_S
            while not settled(caller):
                assert time.monotonic() < deadline, f"not everything arrived: {told(caller)}"
                time.sleep(0.05)
            check(caller)
            check_done(caller, ledgers[2])
