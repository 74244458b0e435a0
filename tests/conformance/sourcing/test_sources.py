"""Sources: messages of other streams, under sequences of the own, with a header that tells where from."""

from typing import Any

import pytest

from tests.kits.conformance.sourcing import SECOND, Scene


def origins(js: Scene, *names: str, **config: Any) -> None:
    for name in names:
        js.stream(name, subjects=[f"{name.lower()}.>"], **config)


def test_messages_tell_where_they_are_from(js: Scene) -> None:
    origins(js, "O")
    js.publish("o.1", "one")
    js.publish("o.2", "two", headers="Some: header")
    js.api("STREAM.CREATE.S", {"name": "S", "sources": [{"name": "O"}]})
    js.until("S", messages=2)
    js.publish("o.3", "three", headers="Nats-Msg-Id: 3\r\nNats-Expected-Stream: O")
    js.publish("o.3", "four", headers="Nats-Expected-Last-Sequence: 3")
    js.until("S", messages=4)
    js.contents("S")


def test_several_sources_and_subjects_of_its_own(js: Scene) -> None:
    origins(js, "O", "P")
    js.stream("S", subjects=["s.>"], sources=[{"name": "O"}, {"name": "P"}])
    js.until_active("S")
    for number, subject in enumerate(("o.1", "p.1", "s.1", "p.2", "o.2")):
        js.publish(subject, subject)
        js.until("S", messages=number + 1)
    js.contents("S")


@pytest.mark.parametrize(
    "sources",
    [
        [{"name": "O", "filter_subject": "o.1"}],
        [{"name": "O", "filter_subject": "o.*"}, {"name": "O", "filter_subject": "o.2.>"}],
        [{"name": "O", "subject_transforms": [{"src": "o.*", "dest": "s.$1.x"}]}],
        [
            {
                "name": "O",
                "subject_transforms": [{"src": "o.1", "dest": "one"}, {"src": "o.2.>", "dest": "two.>"}],
            }
        ],
        [{"name": "O", "subject_transforms": [{"src": "o.1", "dest": ""}]}],
    ],
)
def test_filters_and_transforms(js: Scene, sources: list[Any]) -> None:
    origins(js, "O")
    for subject in ("o.1", "o.2.a", "o.3", "o.2.b.c"):
        js.publish(subject, subject)
    js.stream("S", sources=sources)
    few = len(sources) == 1 and len(sources[0].get("subject_transforms", [])) < 2
    wanted = 4 if len(sources) == 2 else 1 if few and sources[0] != 0 else 3
    if sources[0].get("subject_transforms", [{}])[0].get("src") == "o.*":
        wanted = 2
    js.until("S", messages=wanted)
    state = js.ask("STREAM.INFO.S", {"subjects_filter": ">"})["state"]
    js.note(f"{sorted(state['subjects'].items())}")
    if len(sources) == 1:
        js.contents("S")


def test_overlapping_filters_bring_a_message_more_than_once(js: Scene) -> None:
    origins(js, "O")
    js.publish("o.1", "one")
    js.stream("S", sources=[{"name": "O"}, {"name": "O", "filter_subject": "o.1"}])
    js.until("S", messages=2)


@pytest.mark.parametrize("start", [{"opt_start_seq": 3}, {"opt_start_time": "2100-01-01T00:00:00Z"}])
def test_a_start_of_its_own(js: Scene, start: dict[str, Any]) -> None:
    origins(js, "O")
    js.publish("o.1", "one", "two", "three", "four")
    js.stream("S", sources=[{"name": "O", **start}])
    js.until_active("S")
    js.publish("o.1", "five")
    js.until("S", messages=3 if "opt_start_seq" in start else 1)
    js.contents("S")


def test_what_is_here_already_is_not_stored_again(js: Scene) -> None:
    origins(js, "O", "P")
    js.publish("o.1", "one", headers="Nats-Msg-Id: a")
    js.publish("o.1", "two", headers="Nats-Msg-Id: b")
    js.publish("p.1", "three", headers="Nats-Msg-Id: a")
    js.publish("p.1", "four", headers="Nats-Msg-Id: c")
    js.stream("S", subjects=["s"], sources=[{"name": "O"}], duplicate_window=100 * SECOND)
    js.until("S", messages=2)
    js.change("S", sources=[{"name": "O"}, {"name": "P"}])
    js.until("S", messages=3)
    js.publish("s", "own", headers="Nats-Msg-Id: b")
    js.contents("S")


def test_a_source_header_is_replaced_on_the_next_stage(js: Scene) -> None:
    origins(js, "O")
    js.stream("S", sources=[{"name": "O"}])
    js.stream("T", sources=[{"name": "S"}])
    js.publish("o.1", "one")
    js.until("T", messages=1)
    js.contents("T")
    js.publish("o.1", "two", headers="Nats-Stream-Source: O 1")


def test_sources_are_added_and_removed(js: Scene) -> None:
    origins(js, "O", "P")
    js.publish("o.1", "one")
    js.publish("p.1", "two")
    js.stream("S", sources=[{"name": "O"}])
    js.until("S", messages=1)
    js.change("S", sources=[{"name": "O"}, {"name": "P"}])
    js.until("S", messages=2)
    js.change("S", sources=[{"name": "P"}])
    js.publish("o.1", "three")
    js.publish("p.1", "four")
    js.until("S", messages=3)
    js.change("S", sources=[{"name": "P"}, {"name": "O"}])
    js.until("S", messages=4)
    js.contents("S")
    js.change("S", sources=None, subjects=["s"])
    js.look("S")


def test_limits_of_the_stream(js: Scene) -> None:
    origins(js, "O")
    js.publish("o.1", "one", "two", "three")
    js.stream("S", sources=[{"name": "O"}], max_msgs=2)
    js.stream("T", sources=[{"name": "O"}], max_msgs_per_subject=1)
    js.until("S", last_seq=3)
    js.until("T", last_seq=3)
    js.contents("S")


def test_a_full_stream_that_discards_new_messages_takes_them_when_there_is_room(js: Scene) -> None:
    origins(js, "O")
    js.publish("o.1", "one", "two", "three")
    js.stream("S", sources=[{"name": "O"}], max_msgs=2, discard="new", retention="workqueue")
    js.until("S", last_seq=2)
    js.ask("STREAM.MSG.DELETE.S", {"seq": 1})
    js.until("S", patience_s=20, last_seq=3)
    js.contents("S")


def test_transforms_of_the_stream_come_last(js: Scene) -> None:
    origins(js, "O")
    js.publish("o.1", "one")
    js.stream(
        "S",
        sources=[{"name": "O", "subject_transforms": [{"src": "o.>", "dest": "s.>"}]}],
        subject_transform={"src": "s.>", "dest": "t.>"},
        republish={"src": ">", "dest": "again.>"},
    )
    js.until("S", messages=1)
    js.contents("S")


def test_counters(js: Scene) -> None:
    origins(js, "O", "P", allow_msg_counter=True)
    js.publish("o.1", "", "", headers="Nats-Incr: 5")
    js.publish("p.1", headers="Nats-Incr: -3")
    transforms = [[{"src": f"{name}.>", "dest": "sum.>"}] for name in "op"]
    js.stream(
        "S",
        subjects=["sum.>"],
        allow_msg_counter=True,
        sources=[{"name": "O", "subject_transforms": transforms[0]}],
    )
    js.until("S", messages=2)
    js.change(
        "S",
        sources=[
            {"name": "O", "subject_transforms": transforms[0]},
            {"name": "P", "subject_transforms": transforms[1]},
        ],
    )
    js.until("S", messages=3)
    js.publish("sum.1", headers="Nats-Incr: 100")
    js.publish("p.1", headers="Nats-Incr: +10")
    js.until("S", messages=5)
    js.contents("S")


def test_counters_in_a_stream_that_does_not_count(js: Scene) -> None:
    origins(js, "O", allow_msg_counter=True)
    js.publish("o.1", "", "", headers="Nats-Incr: 5")
    js.stream("S", sources=[{"name": "O"}])
    js.until("S", messages=2)
    js.contents("S")


def test_rollups_and_times_to_live(js: Scene) -> None:
    origins(js, "O", allow_rollup_hdrs=True, allow_msg_ttl=True)
    js.publish("o.1", "one", "two")
    js.stream("S", sources=[{"name": "O"}])
    js.stream("T", sources=[{"name": "O"}], allow_rollup_hdrs=True, allow_msg_ttl=True)
    js.until("S", messages=2)
    js.until("T", messages=2)
    js.publish("o.1", "all", headers="Nats-Rollup: sub")
    js.publish("o.2", "short", headers="Nats-TTL: 1s")
    js.until("S", last_seq=4)
    js.until("T", last_seq=4, messages=1)
    js.contents("S")
    js.contents("T")


@pytest.mark.parametrize("retention", ["interest", "workqueue"])
def test_origins_that_keep_what_nobody_had_yet(js: Scene, retention: str) -> None:
    js.stream("O", subjects=["o.>"], retention=retention)
    js.publish("o.1", "before")
    js.stream("S", sources=[{"name": "O"}])
    js.until_active("S")
    js.publish("o.1", "one", "two")
    js.until("S", last_seq=3 if retention == "workqueue" else 2)
    js.until("O", messages=0)
    names = js.ask("CONSUMER.LIST.O")["consumers"]
    js.note(f"consumers of the origin: {[each['config'] for each in names]}")
    js.change("S", sources=None, subjects=["s"])
    js.wait(lambda: not js.ask("CONSUMER.NAMES.O")["consumers"], "the consumer to go")
    js.publish("o.1", "three")
    js.look("O")


@pytest.mark.parametrize("retention", ["interest", "workqueue"])
def test_a_mirror_takes_what_its_origin_lets_go(js: Scene, retention: str) -> None:
    js.stream("O", subjects=["o.>"], retention=retention)
    js.publish("o.1", "before")
    js.stream("M", mirror={"name": "O"})
    js.until_active("M")
    js.publish("o.1", "one", "two")
    js.until("M", last_seq=3)
    js.until("O", messages=0)
    js.contents("M")


def test_an_origin_that_is_not_there_is_an_error_in_the_info(js: Scene) -> None:
    js.stream("S", sources=[{"name": "O"}])
    js.stream("M", mirror={"name": "O"})
    js.until_error("S")
    js.until_error("M")
    js.look("S")
    js.look("M")


def test_an_origin_that_comes_later(js: Scene) -> None:
    js.stream("S", sources=[{"name": "O"}])
    js.stream("M", mirror={"name": "O"})
    js.until_error("S")
    js.until_error("M")
    origins(js, "O")
    js.publish("o.1", "one")
    js.until("S", patience_s=40, messages=1)
    js.until("M", patience_s=40, messages=1)
    js.contents("S")


def test_an_origin_that_is_made_anew_is_read_from_its_beginning(js: Scene) -> None:
    origins(js, "O")
    js.publish("o.1", "one", "two")
    js.stream("S", sources=[{"name": "O"}])
    js.until("S", messages=2)
    js.ask("STREAM.DELETE.O")
    js.ask("STREAM.CREATE.O", {"name": "O", "subjects": ["o.>"], "storage": "memory"})
    js.publish("o.1", "anew")
    js.until("S", patience_s=60, messages=3)
    js.contents("S")


def test_cycles_are_refused(js: Scene) -> None:
    js.stream("A", subjects=["a"])
    js.stream("B", subjects=["b"], sources=[{"name": "A"}])
    js.change("A", sources=[{"name": "B"}])
    js.api("STREAM.CREATE.C", {"name": "C", "sources": [{"name": "C"}]})
    js.api("STREAM.CREATE.C", {"name": "C", "mirror": {"name": "C"}})


_GIVEN = {
    "durable_name": "given",
    "deliver_subject": "here",
    "ack_policy": "flow_control",
    "flow_control": True,
    "idle_heartbeat": SECOND,
    "max_ack_pending": 100,
}


@pytest.mark.parametrize("how", ["mirror", "sources"])
def test_a_consumer_that_was_made_before(js: Scene, how: str) -> None:
    origins(js, "O")
    js.publish("o.1", "one", "two")
    js.ask("CONSUMER.CREATE.O.given", {"stream_name": "O", "config": _GIVEN})
    origin: Any = {"name": "O", "consumer": {"name": "given", "deliver_subject": "here"}}
    js.stream("S", **{how: origin if how == "mirror" else [origin]})
    js.until("S", messages=2)
    js.publish("o.1", "three")
    js.until("S", messages=3)
    js.contents("S")
    js.wait(lambda: js.ask("CONSUMER.INFO.O.given")["ack_floor"]["stream_seq"] == 3, "acks")
    info = js.ask("CONSUMER.INFO.O.given")
    js.note(
        f"{info['delivered']['consumer_seq']} {info['delivered']['stream_seq']} {info['num_ack_pending']}"
    )


@pytest.mark.parametrize("how", ["mirror", "sources"])
def test_a_consumer_that_does_not_know_what_is_stored(js: Scene, how: str) -> None:
    origins(js, "O")
    config = {"durable_name": "given", "deliver_subject": "here", "ack_policy": "explicit"}
    js.ask("CONSUMER.CREATE.O.given", {"stream_name": "O", "config": config})
    origin: Any = {"name": "O", "consumer": {"name": "given", "deliver_subject": "here"}}
    js.stream("S", **{how: origin if how == "mirror" else [origin]})
    js.until_error("S")
    js.look("S")
