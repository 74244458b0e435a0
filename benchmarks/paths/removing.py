"""Purges, deletes, expiry by age."""

from benchmarks.paths.client import Client, pub
from benchmarks.paths.run import Run, path


@path(50_000, 500_000)
def purges(run: Run) -> None:
    client = run.client()
    client.stream("P", "p.*.*", **{})

    def fill() -> None:
        client.fill(b"p.%d.%d" % (number % 10, number % 1_000) for number in range(run.size))

    fill()
    with run.timed("a subject, 200 times", 200):
        client.exchange(
            [pub(b"$JS.API.STREAM.PURGE.P", b'{"filter":"p.%d.%d"}' % (n % 10, n)) for n in range(200)], 1
        )
    with run.timed("a wildcard", 1):
        client.ask("STREAM.PURGE.P", {"filter": "p.3.*"})
    with run.timed("keep half", 1):
        client.ask("STREAM.PURGE.P", {"keep": run.size // 2})
    with run.timed("up to a sequence", 1):
        client.ask("STREAM.PURGE.P", {"seq": run.size - 1_000})
    with run.timed("all", 1):
        client.ask("STREAM.PURGE.P")
    fill()
    with run.timed("delete the stream", 1):
        client.ask("STREAM.DELETE.P")


@path(20_000, 200_000)
def aging(run: Run) -> None:
    """All messages expire at once, or are removed by a limit that is lowered."""
    client = run.client()
    client.stream("A", "a.*", max_age=2_000_000_000)
    client.fill(b"a.%d" % (number % 1_000) for number in range(run.size))
    with run.timed("expire", run.size):
        _until_empty(client)
    client.stream("L", "l.*")
    client.fill(b"l.%d" % (number % 1_000) for number in range(run.size))
    with run.timed("a lower limit for each subject", 1):
        client.ask("STREAM.UPDATE.L", client.info("L")["config"] | {"max_msgs_per_subject": 1})
    with run.timed("a lower limit", 1):
        client.ask("STREAM.UPDATE.L", client.info("L")["config"] | {"max_msgs": 10})


@path(50_000, 500_000)
def aging_flow(run: Run) -> None:
    """Publish without a pause to streams whose messages expire after half a second, one by subject."""
    client = run.client()
    for name, subjects in (("FEW", 10), ("MANY", 100_000)):
        client.stream(name, f"{name}.*", max_age=500_000_000)
        with run.timed(f"publish and expire, {subjects:,} subjects", run.size):
            client.fill(b"%b.%d" % (name.encode(), number % subjects) for number in range(run.size))


@path(200_000, 1_000_000)
def single_deletes(run: Run) -> None:
    """Delete single messages at random, in a stream of this size, and read beside them."""
    client = run.client()
    client.stream("D", "d.*")
    client.fill(b"d.%d" % (number % 100) for number in range(run.size))
    gone = run.chance.sample(range(1, run.size + 1), 5_000)
    frames = [pub(b"$JS.API.STREAM.MSG.DELETE.D", b'{"seq":%d,"no_erase":true}' % seq) for seq in gone]
    with run.timed("delete, 100 at once", len(frames)):
        client.exchange(frames, 100)
    run.restart("restart after a kill", kill=True)


def _until_empty(client: Client) -> None:
    while client.info("A")["state"]["messages"]:
        pass
