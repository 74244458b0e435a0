"""A restore on its way in: chunks, answers, and a whole stream or nothing at the end."""

import json
from typing import Any

import pytest

from millstream.jetstream.options import AccountJetStreamOptions
from tests.kits.fake_world import FakeWorld
from tests.kits.jetstream.archive import (
    END,
    TIME,
    Entry,
    archive,
    block_record,
    consumer,
    join,
    message,
    old_consumer,
    old_files,
    pack,
    state,
    tar_of,
)
from tests.kits.jetstream.stream import SECOND, Disk, Site, parts

TWO = (state(messages=2, bytes=64, first_seq=1, last_seq=2), message(1, b"one"), message(2, b"two"))
ERASED = 1 << 63
TOMBSTONE = 1 << 62


def begin(site: Site, name: str = "S", **config: Any) -> bytes:
    """Begin a restore and return the subject for its chunks."""
    body = {"config": {"name": name, "subjects": ["a.>"], **config}, "state": {}}
    answer = site.ask(f"STREAM.RESTORE.{name}", body)
    assert "error" not in answer, answer
    return str(answer["deliver_subject"]).encode()


def send(site: Site, subject: bytes, data: bytes, chunk: int = 1000) -> None:
    for at in range(0, len(data), chunk):
        assert site.world.request(subject, data[at : at + chunk]) == b""


def restore(site: Site, data: bytes, name: str = "S", chunk: int = 1000, **config: Any) -> dict[str, Any]:
    subject = begin(site, name, **config)
    send(site, subject, data, chunk)
    return json.loads(site.world.request(subject))  # type: ignore[no-any-return]


def refused(site: Site, data: bytes, **config: Any) -> tuple[int, int, str]:
    """Status, number and text; and nothing may be left of it."""
    answer = restore(site, data, **config)
    assert answer["type"] == "io.nats.jetstream.api.v1.stream_create_response"
    assert site.ask("STREAM.NAMES")["total"] == 0
    assert site.disk.list("store/staging") == []
    assert site.disk.list("store/streams") == []
    return parts(answer["error"])


def bodies(site: Site, name: str = "S") -> dict[int, bytes]:
    log = site.account.streams[name].log
    found = {}
    for seq in log.sequences(1, log.last_seq):
        found[seq] = site.ask(f"STREAM.MSG.GET.{name}", {"seq": seq})["message"].get("data", "")
    return found


def test_a_restored_stream_is_told_about_and_works() -> None:
    site = Site()
    answer = restore(site, archive(*TWO))
    assert answer["state"] == {
        "messages": 2,
        "bytes": 68,
        "first_seq": 1,
        "first_ts": "2023-11-14T22:13:20.000000001Z",
        "last_seq": 2,
        "last_ts": "2023-11-14T22:13:20.000000002Z",
        "num_subjects": 1,
        "consumer_count": 0,
    }
    assert "did_create" not in answer
    assert site.publish("a.b", b"three")["seq"] == 3
    assert site.restarted().state()["messages"] == 3


@pytest.mark.parametrize("chunk", [1, 10, 10_000])
def test_chunks_may_have_any_size(chunk: int) -> None:
    assert restore(Site(), archive(*TWO), chunk=chunk)["state"]["messages"] == 2


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_gaps_and_deleted_messages_at_both_ends_are_kept(storage: str) -> None:
    site = Site()
    data = archive(state(messages=2, bytes=64, first_seq=5, last_seq=20), message(7, b"a"), message(9, b"b"))
    found = restore(site, data, storage=storage)["state"]
    assert (found["first_seq"], found["last_seq"], found["num_deleted"]) == (7, 20, 12)
    assert site.publish("a.b")["seq"] == 21


def test_an_empty_stream_goes_on_where_it_was() -> None:
    site = Site()
    restore(site, archive(state(first_seq=8, last_seq=7)))
    assert site.publish("a.b")["seq"] == 8


def test_what_lived_long_enough_is_not_brought_back() -> None:
    world = FakeWorld(TIME + 60 * SECOND)
    site = Site(world=world)
    short, longer = b"NATS/1.0\r\nNats-TTL: 5s\r\n\r\n", b"NATS/1.0\r\nNats-TTL: 300\r\n\r\n"
    data = archive(
        state(messages=3, first_seq=1, last_seq=3),
        message(1, b"x", headers=short),
        message(2, b"y", headers=longer),
        message(3, b"z", headers=short),
    )
    found = restore(site, data, allow_msg_ttl=True)["state"]
    assert (found["messages"], found["first_seq"], found["last_seq"]) == (1, 2, 3)
    world.advance(241)
    assert site.state()["messages"] == 0


def test_message_ids_are_known_again() -> None:
    site = Site(world=FakeWorld(TIME + SECOND))
    headers = b"NATS/1.0\r\nNats-Msg-Id: seen\r\n\r\n"
    restore(site, archive(state(messages=1, first_seq=1, last_seq=1), message(1, b"x", headers=headers)))
    assert site.publish("a.b", b"x", Nats_Msg_Id="seen") == {"stream": "S", "seq": 1, "duplicate": True}


def test_consumers_go_on_where_they_were() -> None:
    site = Site(world=FakeWorld(TIME + SECOND))
    where = {
        "delivered": {"consumer_seq": 5, "stream_seq": 3},
        "ack_floor": {"consumer_seq": 1, "stream_seq": 1},
        "pending": {"3": {"Sequence": 3, "Timestamp": TIME}},
        "redelivered": {"3": 2},
    }
    data = archive(
        state(messages=4, first_seq=1, last_seq=4, consumer_count=1),
        consumer("C", {"ack_policy": "explicit", "ack_wait": 30 * SECOND}, where),
        *(message(seq, b"%d" % seq) for seq in range(1, 5)),
    )
    restore(site, data)
    for again in (site, site.restarted()):
        info = again.ask("CONSUMER.INFO.S.C")
        assert info["delivered"] == {"consumer_seq": 5, "stream_seq": 3}
        assert info["ack_floor"] == {"consumer_seq": 1, "stream_seq": 1}
        assert (info["num_ack_pending"], info["num_redelivered"], info["num_pending"]) == (1, 1, 1)
    world = again.world
    world.send(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b'{"batch":5}', reply=b"me")
    world.settle()
    world.advance(29.5)
    got = [each.reply.split(b".")[4:7] for each in world.delivered if each.to == b"me"]
    assert got == [[b"1", b"4", b"6"], [b"4", b"3", b"7"]]


def test_ephemeral_consumers_come_back_and_leave() -> None:
    site = Site()
    name = Entry(b"consumers/E", body=b'{"config":{"name":"E","ack_policy":"explicit"},"state":{}}')
    restore(site, archive(state(consumer_count=1), name))
    assert site.ask("CONSUMER.NAMES.S")["consumers"] == ["E"]
    site.world.advance(30)
    assert site.ask("CONSUMER.NAMES.S")["consumers"] == []


def test_limits_of_the_new_configuration_hold() -> None:
    site = Site()
    data = archive(state(messages=5, first_seq=1, last_seq=5), *(message(seq, b"x") for seq in range(1, 6)))
    assert restore(site, data, max_msgs=2)["state"]["first_seq"] == 4


# -- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "EOF"),
        (b"no archive", "s2: corrupt input"),
        (archive(*TWO)[:-1], "s2: corrupt input"),
        (pack(join(TWO)), "EOF"),
        (pack(join(TWO)[:-8]), "archive: invalid archive stream"),
        (
            pack(join(TWO)[:-2]),
            "failed to read message sequence 2: archive: invalid archive stream",
        ),
        (archive(*TWO[1:]), "expected state.json first"),
        (archive(TWO[0], TWO[2], TWO[1]), "message sequence 1 out of order"),
        (archive(TWO[0], TWO[1], TWO[1]), "message sequence 1 out of order"),
        (archive(TWO[0], message(0, b"x")), "expected message sequence"),
        (
            archive(TWO[0], message(1, bytes(1024 * 1024 + 1))),
            "message sequence 1 exceeds maximum payload size",
        ),
        (archive(TWO[0], message(1, subject=b"a b")), "message sequence 1 has an invalid subject"),
        (archive(TWO[0], message(1, subject=b"")), "message sequence 1 has an invalid subject"),
        (archive(TWO[0], message(1, subject=b"a\r\nPING")), "message sequence 1 has an invalid subject"),
        (archive(TWO[0], Entry(b"a", 2**63, TIME)), f"message sequence {2**63} out of order"),
        (archive(state(consumer_count=1), *TWO[1:]), 'expected consumer, found "a"'),
        (
            archive(state(messages=3, first_seq=1, last_seq=2)),
            "invalid stream state: message count exceeds sequence range",
        ),
        (
            archive(state(first_seq=9, last_seq=2)),
            "invalid stream state: inconsistent message count or sequence range",
        ),
        (archive(state(consumer_count=-1)), "invalid stream state: negative consumer count"),
        (
            archive(
                state(consumer_count=1),
                consumer("C", {}, {"delivered": {}, "ack_floor": {"consumer_seq": 1}}),
            ),
            'failed to set consumer "C" state: bad ack floor for consumer',
        ),
        (
            archive(state(consumer_count=1), consumer("C", {}, {"pending": {"5": {"Sequence": 1}}})),
            'failed to set consumer "C" state: bad pending entry, sequence [5] out of range',
        ),
        (
            archive(state(consumer_count=2), consumer("C", {}, {}), consumer("C", {}, {})),
            'failed to add consumer "C": consumer name already in use',
        ),
        (
            archive(state(consumer_count=1), consumer("a.b", {}, {})),
            "failed to add consumer \"a.b\": consumer name can not contain '.', '*', '>', '\\', '/' (10052)",
        ),
    ],
)
def test_bad_archives_are_refused_whole(data: bytes, complaint: str) -> None:
    assert refused(Site(), data) == (500, 10062, f"restore failed: {complaint}")


def test_a_bit_anywhere_is_refused_or_means_nothing() -> None:
    data = bytearray(archive(*TWO))
    whole = restore(Site(), bytes(data))["state"]
    for at in range(len(data)):
        data[at] ^= 0x10
        site = Site()
        answer = restore(site, bytes(data))
        if "error" in answer:
            assert site.ask("STREAM.NAMES")["total"] == 0
            assert site.disk.list("store/staging") == []
        else:
            assert answer["state"] == whole
        data[at] ^= 0x10


def test_nobody_is_told_before_the_end_that_something_is_wrong() -> None:
    site = Site()
    subject = begin(site)
    assert site.world.request(subject, b"no archive") == b""
    assert site.world.request(subject, b"and more") == b""
    assert json.loads(site.world.request(subject))["error"]["err_code"] == 10062


def test_five_seconds_without_a_chunk_end_it_without_a_word() -> None:
    site = Site()
    subject = begin(site)
    send(site, subject, archive(*TWO)[:-10])
    site.world.advance(4.9)
    send(site, subject, archive(*TWO)[-10:-5])
    site.world.published.clear()
    site.world.advance(5.1)
    assert site.world.published == []
    assert site.disk.list("store/staging") == []
    with pytest.raises(AssertionError, match="0 answers"):
        site.world.request(subject)


def test_a_chunk_without_reply_ends_it() -> None:
    site = Site()
    site.world.heard.append(b"$JS.EVENT.ADVISORY.STREAM.RESTORE_COMPLETE.S")
    subject = begin(site)
    site.world.send(subject, b"chunk")
    site.world.settle()
    assert json.loads(site.world.published[-1].payload)["type"].endswith("restore_complete")
    assert site.disk.list("store/staging") == []


def test_a_server_that_stops_leaves_nothing_of_it() -> None:
    site = Site()
    subject = begin(site)
    send(site, subject, archive(*TWO))
    site.world.send(subject, reply=b"me")
    site.api.stop()
    site.world.settle()
    assert site.account.streams == {}
    assert site.disk.list("store/staging") == []
    assert site.sent(b"me") == []


def test_a_stream_that_was_created_meanwhile_is_left_alone() -> None:
    site = Site()
    subject = begin(site)
    send(site, subject, archive(*TWO))
    site.create("S", subjects=["b.>"])
    assert parts(json.loads(site.world.request(subject))["error"]) == (
        400,
        10130,
        "stream name already in use, cannot restore",
    )
    assert site.state()["messages"] == 0


def test_subjects_that_were_taken_meanwhile_are_a_reason_to_refuse() -> None:
    site = Site()
    subject = begin(site)
    send(site, subject, archive(*TWO))
    site.create("T", subjects=["a.b"])
    found = parts(json.loads(site.world.request(subject))["error"])
    text = "restore failed: error adding stream: subjects overlap with an existing stream (10065)"
    assert found == (500, 10062, text)
    assert site.disk.list("store/streams") == ["T"]


def test_a_stream_larger_than_the_account_is_refused_when_it_says_so() -> None:
    site = Site(options=AccountJetStreamOptions(max_store=1000))
    data = archive(state(messages=1, bytes=5000, first_seq=1, last_seq=1), message(1, b"x"))
    assert refused(site, data)[:2] == (500, 10047)


def test_a_full_disk_leaves_nothing_behind() -> None:
    disk = Disk()
    site = Site(disk=disk)
    subject = begin(site)
    disk.full = True
    send(site, subject, archive(*TWO))
    answer = json.loads(site.world.request(subject))
    disk.full = False
    assert answer["error"]["err_code"] == 10062
    assert site.ask("STREAM.NAMES")["total"] == 0
    assert restore(site, archive(*TWO))["state"]["messages"] == 2


def test_a_restore_that_did_not_end_is_gone_after_a_restart() -> None:
    site = Site()
    body = bytes(range(256)) * 2000
    entries = [message(seq, body) for seq in range(1, 12)]
    subject = begin(site)
    send(site, subject, pack(join((state(messages=11, first_seq=1, last_seq=11), *entries))), 100_000)
    assert site.disk.list("store/staging") != []
    again = site.restarted(orderly=False)
    again.world.settle()
    assert again.ask("STREAM.NAMES")["total"] == 0
    assert site.disk.list("store/staging") == []


def test_a_stream_that_could_not_be_started_is_put_aside_for_one_that_is_restored() -> None:
    site = Site()
    site.create("S", subjects=["a.>"])
    site.disk.replace("store/streams/S/meta.json", b"damaged")
    site.publish("a.b", b"what can be saved")
    again = site.restarted()
    assert list(again.account.unrecovered) == ["S"]
    restore(again, archive(*TWO))
    assert again.account.unrecovered == {}
    [aside] = again.disk.list("store/damaged")
    assert aside.startswith("S.")
    assert "log" in again.disk.list(f"store/damaged/{aside}")
    assert again.restarted().state()["messages"] == 2


@pytest.mark.parametrize(
    ("name", "body", "code"),
    [
        ("S", b"", 10003),
        ("S", b"{}", 10003),
        ("S", {"config": {"name": "T"}}, 10056),
        ("S", {"zork": 1}, 10025),
        ("S", {"config": {"name": "S", "num_replicas": 6}}, 10052),
        ("S", {"config": {"name": "S", "max_age": 1}}, 10052),
        ("X", {"config": {"name": "X"}}, 10130),
    ],
)
def test_what_is_no_request_is_refused(name: str, body: Any, code: int) -> None:
    site = Site()
    site.create("X", subjects=["X"])
    assert site.error(f"STREAM.RESTORE.{name}", body)[1] == code


# -- older archives ------------------------------------------------------------------------------------------


def old_block(*records: bytes) -> bytes:
    return b"".join(records)


def test_older_archives_are_restored() -> None:
    site = Site(world=FakeWorld(TIME + SECOND))
    headers = b"NATS/1.0\r\nA: b\r\n\r\n"
    blocks = {
        1: old_block(
            block_record("S", 1, 3, b"a.b", b"three", timestamp=TIME + 3),
            block_record("S", 1, 4, b"a.b", b"four", headers, timestamp=TIME + 4),
            block_record("S", 1, 5 | ERASED, b"", b"zzzz"),
            block_record("S", 1, 6, b"a.c", b"six", timestamp=TIME + 6),
        ),
        2: old_block(
            block_record("S", 2, 7, b"a.c", b"seven", timestamp=TIME + 7),
            block_record("S", 2, 6 | TOMBSTONE, timestamp=TIME + 9),
            block_record("S", 2, 8, b"a.c", b"eight", timestamp=TIME + 8),
            block_record("S", 2, 8 | TOMBSTONE, timestamp=TIME + 8),
        ),
    }
    # floors 2 and 4, delivered 4 and 7, one pending: 7, delivery 4, at the base; one redelivered: 7, once
    seconds = TIME // SECOND
    base = bytearray()
    value = seconds << 1
    while value >= 0x80:
        base.append(value & 0x7F | 0x80)
        value >>= 7
    base.append(value)
    dat = bytes((22, 2, 2, 4, 4, 7, 1)) + bytes(base) + bytes((3, 2, 0, 1, 3, 1))
    files = old_files("S", blocks) | old_consumer("S", "C", dat, ack_policy="explicit")
    answer = restore(site, pack(tar_of(files)))
    assert "error" not in answer, answer
    assert answer["created"] == "2023-01-02T03:04:05Z"
    found = answer["state"]
    assert (found["messages"], found["first_seq"], found["last_seq"]) == (3, 3, 8)
    assert list(bodies(site)) == [3, 4, 7]
    info = site.ask("CONSUMER.INFO.S.C")
    assert info["created"] == "2023-02-03T04:05:06Z"
    assert info["delivered"] == {"consumer_seq": 4, "stream_seq": 7}
    assert info["ack_floor"] == {"consumer_seq": 2, "stream_seq": 4}
    assert (info["num_ack_pending"], info["num_redelivered"]) == (1, 1)
    assert site.disk.list("store/staging") == []
    assert site.disk.list("store/streams/S") == ["consumers", "log", "meta.json"]


def test_older_consumers_that_have_not_begun_begin() -> None:
    site = Site()
    files = old_files("S", {1: block_record("S", 1, 1, b"a.b", b"x")})
    files |= old_consumer("S", "C", b"", ack_policy="explicit")
    del files["obs/C/o.dat"]
    restore(site, pack(tar_of(files)))
    assert site.ask("CONSUMER.INFO.S.C")["num_pending"] == 1


def changed(files: dict[str, bytes], **changes: bytes | None) -> bytes:
    for name, data in changes.items():
        path = name.replace("__", "/").replace("_", ".")
        if data is None:
            del files[path]
        else:
            files[path] = data
    return pack(tar_of(files))


def old() -> dict[str, bytes]:
    one = block_record("S", 1, 1, b"a.b", b"one")
    files = old_files("S", {1: one + block_record("S", 1, 2, b"a.b", b"two")})
    return files | old_consumer("S", "C", bytes((22, 2, 0, 0, 0, 0, 0, 0)), ack_policy="explicit")


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (pack(tar_of(old_files("T", {}))), "stream names do not match"),
        (changed(old(), meta_inf=None), "open meta.inf: no such file or directory"),
        (changed(old(), meta_inf=b"junk"), "invalid character 'j' looking for beginning of value"),
        (changed(old(), meta_sum=b"0123"), "stream metadata does not match its checksum"),
        (
            changed(old(), msgs__1_blk=flipped(old()["msgs/1.blk"], 30)),
            "malformed or corrupt message in block 1: invalid checksum",
        ),
        (
            changed(old(), msgs__1_blk=old()["msgs/1.blk"][:-1]),
            "malformed or corrupt message in block 1: sanity check failed",
        ),
        (
            changed(old(), msgs__1_blk=old()["msgs/1.blk"] + b"xx"),
            "malformed or corrupt message in block 1: message overrun",
        ),
        (
            changed(old(), msgs__2_blk=old()["msgs/1.blk"]),
            "malformed or corrupt message in block 2: invalid checksum",
        ),
        (
            changed(old(), obs__C__meta_sum=None),
            'error restoring consumer ["C"]: meta.sum: no such file or directory',
        ),
        (
            changed(old(), obs__C__meta_sum=b"0"),
            'error restoring consumer ["C"]: consumer metadata does not match its checksum',
        ),
        (changed(old(), obs__C__o_dat=b"\x16\x02\x80"), 'error restoring consumer ["C"]: corrupt state file'),
        (pack(tar_of(old() | {"../evil": b"x"})), "unexpected content (account=$G)"),
        (pack(tar_of(old() | {"/evil": b"x"})), "unexpected content (account=$G)"),
        (pack(tar_of(old())[:3000]), "archive/tar: invalid tar header"),
        (pack(tar_of(old())[: tar_of(old()).rindex(b"obs/C/o.dat")]), "unexpected EOF"),
        (pack(b"something else that is long enough " * 100), "archive/tar: invalid tar header"),
    ],
)
def test_bad_older_archives_are_refused_whole(data: bytes, complaint: str) -> None:
    assert refused(Site(), data) == (500, 10062, f"restore failed: {complaint}")


def test_an_older_archive_may_go_to_memory() -> None:
    site = Site()
    assert restore(site, pack(tar_of(old())), storage="memory")["state"]["messages"] == 2
    assert site.disk.list("store/staging") == []
    assert site.disk.list("store/streams") == []


def test_nothing_follows_the_end() -> None:
    assert restore(Site(), archive(*TWO) + b"junk")["state"]["messages"] == 2
    assert restore(Site(), pack(join((*TWO, END, message(9, b"x")))))["state"]["last_seq"] == 2


@pytest.mark.parametrize("size", [4097, 65_535])
def test_a_subject_that_nobody_could_publish_to_is_refused(size: int) -> None:
    subject = b".".join([b"a"] * (size // 2 + 1))[:size]
    held = archive(state(messages=1, bytes=64, first_seq=1, last_seq=1), message(1, b"x", subject=subject))
    assert refused(Site(), held) == (500, 10062, "restore failed: message sequence 1 has an invalid subject")


def test_the_longest_subject_that_can_be_published_is_restored() -> None:
    subject = b".".join([b"a"] * 2048)
    held = archive(state(messages=1, bytes=64, first_seq=1, last_seq=1), message(1, b"x", subject=subject))
    site = Site()
    assert "error" not in restore(site, held)
    assert site.state(subjects_filter=">")["subjects"] == {subject.decode(): 1}


@pytest.mark.parametrize("config", [{}, {"first_seq": 100}])
def test_a_restored_stream_without_messages_goes_on_with_its_sequences(config: dict[str, Any]) -> None:
    last = config.get("first_seq", 4) - 1
    site = Site()
    restore(site, archive(state(messages=0, bytes=0, first_seq=last + 1, last_seq=last)), **config)
    again = site.restarted(orderly=False)
    found = again.ask("STREAM.INFO.S")["state"]
    assert (found["messages"], found["first_seq"], found["last_seq"]) == (0, last + 1, last)
    assert again.publish("a.1", b"x")["seq"] == last + 1
    assert again.restarted(orderly=False).ask("STREAM.MSG.GET.S", {"seq": last + 1})["message"]["data"]
