"""Mirrors and sources that catch up; snapshots and restores."""

from benchmarks.paths.client import Client, pub
from benchmarks.paths.run import Run, path


def _caught_up(client: Client, stream: str, messages: int) -> None:
    while client.info(stream)["state"]["messages"] < messages:
        pass


@path(50_000, 300_000)
def mirrors(run: Run) -> None:
    client = run.client()
    client.stream("O", "o.*")
    client.fill(b"o.%d" % (number % 10) for number in range(run.size))
    with run.timed("mirror", run.size):
        client.stream("M", mirror={"name": "O"})
        _caught_up(client, "M", run.size)
    with run.timed("filtered mirror", run.size // 10):
        client.stream("F", mirror={"name": "O", "filter_subject": "o.3"})
        _caught_up(client, "F", run.size // 10)
    with run.timed("source", run.size):
        client.stream("S", sources=[{"name": "O"}])
        _caught_up(client, "S", run.size)
    with run.timed("source with a transform", run.size):
        moved = [{"src": "o.*", "dest": "p.{{wildcard(1)}}.x"}]
        client.stream("T", sources=[{"name": "O", "subject_transforms": moved}])
        _caught_up(client, "T", run.size)
    with run.timed("publish beside them", 20_000):
        client.fill(b"o.%d" % (number % 10) for number in range(20_000))


@path(5, 50)
def many_sources(run: Run) -> None:
    """A stream with so many sources, and so many mirrors of one stream."""
    client, each = run.client(), 20_000 // run.size
    for number in range(run.size):
        client.stream(f"O{number}", f"o.{number}")
        client.fill([b"o.%d" % number] * each)
    with run.timed("sources", 20_000):
        client.stream("S", sources=[{"name": f"O{number}"} for number in range(run.size)])
        _caught_up(client, "S", 20_000)
    client.stream("X", "x")
    for number in range(run.size):
        client.stream(f"M{number}", mirror={"name": "X"})
    with run.timed("publish beside mirrors", 5_000 * run.size):
        client.fill([b"x"] * 5_000)
        for number in range(run.size):
            _caught_up(client, f"M{number}", 5_000)


@path(50_000, 300_000)
def snapshots(run: Run) -> None:
    client = run.client()
    client.stream("S", "s.*")
    client.fill(b"s.%d" % (number % 10) for number in range(run.size))
    parts: list[bytes] = []
    with run.timed("snapshot", run.size):
        found = client.ask(
            "STREAM.SNAPSHOT.S",
            {"deliver_subject": "_INBOX.c.snap", "no_consumers": True, "chunk_size": 128 << 10},
        )
        while True:
            client.next()
            if not client.parser.payload_size:
                break
            parts.append(client.parser.payload())
            if client.parser.reply_size:
                client.send(b"PUB %b 0\r\n\r\n" % client.parser.reply())
    client.ask("STREAM.DELETE.S")
    with run.timed("restore", run.size):
        place = client.ask("STREAM.RESTORE.S", {"config": found["config"], "state": found["state"]})[
            "deliver_subject"
        ]
        client.exchange([pub(place.encode(), part) for part in parts], 4)
        client.exchange([pub(place.encode(), b"")], 1)
    if client.info("S")["state"]["messages"] != run.size:
        raise AssertionError
