"""Mirrors: the same messages under the same sequences, and what a mirror is beside that."""

from typing import Any

import pytest

from tests.kits.conformance.clients import header_block
from tests.kits.conformance.sourcing import SECOND, Scene


def origin(js: Scene, **config: Any) -> None:
    js.stream("O", subjects=["o.>"], **config)


def test_sequences_times_subjects_and_headers_are_those_of_the_origin(js: Scene) -> None:
    origin(js)
    js.publish("o.1", "one")
    js.publish("o.2", "two", headers="Some: header")
    js.publish("o.1", "three", "four")
    js.publish(
        "o.2", "five", headers="Nats-Msg-Id: 5\r\nNats-Expected-Stream: O\r\nNats-Expected-Last-Sequence: 4"
    )
    js.publish("o.3", "six", headers="Nats-Expected-Last-Sequence: 5")
    js.ask("STREAM.MSG.DELETE.O", {"seq": 3})
    js.api("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "O"}})
    js.until("M", last_seq=6)
    js.contents("M", like="O")
    js.publish("o.4", "seven")
    js.until("M", last_seq=7)
    js.ask("STREAM.MSG.DELETE.O", {"seq": 7})
    js.publish("o.4", "eight")
    js.until("M", last_seq=8)
    js.contents("M", like="O")


def test_a_mirror_in_memory(js: Scene) -> None:
    origin(js)
    js.publish("o.1", "one", "two")
    js.stream("M", storage="memory", mirror={"name": "O"})
    js.until("M", last_seq=2)


def test_an_origin_that_begins_late(js: Scene) -> None:
    origin(js)
    js.publish("o.1", "one", "two", "three")
    js.ask("STREAM.PURGE.O")
    js.stream("M", mirror={"name": "O"})
    js.until_active("M")
    js.until("M", last_seq=3)
    js.publish("o.1", "four")
    js.until("M", last_seq=4)
    js.contents("M", like="O")


def test_gaps_in_the_origin_are_gaps_in_the_mirror(js: Scene) -> None:
    origin(js, max_msgs_per_subject=1)
    for number in range(6):
        js.publish(f"o.{number % 2}", str(number))
    js.stream("M", mirror={"name": "O"})
    js.until("M", last_seq=6)
    js.publish("o.0", "again")
    js.publish("o.1", "again")
    js.until("M", last_seq=8)
    js.contents("M", like="O")


@pytest.mark.parametrize(
    "start", [{"opt_start_seq": 3}, {"opt_start_seq": 9}, {"opt_start_time": "2100-01-01T00:00:00Z"}]
)
def test_a_start_of_its_own(js: Scene, start: dict[str, Any]) -> None:
    origin(js)
    js.publish("o.1", "one", "two", "three", "four")
    js.stream("M", mirror={"name": "O", **start})
    js.until_active("M")
    if start == {"opt_start_seq": 3}:
        js.until("M", last_seq=4)
    js.publish("o.1", *(str(number) for number in range(5, 12)))
    js.until("M", last_seq=11)
    js.contents("M", like="O")


def test_a_filter(js: Scene) -> None:
    origin(js)
    for number in range(6):
        js.publish(f"o.{number % 3}", str(number))
    js.stream("M", mirror={"name": "O", "filter_subject": "o.1"})
    js.until("M", last_seq=5)
    js.publish("o.2", "not wanted")
    js.publish("o.1", "wanted")
    js.until("M", last_seq=8)
    js.contents("M", like="O")


@pytest.mark.parametrize(
    "transforms",
    [
        [{"src": "o.*", "dest": "m.$1.x"}],
        [{"src": "o.1", "dest": "one"}, {"src": "o.2.>", "dest": "two.>"}],
        [{"src": "o.1", "dest": ""}],
    ],
)
def test_transforms_choose_and_rename(js: Scene, transforms: list[Any]) -> None:
    origin(js)
    for subject in ("o.1", "o.2.a.b", "o.3"):
        js.publish(subject, subject)
    js.stream("M", mirror={"name": "O", "subject_transforms": transforms})
    js.until("M", last_seq=2 if len(transforms) == 2 else 3 if transforms[0]["dest"] else 1)
    js.contents("M", like="O")


def test_a_stream_transform_renames_what_is_mirrored(js: Scene) -> None:
    origin(js)
    js.publish("o.1", "one")
    js.stream("M", mirror={"name": "O"}, subject_transform={"src": "o.>", "dest": "m.>"})
    js.until("M", last_seq=1)
    js.contents("M", like="O")


@pytest.mark.parametrize(
    "limits", [{"max_msgs": 2}, {"max_bytes": 70}, {"max_msgs_per_subject": 1}, {"max_age": 3600 * SECOND}]
)
def test_limits_of_its_own(js: Scene, limits: dict[str, Any]) -> None:
    origin(js)
    for number in range(6):
        js.publish(f"o.{number % 3}", str(number))
    js.stream("M", mirror={"name": "O"}, **limits)
    js.until("M", last_seq=6)
    js.contents("M", like="O")


def test_messages_too_old_for_the_mirror_go(js: Scene) -> None:
    origin(js)
    js.publish("o.1", "one", "two")
    js.stream("M", mirror={"name": "O"}, max_age=SECOND)
    js.until("M", last_seq=2, messages=0)


@pytest.mark.parametrize("retention", ["limits", "interest", "workqueue"])
def test_retention_of_the_mirror(js: Scene, retention: str) -> None:
    origin(js)
    js.publish("o.1", "one", "two")
    js.stream("M", mirror={"name": "O"}, retention=retention)
    js.until("M", last_seq=2)
    js.ask(
        "CONSUMER.CREATE.M.c", {"stream_name": "M", "config": {"durable_name": "c", "ack_policy": "explicit"}}
    )
    js.publish("o.1", "three")
    js.until("M", last_seq=3)


def test_nobody_publishes_to_a_mirror(js: Scene) -> None:
    origin(js)
    js.stream("M", mirror={"name": "O"})
    js.nobody_takes("M")
    js.publish("o.1", "one", headers="Nats-Expected-Stream: M")
    js.publish("o.1", "one")
    js.until("M", last_seq=1)


def test_purging_the_origin_leaves_the_mirror(js: Scene) -> None:
    origin(js)
    js.publish("o.1", "one", "two", "three")
    js.stream("M", mirror={"name": "O"})
    js.until("M", last_seq=3)
    js.ask("STREAM.PURGE.O")
    js.publish("o.1", "four")
    js.until("M", last_seq=4)
    js.contents("M")


def test_purging_and_deleting_in_the_mirror(js: Scene) -> None:
    origin(js)
    js.publish("o.1", "one", "two", "three")
    js.stream("M", mirror={"name": "O"})
    js.until("M", last_seq=3)
    js.api("STREAM.MSG.DELETE.M", {"seq": 2})
    js.publish("o.1", "four")
    js.until("M", last_seq=4)
    js.api("STREAM.PURGE.M")
    js.look("M")
    js.publish("o.1", "five")
    js.until("M", last_seq=5)
    js.look("O")


def test_a_mirror_of_a_mirror(js: Scene) -> None:
    origin(js)
    js.publish("o.1", "one", "two")
    js.ask("STREAM.MSG.DELETE.O", {"seq": 1})
    js.stream("M", mirror={"name": "O"})
    js.stream("N", mirror={"name": "M"})
    js.until("N", last_seq=2)
    js.publish("o.1", "three")
    js.until("N", last_seq=3)
    js.contents("N", like="O")


def test_consumers_on_a_mirror(js: Scene) -> None:
    origin(js)
    js.publish("o.1", "one")
    js.stream("M", mirror={"name": "O"})
    js.until("M", last_seq=1)
    js.ask(
        "CONSUMER.CREATE.M.c", {"stream_name": "M", "config": {"durable_name": "c", "ack_policy": "explicit"}}
    )
    js.publish("o.2", "two")
    js.until("M", last_seq=2)
    js.pull("M", 2)
    count = js.ask("STREAM.INFO.O")["state"]["consumer_count"]
    js.note(f"consumers of the origin: {count} {js.ask('CONSUMER.NAMES.O')['consumers']}")


@pytest.mark.parametrize("allowed", [True, False])
def test_direct_get_from_the_mirror(js: Scene, allowed: bool) -> None:
    origin(js, allow_direct=allowed)
    js.publish("o.1", "one", "two")
    js.stream("M", mirror={"name": "O"}, allow_direct=True)
    js.until("M", last_seq=2)
    for body in ({"seq": 1}, {"last_by_subj": "o.1"}):
        js.note(
            f"{js.request('$JS.API.DIRECT.GET.M', str(body).replace(chr(39), chr(34)).encode())}".split(
                " ", 1
            )[1]
        )
    if not allowed:
        js.nobody_takes("$JS.API.DIRECT.GET.O")
        return
    names = set()

    def both() -> bool:
        heard = js.request("$JS.API.DIRECT.GET.O", b'{"seq":1}')
        names.add(heard.block.decode().split("Nats-Stream: ")[1].split("\r\n")[0])
        return names == {"O", "M"}

    js.wait(both, "both to answer")
    js.note(f"answers from {sorted(names)}")
    js.ask("STREAM.DELETE.O")
    js.note(f"{js.request('$JS.API.DIRECT.GET.O.o.1')}".split(" ", 1)[1])


def test_a_mirror_is_promoted(js: Scene) -> None:
    origin(js)
    js.publish("o.1", "one", "two")
    js.stream("M", mirror={"name": "O"})
    js.until("M", last_seq=2)
    js.change("M", mirror=None, mirror_direct=None, subjects=["m.>"])
    js.publish("o.1", "three")
    js.publish("m.1", "own")
    js.look("M")
    js.contents("M")


def test_what_can_not_be_changed(js: Scene) -> None:
    origin(js)
    js.stream("M", mirror={"name": "O"})
    js.until_active("M")
    js.change("M", mirror={"name": "P"})
    js.change("M", subjects=["m"])
    js.change("O", mirror={"name": "M"}, subjects=None)
    js.change("M", max_msgs=5)


def test_rollups_and_times_to_live(js: Scene) -> None:
    origin(js, allow_rollup_hdrs=True, allow_msg_ttl=True)
    js.publish("o.1", "one", "two")
    js.stream("M", mirror={"name": "O"})
    js.stream("N", mirror={"name": "O"}, allow_rollup_hdrs=True, allow_msg_ttl=True)
    js.until("M", last_seq=2)
    js.until("N", last_seq=2)
    js.publish("o.1", "all", headers="Nats-Rollup: sub")
    js.publish("o.2", "short", headers="Nats-TTL: 2s")
    js.until("M", last_seq=4)
    js.until("N", last_seq=4, messages=1)
    js.contents("M")
    js.contents("N")


def test_a_mirror_republishes(js: Scene) -> None:
    origin(js)
    heard = js.listen("again.>")
    js.stream("M", mirror={"name": "O"}, republish={"src": "o.>", "dest": "again.>"})
    js.publish("o.1", "one")
    js.until("M", last_seq=1)
    js.sync()
    js.note(f"heard {heard.popleft()}")


def test_counters_and_batches_are_mirrored_as_they_are(js: Scene) -> None:
    origin(js, allow_msg_counter=True)
    js.stream("B", subjects=["b"], allow_atomic=True)
    js.publish("o.1", "", "", headers="Nats-Incr: 5")
    batch = {"Nats-Batch-Id": "x", "Nats-Batch-Sequence": "1"}
    js.request("b", b"first", header_block(batch))
    batch |= {"Nats-Batch-Sequence": "2", "Nats-Batch-Commit": "1"}
    js.request("b", b"second", header_block(batch))
    js.stream("M", mirror={"name": "O"})
    js.stream("N", mirror={"name": "B"})
    js.until("M", last_seq=2)
    js.until("N", last_seq=2)
    js.contents("M", like="O")
    js.contents("N", like="B")
