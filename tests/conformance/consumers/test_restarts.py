"""Consumers after a restart: which there are, and what they know."""

from typing import Any

import pytest

from tests.kits.conformance.clients import Dial, ServerFactory
from tests.kits.conformance.consumers import FUTURE, SECOND, Client
from tests.kits.reference import ServerProcess

_CONFIG = "jetstream: {max_mem: 1GB, max_file: 1GB}"


def connected(join: Dial, server: ServerProcess) -> Client:
    return Client(join(server, headers=True, no_responders=True))


def untimed(info: dict[str, Any]) -> dict[str, Any]:
    """Return the info without the fields that the next server does not know or that always differ."""
    found = {key: value for key, value in info.items() if key not in ("ts", "pause_remaining", "num_waiting")}
    for place in ("delivered", "ack_floor"):
        found[place] = {key: value for key, value in found[place].items() if key != "last_active"}
    return found


def test_configurations_and_places_are_as_they_were(own_server: ServerFactory, join: Dial) -> None:
    server = own_server(config=_CONFIG, jetstream=True)
    js = connected(join, server)
    js.stream()
    js.publish("s.1", "s.2", "s.3", "s.4")
    js.create("plain", ack_policy="explicit", description="what it is for", metadata={"k": "v"})
    js.create("pushed", deliver_subject="d", idle_heartbeat=SECOND, flow_control=True)
    js.create("late", deliver_policy="new")
    js.create("filtered", filter_subjects=["s.2", "s.3"], ack_policy="all")
    js.create("paused", pause_until=FUTURE)
    js.create("grouped", priority_policy="overflow", priority_groups=["A"])
    js.request(js.fetch("plain").next().reply, b"+ACK")
    js.fetch("plain").next()
    js.ask("CONSUMER.CREATE.S.kept", {"stream_name": "S", "config": {"inactive_threshold": 3600 * SECOND}})
    js.create("gone")
    js.ask("CONSUMER.DELETE.S.gone")
    js.create("plain", ack_policy="explicit", description="changed", metadata={"k": "v"})
    names = js.ask("CONSUMER.NAMES.S")["consumers"]
    before = {name: untimed(js.info(name)) for name in names}
    js.wire.close()
    server.stop()
    js = connected(join, server.start())
    assert js.ask("CONSUMER.NAMES.S")["consumers"] == names
    after = {name: untimed(js.info(name)) for name in names}
    assert after == before
    assert js.ask("STREAM.INFO.S")["state"]["consumer_count"] == len(names)


@pytest.mark.parametrize("name", ["mem_storage", "memory stream"])
def test_what_is_only_in_memory_is_gone(own_server: ServerFactory, join: Dial, name: str) -> None:
    server = own_server(config=_CONFIG, jetstream=True)
    js = connected(join, server)
    js.stream(storage="memory" if name == "memory stream" else "file")
    js.create(mem_storage=name == "mem_storage")
    js.wire.close()
    server.stop()
    js = connected(join, server.start())
    if name == "memory stream":
        assert js.refusal("CONSUMER.INFO.S.c") == (10059, "stream not found")
    else:
        assert js.refusal("CONSUMER.INFO.S.c") == (10014, "consumer not found")


def test_what_was_answered_survives_a_kill(own_server: ServerFactory, join: Dial) -> None:
    server = own_server(config=_CONFIG, jetstream=True)
    js = connected(join, server)
    js.stream()
    js.publish("s.1")
    js.create("a", description="one")
    js.create("a", description="two")
    js.create("b")
    js.ask("CONSUMER.PAUSE.S.b", {"pause_until": FUTURE})
    js.create("c")
    js.ask("CONSUMER.DELETE.S.c")
    server.kill()
    js.wire.close()
    js = connected(join, server.start())
    assert js.ask("CONSUMER.NAMES.S")["consumers"] == ["a", "b"]
    assert js.info("a")["config"]["description"] == "two"
    assert js.info("b")["paused"] is True
