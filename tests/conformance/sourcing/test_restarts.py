"""Mirrors and sources after a restart: they go on where they were, without loss and without duplicates."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.kits.conformance.clients import ServerFactory
from tests.kits.conformance.sourcing import Scene
from tests.kits.patience import PATIENCE_S

_CONFIG = "jetstream: {max_mem: 1GB, max_file: 1GB}"


def test_they_go_on_where_they_were(own_server: ServerFactory, open_scene: Callable[..., Scene]) -> None:
    server = own_server(config=_CONFIG, jetstream=True)
    js = open_scene(server)
    js.stream("O", subjects=["o.>"])
    js.stream("P", subjects=["p.>"])
    js.publish("o.1", "one", "two", "three")
    js.publish("p.1", "one", "two")
    js.stream("M", mirror={"name": "O"})
    js.stream("S", sources=[{"name": "O", "filter_subject": "o.1"}, {"name": "P"}])
    js.until("M", messages=3)
    js.until("S", messages=5)
    js.wire.close()
    server.stop()
    js = open_scene(server.start())
    js.publish("o.1", "four")
    js.publish("p.1", "three")
    js.until("M", patience_s=PATIENCE_S, messages=4)
    js.until("S", patience_s=PATIENCE_S, messages=7)
    js.contents("M", like="O")


@pytest.mark.parametrize("retention", ["interest", "workqueue"])
def test_origins_that_forget_what_was_taken(
    own_server: ServerFactory, open_scene: Callable[..., Scene], retention: str
) -> None:
    server = own_server(config=_CONFIG, jetstream=True)
    js = open_scene(server)
    js.stream("O", subjects=["o.>"], retention=retention)
    js.stream("S", sources=[{"name": "O"}])
    js.until_active("S")
    js.publish("o.1", "one", "two")
    js.until("S", messages=2)
    js.until("O", messages=0)
    js.wire.close()
    server.stop()
    js = open_scene(server.start())
    js.publish("o.1", "three")
    js.until("S", patience_s=PATIENCE_S, messages=3)
    js.until("O", patience_s=PATIENCE_S, messages=0)
    js.contents("S")


@pytest.mark.parametrize("how", ["purged", "consumed"])
def test_what_is_gone_from_the_stream_does_not_come_again(
    own_server: ServerFactory, open_scene: Callable[..., Scene], how: str
) -> None:
    server = own_server(config=_CONFIG, jetstream=True)
    js = open_scene(server)
    js.stream("O", subjects=["o.>"])
    js.publish("o.1", "one", "two", "three")
    js.stream("S", sources=[{"name": "O"}], retention="limits" if how == "purged" else "workqueue")
    js.until("S", messages=3)
    if how == "purged":
        js.ask("STREAM.PURGE.S")
    else:
        config: Any = {"durable_name": "c", "ack_policy": "explicit"}
        js.ask("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": config})
        for message in js.pull("S", 3):
            js.request(message.reply, b"+ACK")
    js.until("S", messages=0)
    js.wire.close()
    server.stop()
    js = open_scene(server.start())
    js.publish("o.1", "four")
    js.until("S", patience_s=PATIENCE_S, messages=1)
    js.contents("S")


def test_a_promoted_mirror_stays_promoted(
    own_server: ServerFactory, open_scene: Callable[..., Scene]
) -> None:
    server = own_server(config=_CONFIG, jetstream=True)
    js = open_scene(server)
    js.stream("O", subjects=["o.>"])
    js.publish("o.1", "one")
    js.stream("M", mirror={"name": "O"})
    js.until("M", messages=1)
    js.change("M", mirror=None, mirror_direct=None, subjects=["m"])
    js.wire.close()
    server.stop()
    js = open_scene(server.start())
    js.publish("m", "own")
    js.publish("o.1", "two")
    js.look("M")
