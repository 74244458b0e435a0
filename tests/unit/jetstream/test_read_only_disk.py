"""A file system that becomes read-only under a running server, and writable again."""

from __future__ import annotations

import errno

from millstream.store.fs import store_error
from tests.kits.jetstream.stream import Disk, Site


class ReadOnlyDisk(Disk):
    def check(self, op: str, path: str) -> None:
        if self.full:
            raise store_error(op, f"/srv/private/jetstream/{path}", OSError(errno.EROFS, ""))

    def rename(self, old: str, new: str) -> None:
        self.check("rename", old)
        super().rename(old, new)

    def remove(self, path: str) -> None:
        self.check("remove", path)
        super().remove(path)


def test_publishers_are_told_and_reads_go_on_until_it_is_writable_again() -> None:
    site = Site(disk=ReadOnlyDisk())
    site.create()
    site.publish("s.1", b"one")
    site.disk.full = True
    code, number, text = site.refusal("s.2", b"two")
    assert (code, number) == (503, 10077)
    assert "Read-only file system" in text
    assert "/srv/private" not in text
    assert site.ask("STREAM.MSG.GET.S", {"seq": 1})["message"]["subject"] == "s.1"
    assert "error" in site.ask("STREAM.CREATE.T", {"name": "T", "subjects": ["t"]})
    assert "error" in site.update(max_msgs=5)
    for _ in range(10):
        site.world.advance(30)
    site.disk.full = False
    site.world.advance(2)
    assert site.publish("s.3", b"three")["seq"] == 3
    site.ask("STREAM.PURGE.S")
    assert site.restarted().state()["messages"] == 0


def test_a_purge_on_a_read_only_disk_is_refused_and_done_when_it_is_writable() -> None:
    site = Site(disk=ReadOnlyDisk())
    site.create()
    for number in range(20):
        site.publish(f"s.{number}", b"x")
    site.disk.full = True
    assert "error" in site.ask("STREAM.PURGE.S")
    site.disk.full = False
    site.world.advance(2)
    assert site.state()["messages"] == 0
    assert site.restarted(orderly=False).state()["messages"] == 0


def test_a_key_whose_next_value_cannot_be_stored_is_not_said_to_be_missing() -> None:
    site = Site(disk=ReadOnlyDisk())
    site.create(max_msgs_per_subject=1, allow_direct=True)
    site.publish("s.1", b"one")
    site.disk.full = True
    site.refusal("s.1", b"two")
    wanted = {"last_by_subj": "s.1"}
    assert site.ask("STREAM.MSG.GET.S", wanted)["error"]["err_code"] == 10077
    site.world.published.clear()
    site.world.send(b"$JS.API.DIRECT.GET.S", b'{"last_by_subj":"s.1"}', reply=b"me")
    site.world.settle()
    assert [each.headers for each in site.world.published] == [b"NATS/1.0 500 Stream Store Failed\r\n\r\n"]
    site.disk.full = False
    site.world.advance(2)
    assert site.ask("STREAM.MSG.GET.S", wanted)["message"]["seq"] == 2


def test_the_state_has_the_time_of_a_first_message_that_is_not_durable() -> None:
    site = Site(disk=ReadOnlyDisk())
    site.create()
    site.disk.full = True
    site.refusal("s.1", b"one")
    state = site.state()
    assert state["messages"] == 1
    assert state["first_ts"] == state["last_ts"] != "0001-01-01T00:00:00Z"
