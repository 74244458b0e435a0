"""Nothing that breaks a line of the protocol reaches a connection, whoever made up the subject."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from millstream.base.checksum import crc32c
from millstream.store.fs import RealFileSystem
from millstream.store.record import Record
from millstream.store.recovery import open_log
from tests.kits.security.gate import client, running

CONFIG = """
accounts {
  EVIL {
    jetstream: enabled
    users: [{user: evil, password: evil, permissions: {publish: ["$JS.API.>", "in"]}}]
    exports: [{stream: "news.>"}]
  }
  VICTIM {
    users: [{user: victim, password: victim}]
    imports: [{stream: {account: EVIL, subject: "news.>"}}]
  }
}
"""
INJECTED = (
    "news.x 1 0\r\n\r\nMSG internal-commands 2 9\r\nDROP-ALL!\r\n"
    'INFO {"connect_urls":["evil:1"]}\r\nHMSG news.y'
)
BAD = [
    INJECTED,
    "news.x y",
    "news.\tx",
    "news.x\ny",
    "news.\rx",
    "news.\x00",
    "news.\x0b",
    "news.\x01x",
    "\x1fnews",
]


@pytest.mark.parametrize("dest", BAD)
def test_a_republish_destination_that_breaks_lines_is_refused(tmp_path: Path, dest: str) -> None:
    with running(CONFIG, tmp_path) as server, client(server, "evil") as evil:
        config = {"name": "S", "subjects": ["in"], "republish": {"src": "in", "dest": dest}}
        refusal = evil.api("STREAM.CREATE.S", config)["error"]
        assert refusal["err_code"] == 10052
        good = {"name": "S", "subjects": ["in"]}
        assert "error" not in evil.api("STREAM.CREATE.S", good)
        assert "error" in evil.api("STREAM.UPDATE.S", config)
        assert "error" in evil.api("STREAM.UPDATE.S", good | {"republish": {"src": dest, "dest": "news.x"}})


@pytest.mark.parametrize("bad", ["a b", "a\r\nb", "a\x00", "a\x1f.b"])
def test_every_subject_of_a_configuration_is_checked(tmp_path: Path, bad: str) -> None:
    with running("", tmp_path) as server, client(server) as user:
        assert "error" not in user.api("STREAM.CREATE.S", {"name": "S", "subjects": ["in"]})
        streams: list[dict[str, object]] = [
            {"subjects": [bad]},
            {"subject_transform": {"src": "in", "dest": bad}},
            {"subject_transform": {"src": bad, "dest": "out"}},
            {"mirror": {"name": "S", "filter_subject": bad}},
            {"mirror": {"name": "S", "subject_transforms": [{"src": "in", "dest": bad}]}},
            {"sources": [{"name": "S", "filter_subject": bad}]},
            {"sources": [{"name": "S", "subject_transforms": [{"src": "in", "dest": bad}]}]},
            {"sources": [{"name": "S", "subject_transforms": [{"src": bad, "dest": "in"}]}]},
            {"sources": [{"name": "S", "external": {"api": bad, "deliver": "d"}}]},
            {"sources": [{"name": "S", "external": {"api": "$JS.x.API", "deliver": bad}}]},
            {"sources": [{"name": "S", "consumer": {"name": "c", "deliver_subject": bad}}]},
        ]
        for stream in streams:
            assert "error" in user.api("STREAM.CREATE.T", {"name": "T", "subjects": ["t"]} | stream), stream
        for consumer in ({"deliver_subject": bad}, {"filter_subject": bad}, {"filter_subjects": [bad, "in"]}):
            body = {"stream_name": "S", "config": {"ack_policy": "none"} | consumer}
            assert "error" in user.api("CONSUMER.CREATE.S", body), consumer
        body = {"stream_name": "S", "config": {"name": bad, "ack_policy": "none"}}
        assert "error" in user.api("CONSUMER.CREATE.S", body)
        assert "error" in user.api("STREAM.SNAPSHOT.S", {"deliver_subject": bad})


def test_a_configuration_on_disk_that_breaks_lines_is_not_used(tmp_path: Path) -> None:
    with running(CONFIG, tmp_path) as server, client(server, "evil") as evil:
        config = {"name": "S", "subjects": ["in"], "republish": {"src": "in", "dest": "news.x"}}
        assert "error" not in evil.api("STREAM.CREATE.S", config)
    for path in tmp_path.rglob("meta.*"):
        text = path.read_bytes()[9:].replace(b'"dest":"news.x"', b'"dest":%b' % json.dumps(INJECTED).encode())
        path.write_bytes(b"%08x %b" % (crc32c(text), text))
    with (
        running(CONFIG, tmp_path) as server,
        client(server, "evil") as evil,
        client(server, "victim") as victim,
    ):
        victim.round_trip(b"SUB news.> 1\r\nSUB internal-commands 2\r\n")
        assert evil.call("in")["seq"] == 1  # the stream is there, and takes messages
        assert victim.round_trip() == b""
        server.wait_for_log("its republish to")


def test_a_message_in_the_log_with_a_subject_that_breaks_lines_is_dropped(tmp_path: Path) -> None:
    """The consumer goes on behind it."""
    with running("", tmp_path) as server, client(server) as user:
        assert "error" not in user.api("STREAM.CREATE.S", {"name": "S", "subjects": ["in.*"]})
        assert user.call("in.a-b")["seq"] == 1
        assert user.call("in.good")["seq"] == 2
    (log,) = [path for path in tmp_path.rglob("*") if path.is_file() and b"in.a-b" in path.read_bytes()]
    _write_again(log.parent, b"in.\r\nb", b"in.good")
    with running("", tmp_path) as server, client(server) as user:
        user.round_trip(b"SUB deliver.here 1\r\n")
        body = {"stream_name": "S", "config": {"deliver_subject": "deliver.here", "ack_policy": "none"}}
        user.wire.send(b"PUB $JS.API.CONSUMER.CREATE.S %d\r\n%b\r\n" % _sized(body))
        frame = user.wire.read_frame()
        assert frame.startswith(b"MSG in.good 1 $JS.ACK.S.")


def _sized(body: object) -> tuple[int, bytes]:
    text = json.dumps(body).encode()
    return len(text), text


def _write_again(folder: Path, *subjects: bytes) -> None:
    """Replace a log by one with other subjects, sound in every other way."""
    old = open_log(RealFileSystem(), str(folder))
    record = Record()
    assert old.get(1, record)
    timestamp = record.timestamp
    old.close()
    for path in folder.iterdir():
        path.unlink()
    new = open_log(RealFileSystem(), str(folder))
    for subject in subjects:
        new.append(subject, b"", 0, 0, 0, timestamp, 0)
    commit = new.begin_commit()
    assert commit is not None
    commit.run()
    new.end_commit(commit)
    new.close()


@pytest.mark.parametrize("dest", ['"to x"', '"to.\\tx"', '"to\\r\\nx"', '"a.\\x01"'])
def test_a_mapping_in_a_configuration_file_that_breaks_lines_is_refused(dest: str) -> None:
    with (
        pytest.raises(Exception, match="invalid mapping destination"),
        running(f'mappings: {{ "from": {dest} }}'),
    ):
        pass
