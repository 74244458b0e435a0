"""Streams that read streams: retries, gaps, silence, flow control, changes, and restarts."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from millstream.protocol import headers
from millstream.protocol.parser import Frame
from millstream.store.fs import MemoryFileSystem
from tests.kits.jetstream.inflow import Place

HOWS = ["mirror", "sources"]


def reading(how: str, name: str = "O", **more: Any) -> dict[str, Any]:
    return {"mirror": {"name": name, **more}} if how == "mirror" else {"sources": [{"name": name, **more}]}


@pytest.fixture
def place() -> Place:
    place = Place()
    place.stream("O", subjects=["o.>"])
    return place


@pytest.mark.parametrize("how", HOWS)
class TestBoth:
    def test_messages_come(self, place: Place, how: str) -> None:
        place.publish("o.1", "one", "two")
        place.stream("S", **reading(how))
        place.run()
        place.publish("o.1", "three")
        assert place.payloads("S") == {1: "one", 2: "two", 3: "three"}

    def test_a_missing_origin_is_asked_for_less_and_less_often(self, place: Place, how: str) -> None:
        place.stream("S", **reading(how, "X"))
        place.run(100)
        times = [at for at, _ in place.world.requests]
        gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
        assert 0.1 <= times[0] <= 0.2
        assert [round(gap - 0.15) for gap in gaps] == [12, 22, 32]

    def test_an_origin_that_appears_is_asked_at_once(self, place: Place, how: str) -> None:
        place.stream("S", **reading(how, "X"))
        place.run(60)
        place.stream("X", subjects=["x"])
        place.publish("x", "one")
        place.run(2.3)
        assert place.payloads("S") == {1: "one"}

    def test_a_lost_delivery_is_asked_for_again(self, place: Place, how: str) -> None:
        place.stream("S", **reading(how))
        place.run()
        place.publish("o.1", "one")
        place.world.cut = lambda subject, frame: frame.payload() == b"two"
        place.publish("o.1", "two", "three")
        place.world.cut = None
        place.publish("o.1", "four")
        assert place.payloads("S") == {1: "one"}
        place.run(2.5)
        assert place.payloads("S") == {1: "one", 2: "two", 3: "three", 4: "four"}

    def test_a_heartbeat_tells_that_the_last_delivery_was_lost(self, place: Place, how: str) -> None:
        place.stream("S", **reading(how))
        place.run()
        place.world.cut = lambda subject, frame: frame.payload() == b"one"
        place.publish("o.1", "one")
        place.world.cut = None
        place.run(4)
        assert place.payloads("S") == {1: "one"}

    def test_silence_is_broken_by_another_request(self, place: Place, how: str) -> None:
        place.stream("S", **reading(how))
        place.run()
        for consumer in list(place.account.streams["O"].consumers.values()):
            consumer.delete()
        place.publish("o.1", "one")
        place.run(9)
        assert len(place.world.requests) == 1
        place.run(5)
        assert place.payloads("S") == {1: "one"}

    def test_an_answer_that_does_not_come_is_not_waited_for_for_ever(self, place: Place, how: str) -> None:
        place.world.lost = [b"$JSC."]
        place.stream("S", **reading(how))
        place.run(31)
        assert len(place.world.requests) == 1
        place.world.lost = []
        place.publish("o.1", "one")
        place.run(12)
        assert place.payloads("S") == {1: "one"}

    def test_flow_control_is_answered_when_what_came_is_durable(self, place: Place, how: str) -> None:
        place.stream("S", **reading(how))
        place.run()
        stream = place.account.streams["S"]
        place.publish("o.1", "one")
        (consumer,) = place.account.streams["O"].consumers.values()
        more = b"$JS.FC.O.%b.more" % consumer.name.encode()
        block = b"NATS/1.0 100 FlowControl Request\r\n\r\n"
        place.world.send(b"o.1", b"two")
        place.world.send(consumer.config.deliver_subject.encode(), reply=more, headers=block)
        answers = [each for each in place.world.published if each.subject == more]
        assert answers == []
        place.world.settle()
        (answer,) = [each for each in place.world.published if each.subject == more]
        assert headers.find(answer.headers, b"Nats-Last-Stream") == b"1"
        assert stream.log.committed == 2

    @pytest.mark.parametrize(
        "where",
        [
            b"$JS.API.STREAM.DELETE.S",
            b"anywhere",
            b"$JS.FC.OTHER.c.x",
            b"$JS.FC.O.other.x",
            b"$JS.FC.O.%b.\n.x",
            b"x.$JS.FC.O.%b.x",
        ],
    )
    def test_an_origin_does_not_say_where_else_to_publish(self, place: Place, how: str, where: bytes) -> None:
        place.stream("S", **reading(how))
        place.run()
        (consumer,) = place.account.streams["O"].consumers.values()
        where = where.replace(b"%b", consumer.name.encode())
        deliver = consumer.config.deliver_subject.encode()
        before = len(place.world.published)
        for block in (
            b"NATS/1.0 100 FlowControl Request\r\n\r\n",
            b"NATS/1.0 100 Idle Heartbeat\r\nNats-Consumer-Stalled: %b\r\n\r\n" % where,
        ):
            place.world.send(deliver, reply=where if b"Flow" in block else b"", headers=block)
        place.world.settle()
        assert [each.subject for each in place.world.published[before:] if each.subject == where] == []
        assert "S" in place.account.streams

    def test_a_server_that_is_older_is_asked_in_its_own_words(self, place: Place, how: str) -> None:
        refusal = b'{"error":{"code":400,"err_code":10025,"description":"invalid JSON"}}'

        def old_server(request: Any) -> None:
            if b".CONSUMER.CREATE." not in request.subject:
                return
            if b'"sourcing"' in request.payload:
                place.world.publish(request.reply, refusal)

        place.world._services.insert(0, (b"$JS.API.>", old_server))
        place.stream("S", **reading(how))
        place.run()
        place.publish("o.1", "one")
        bodies = [json.loads(request.payload)["config"] for _, request in place.world.requests]
        assert [body.get("sourcing", False) for body in bodies] == (
            [True, False] if how == "mirror" else [True, True, False]
        )
        assert place.payloads("S") == {1: "one"}

    def test_nothing_is_asked_after_the_stream_is_gone(self, place: Place, how: str) -> None:
        place.stream("S", **reading(how, "X"))
        place.run(1)
        place.ask("STREAM.DELETE.S")
        place.run(100)
        assert len(place.world.requests) == 1

    def test_the_own_domain_is_no_detour(self, how: str) -> None:
        place = Place(domain="hub")
        place.stream("O", subjects=["o.>"])
        place.publish("o.1", "one")
        place.stream("S", **reading(how, external={"api": "$JS.hub.API"}))
        place.run()
        assert place.payloads("S") == {1: "one"}

    def test_a_message_that_is_refused_is_taken_when_there_is_room(self, place: Place, how: str) -> None:
        place.publish("o.1", "one", "two", "three")
        place.stream("S", max_msgs=2, discard="new", **reading(how))
        place.run()
        assert place.payloads("S") == {1: "one", 2: "two"}
        place.run(10)
        place.ask("STREAM.PURGE.S")
        place.run(10)
        assert place.payloads("S") == {3: "three"}

    def test_a_restart_goes_on_where_it_was(self, how: str) -> None:
        files = MemoryFileSystem()
        before = Place(files)
        before.stream("O", subjects=["o.>"])
        before.publish("o.1", "one", "two")
        before.stream("S", **reading(how))
        before.run()
        before.account.stop()
        place = Place(files)
        place.publish("o.1", "three")
        place.run()
        assert place.payloads("S") == {1: "one", 2: "two", 3: "three"}


def test_sources_that_stay_are_not_disturbed_by_a_change(place: Place) -> None:
    place.stream("P", subjects=["p"])
    place.stream("S", **reading("sources"))
    place.run()
    place.change("S", sources=[{"name": "P"}, {"name": "O"}])
    place.run(3)
    asked = [json.loads(request.payload)["stream_name"] for _, request in place.world.requests]
    assert asked == ["O", "P"]
    assert [each["name"] for each in place.info("S")["sources"]] == ["P", "O"]


def test_a_source_that_is_removed_gives_its_consumer_back(place: Place) -> None:
    place.stream("W", subjects=["w"], retention="workqueue")
    place.stream("S", **reading("sources", "W"))
    place.run()
    assert place.ask("CONSUMER.NAMES.W")["total"] == 1
    place.change("S", sources=None, subjects=["s"])
    place.run()
    assert place.ask("CONSUMER.NAMES.W")["total"] == 0
    assert "sources" not in place.info("S")


def test_a_work_queue_forgets_only_what_is_stored_elsewhere(place: Place) -> None:
    place.stream("W", subjects=["w"], retention="workqueue")
    place.stream("S", **reading("sources", "W"))
    place.run()
    place.publish("w", "one", "two")
    assert place.payloads("S") == {1: "one", 2: "two"}
    assert place.payloads("W") == {1: "one", 2: "two"}
    place.run(3)
    assert place.payloads("W") == {}


def test_a_mirror_answers_for_its_origin_once_it_has_caught_up() -> None:
    place = Place()
    place.stream("O", subjects=["o.>"], allow_direct=True)
    place.publish("o.1", *("x" * 30))
    served: list[list[bytes]] = []

    def note(subject: bytes, frame: Frame) -> bool:
        served.append([pattern for pattern, _ in place.world._services if b"DIRECT.GET.O" in pattern])
        return False

    place.world.cut = note
    place.stream("M", **reading("mirror"))
    place.run()
    assert served[0] == [b"$JS.API.DIRECT.GET.O", b"$JS.API.DIRECT.GET.O.>"]
    assert len([pattern for pattern, _ in place.world._services if b"DIRECT.GET.O" in pattern]) == 4


def test_a_promoted_mirror_takes_nothing_more_from_its_origin(place: Place) -> None:
    place.publish("o.1", "one")
    place.stream("M", **reading("mirror"))
    place.run()
    place.change("M", mirror=None, subjects=["m"])
    place.publish("o.1", "two")
    place.publish("m", "own")
    place.run(20)
    assert place.payloads("M") == {1: "one", 2: "own"}
    assert "mirror" not in place.info("M")


def test_a_promoted_mirror_uses_no_sequence_that_it_has_not_got_again(place: Place) -> None:
    place.publish("o.1", "one")
    place.stream("M", **reading("mirror"))
    place.run()
    place.account.streams["M"].log.losses.reach = 5  # as after a damaged end
    place.change("M", mirror=None, subjects=["m"])
    place.publish("m", "own")
    place.run(1)
    assert place.payloads("M") == {1: "one", 6: "own"}


def test_a_source_begins_anew_with_an_origin_that_was_made_anew(place: Place) -> None:
    place.publish("o.1", "one", "two")
    place.stream("S", **reading("sources"))
    place.run()
    place.ask("STREAM.DELETE.O")
    place.run(1)
    place.stream("O", subjects=["o.>"])
    place.publish("o.1", "anew")
    place.run(40)
    assert place.payloads("S") == {1: "one", 2: "two", 3: "anew"}


def test_positions_survive_what_they_were_read_from() -> None:
    files = MemoryFileSystem()
    before = Place(files)
    before.stream("O", subjects=["o.>"])
    before.publish("o.1", "one", "two")
    before.stream("S", **reading("sources"))
    before.run()
    before.ask("STREAM.PURGE.S")
    place = Place(files)  # the other one was killed
    place.publish("o.1", "three")
    place.run()
    assert place.payloads("S") == {3: "three"}
