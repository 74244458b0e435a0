"""State of a consumer after the server was stopped and started again."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.kits.conformance.clients import ServerFactory
from tests.kits.conformance.delivery import MILLISECOND, SECOND, Scene
from tests.kits.reference import ServerProcess

LONG = 60 * SECOND
_CONFIG = "jetstream: {max_mem: 1GB, max_file: 1GB}"
Restart = Callable[[], Scene]


class Life:
    """A server of the test's own, and the client of the moment."""

    def __init__(self, server: ServerProcess, open_scene: Callable[..., Scene], scenes: list[Scene]) -> None:
        self._server = server
        self._open = open_scene
        self._scenes = scenes
        self.js: Scene = open_scene(server)

    def restart(self) -> Scene:
        self.js.ask("CONSUMER.LIST.S")  # who has noted all deliveries when it answers
        self._scenes.remove(self.js)
        self.js.wire.close()
        self._server.stop()
        self.js = self._open(self._server.start())
        self.js.note("-- restart")
        return self.js


@pytest.fixture
def life(own_server: ServerFactory, open_scene: Callable[..., Scene], scenes: list[Scene]) -> Life:
    return Life(own_server(config=_CONFIG, jetstream=True), open_scene, scenes)


def prepared(js: Scene, **config: Any) -> None:
    js.stream()
    js.publish(*"abcdef")
    js.consumer(**{"ack_policy": "explicit", "ack_wait": LONG, **config})


def test_acks_and_their_gaps_survive(life: Life) -> None:
    js = life.js
    prepared(js)
    messages = js.pull(5)
    for index in (0, 1, 3):
        js.say(messages[index])
    js.look()
    js = life.restart()
    js.look()
    js.say(messages[2])
    js.look()
    js.pull(1)
    js.look()


def test_what_is_pending_comes_again_after_its_time(life: Life) -> None:
    js = life.js
    prepared(js, ack_wait=SECOND)
    js.pull(6)
    js = life.restart()
    js.pull(6)
    js.look()


def test_counts_of_deliveries_survive(life: Life) -> None:
    js = life.js
    prepared(js, max_deliver=3)
    first = js.pull(2)[0]
    js.tell(first, "-NAK")
    js.events()
    js.pull(1)
    js.look()
    js = life.restart()
    js.look()
    js.tell(first, "-NAK")
    js.events()
    js.pull(1)
    js.look()


def test_ack_all_survives(life: Life) -> None:
    js = life.js
    prepared(js, ack_policy="all")
    messages = js.pull(5)
    js.say(messages[2])
    js = life.restart()
    js.look()
    js.say(messages[4])
    js.look()


def test_without_acks_the_place_survives(life: Life) -> None:
    js = life.js
    prepared(js, ack_policy="none", ack_wait=0)
    js.pull(4)
    js = life.restart()
    js.look()
    js.drain()


def test_a_push_consumer_goes_on(life: Life) -> None:
    js = life.js
    prepared(js, deliver_subject="d", max_ack_pending=3)
    js.listen("d")
    messages = js.heard("d", 3)
    js.say(messages[0])
    js.heard("d")
    js = life.restart()
    js.look()
    js.listen("d")
    js.say(messages[1])
    js.heard("d")
    js.look()


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
def test_what_was_done_stays_done(life: Life, retention: str) -> None:
    js = life.js
    js.stream(retention=retention)
    js.consumer(ack_policy="explicit", ack_wait=LONG)
    js.publish(*"abcd")
    messages = js.pull(3)
    js.say(messages[0])
    js.say(messages[2])
    js.stored()
    js = life.restart()
    js.stored()
    js.look()
    js.say(messages[1])
    js.stored()
    js.drain()


def test_filters_and_updates_survive(life: Life) -> None:
    js = life.js
    prepared(js, filter_subjects=["s.a", "s.c", "s.e"])
    js.say(js.pull(1)[0])
    js.consumer(ack_policy="explicit", ack_wait=LONG, filter_subject="s.e")
    js = life.restart()
    js.look()
    js.drain()
    js.look()


def test_a_reset_survives(life: Life) -> None:
    js = life.js
    prepared(js)
    js.say(js.pull(3)[1])
    js.api("CONSUMER.RESET.S.c", {"seq": 2})
    js.pull(1)
    js = life.restart()
    js.look()
    js.pull(1)


def test_the_last_of_each_subject_is_delivered_once(life: Life) -> None:
    js = life.js
    js.stream()
    js.publish(*"abcab")
    js.consumer(deliver_policy="last_per_subject", filter_subject="s.*", ack_policy="explicit", ack_wait=LONG)
    js.drain()
    js = life.restart()
    js.look()
    js.publish("a")
    js.pull(1)


def test_a_stream_purged_before_the_restart(life: Life) -> None:
    js = life.js
    prepared(js)
    js.pull(3)
    js.api("STREAM.PURGE.S", {"seq": 3})
    js.look()
    js = life.restart()
    js.look()
    js.pull(1)


def test_delayed_messages_come_after_the_restart(life: Life) -> None:
    js = life.js
    prepared(js)
    first = js.pull(6)[0]
    js.tell(first, f'-NAK {{"delay":{700 * MILLISECOND}}}')
    js.events()
    js = life.restart()
    js.pull(1)
    js.look()
