"""Publishing into streams of many kinds: limits, headers, conditions, batches, sizes."""

from itertools import pairwise

from benchmarks.paths.client import BODY, INBOX, Client, pub
from benchmarks.paths.run import Run, path

_SOME = 50_000


def _random_puts(run: Run, client: Client, name: str, config: dict[str, object]) -> None:
    """Fill one message for each subject, then overwrite at random."""
    client.stream(name, f"{name}.>", **config)
    head = name.encode()
    with run.timed(f"{name} first", run.size):
        client.fill(b"%b.%d" % (head, number) for number in range(run.size))
    subjects = [b"%b.%d" % (head, run.chance.randrange(run.size)) for _ in range(_SOME)]
    with run.timed(f"{name} overwrite", _SOME):
        client.fill(subjects)


@path(10_000, 200_000)
def overwriting(run: Run) -> None:
    client = run.client()
    _random_puts(run, client, "one", {"max_msgs_per_subject": 1})
    _random_puts(run, client, "five", {"max_msgs_per_subject": 5})
    _random_puts(run, client, "memory", {"max_msgs_per_subject": 1, "storage": "memory"})
    _random_puts(run, client, "s2", {"max_msgs_per_subject": 1, "compression": "s2"})


@path(20_000, 200_000)
def memory_stream(run: Run) -> None:
    client = run.client()
    client.stream("M", "m.>", storage="memory")
    with run.timed("publish", run.size):
        client.fill(b"m.%d" % (number % 100) for number in range(run.size))
    client.consumer("M", "", deliver_subject=INBOX.decode(), ack_policy="none")
    with run.timed("push", run.size):
        client.receive(run.size)


@path(20_000, 200_000)
def compressed_stream(run: Run) -> None:
    client = run.client()
    client.stream("C", "c.>", compression="s2")
    body = bytes(run.chance.choices(b"abcdefgh", k=512))
    with run.timed("publish", run.size):
        client.fill((b"c.%d" % (number % 100) for number in range(run.size)), body)
    gets = [b'{"seq":%d}' % run.chance.randint(1, run.size) for _ in range(10_000)]
    with run.timed("get", len(gets)):
        client.exchange((pub(b"$JS.API.DIRECT.GET.C", each) for each in gets), 16)
    client.consumer("C", "", deliver_subject=INBOX.decode(), ack_policy="none")
    with run.timed("push", run.size):
        client.receive(run.size)


@path(20_000, 200_000)
def limited_stream(run: Run) -> None:
    """Streams that are full: each publish removes or is refused."""
    client = run.client()
    client.stream("OLD", "old", max_msgs=5_000)
    with run.timed("discard old", run.size):
        client.fill([b"old"] * run.size)
    client.stream("BYTES", "bytes", max_bytes=1_000_000)
    with run.timed("discard old by bytes", run.size):
        client.fill([b"bytes"] * run.size)
    client.stream("NEW", "new", max_msgs=5_000, discard="new")
    with run.timed("discard new", run.size):
        client.exchange([pub(b"new")] * run.size, may_fail=True)
    client.stream("EACH", "each.*", max_msgs_per_subject=1, discard="new", discard_new_per_subject=True)
    subjects = [pub(b"each.%d" % (number % 1_000)) for number in range(run.size)]
    with run.timed("discard new per subject", run.size):
        client.exchange(subjects, may_fail=True)


@path(20_000, 200_000)
def deduplication(run: Run) -> None:
    client = run.client()
    client.stream("D", "d", duplicate_window=600_000_000_000)
    with run.timed("new ids", run.size):
        client.exchange(pub(b"d", BODY, INBOX, b"Nats-Msg-Id: id-%d\r\n" % n) for n in range(run.size))
    some = [
        pub(b"d", BODY, INBOX, b"Nats-Msg-Id: id-%d\r\n" % run.chance.randrange(run.size))
        for _ in range(_SOME)
    ]
    with run.timed("duplicates", _SOME):
        client.exchange(some)
    run.restart("restart")
    client = run.client()
    with run.timed("duplicates after it", _SOME):
        client.exchange(some)


@path(1_000, 100_000)
def conditions(run: Run) -> None:
    """Publishing with an expected sequence of the subject, on random keys."""
    client = run.client()
    client.stream("X", "x.>")
    client.fill(b"x.%d" % number for number in range(run.size))
    picked = run.chance.sample(range(run.size), min(run.size, _SOME))
    head = b"Nats-Expected-Last-Subject-Sequence: %d\r\n"
    with run.timed("last of subject", len(picked)):
        client.exchange([pub(b"x.%d" % n, BODY, INBOX, head % (n + 1)) for n in picked])
    with run.timed("last of subject, refused", len(picked)):
        client.exchange([pub(b"x.%d" % n, BODY, INBOX, head % (n + 1)) for n in picked], may_fail=True)
    last = run.size + len(picked)
    head = b"Nats-Expected-Last-Sequence: %d\r\n"
    with run.timed("last of stream", len(picked)):
        client.exchange([pub(b"x.0", BODY, INBOX, head % (last + n)) for n in range(len(picked))])
    block = (
        b"Nats-Expected-Last-Subject-Sequence: 0\r\nNats-Expected-Last-Subject-Sequence-Subject: x.*.%d\r\n"
    )
    few = 2_000
    with run.timed("last of a wildcard", few):
        client.exchange([pub(b"x.a.%d" % n, BODY, INBOX, block % n) for n in range(few)])


@path(1_000, 100_000)
def ids_and_conditions(run: Run) -> None:
    """Publish with an id and an expected sequence of the subject, as an event store does."""
    client = run.client()
    client.stream("X", "x.>", duplicate_window=600_000_000_000)
    client.fill(b"x.%d" % number for number in range(run.size))
    picked = run.chance.sample(range(run.size), min(run.size, _SOME))
    head = b"Nats-Msg-Id: id-%d\r\nNats-Expected-Last-Subject-Sequence: %d\r\n"
    with run.timed("id and last of subject", len(picked)):
        client.exchange([pub(b"x.%d" % n, BODY, INBOX, head % (n, n + 1)) for n in picked])
    head = b"Nats-Expected-Stream: X\r\nNats-Expected-Last-Msg-Id: id-%d\r\nNats-Msg-Id: id-%d\r\n"
    before, few = picked[-1], 5_000
    numbers = [before, *range(run.size, run.size + few)]
    with run.timed("name of the stream, last id", few):
        client.exchange([pub(b"x.0", BODY, INBOX, head % pair) for pair in pairwise(numbers)])


@path(20_000, 200_000)
def no_ack(run: Run) -> None:
    """Publish to a stream that acknowledges nothing."""
    client = run.client()
    client.stream("Q", "q.*", no_ack=True)
    frames = [pub(b"q.%d" % (number % 100), BODY, b"") for number in range(run.size)]
    with run.timed("publish", run.size):
        for start in range(0, run.size, 1_000):
            client.send(b"".join(frames[start : start + 1_000]))
        while client.info("Q")["state"]["messages"] < run.size:
            pass


@path(1, 20)
def large_headers(run: Run) -> None:
    """Messages with so many headers of 100 bytes; consumers with and without bodies."""
    client = run.client()
    client.stream("H", "h")
    block = b"".join(b"Header-%d: %b\r\n" % (number, b"h" * 88) for number in range(run.size))
    with run.timed("publish", _SOME):
        client.exchange([pub(b"h", BODY, INBOX, block)] * _SOME)
    client.consumer(
        "H", "", deliver_subject=INBOX.decode(), ack_policy="none", flow_control=True, idle_heartbeat=10**10
    )
    with run.timed("push", _SOME):
        client.receive(_SOME)
    other = run.client()
    other.consumer("H", "", deliver_subject=other.inbox.decode(), ack_policy="none", headers_only=True)
    with run.timed("push headers only", _SOME):
        other.receive(_SOME)


@path(1 << 14, 1 << 16, 1 << 20)
def sizes(run: Run) -> None:
    """Messages of some sizes through file and memory, core and pull."""
    client, count = run.client(), max(40, (64 << 20) // run.size)
    client.send(b"SUB core 5\r\n")
    body = run.chance.randbytes(1 << 10) * (run.size >> 10)
    with run.timed("core echo", count):
        client.exchange([pub(b"core", body)] * count, 4)
    for storage in ("file", "memory"):
        client.stream(storage, f"{storage}.x", storage=storage)
        with run.timed(f"publish {storage}", count):
            client.exchange([pub(storage.encode() + b".x", body)] * count, 16)
        client.consumer(storage, "", deliver_subject=INBOX.decode(), ack_policy="none")
        with run.timed(f"push {storage}", count):
            client.receive(count)


@path(1 << 20, 8 << 20, config="max_payload: 10MB\nmax_pending: 64MB\n")
def huge(run: Run) -> None:
    client, count = run.client(), (160 << 20) // run.size
    client.stream("H", "h.x")
    body = run.chance.randbytes(run.size)
    with run.timed("publish", count):
        client.exchange([pub(b"h.x", body)] * count, 4)
    gets = [b'{"seq":%d}' % run.chance.randint(1, count) for _ in range(count)]
    with run.timed("get", len(gets)):
        client.exchange([pub(b"$JS.API.DIRECT.GET.H", each) for each in gets], 2)
    client.consumer(
        "H", "", deliver_subject=INBOX.decode(), ack_policy="none", flow_control=True, idle_heartbeat=10**10
    )
    with run.timed("push", count):
        client.receive(count)


@path(1, 10, 100)
def one_at_a_time(run: Run) -> None:
    """Publish from many publishers that each wait for an acknowledgement, over one connection."""
    clients = [run.client() for _ in range(run.size)]
    rounds = 2_000 // run.size + 100
    clients[0].stream("O", "o.*")
    frames = [pub(b"o.%d" % number, BODY, client.inbox) for number, client in enumerate(clients)]
    with run.timed("publish", rounds * run.size):
        for _ in range(rounds):
            for client, frame in zip(clients, frames, strict=True):
                client.send(frame)
            for client in clients:
                client.next()
    with run.timed("account info", rounds * run.size):
        for _ in range(rounds):
            for client in clients:
                client.send(pub(b"$JS.API.INFO", b"", client.inbox))
            for client in clients:
                client.next()


@path(10, 1_000)
def atomic_batches(run: Run) -> None:
    client = run.client()
    client.stream("B", "b.>", allow_atomic=True)
    batches = 40_000 // run.size
    with run.timed("publish", batches * run.size):
        for number in range(batches):
            frames = []
            for place in range(1, run.size):
                head = b"Nats-Batch-Id: u%d\r\nNats-Batch-Sequence: %d\r\n" % (number, place)
                block = b"NATS/1.0\r\n%b\r\n" % head
                frames.append(
                    b"HPUB b.%d %d %d\r\n%b%b\r\n" % (place, len(block), len(block) + 128, block, BODY)
                )
            head = b"Nats-Batch-Id: u%d\r\nNats-Batch-Sequence: %d\r\nNats-Batch-Commit: 1\r\n" % (
                number,
                run.size,
            )
            client.exchange([b"".join(frames) + pub(b"b.0", BODY, INBOX, head)], 4)


@path(100, 20_000)
def counters(run: Run) -> None:
    client = run.client()
    client.stream("N", "n.>", allow_msg_counter=True)
    subjects = [b"n.%d" % run.chance.randrange(run.size) for _ in range(_SOME)]
    with run.timed("add", _SOME):
        client.exchange(pub(each, b"", INBOX, b"Nats-Incr: 1\r\n") for each in subjects)


@path(5_000, 50_000)
def lifetimes(run: Run) -> None:
    """Messages with lifetimes of their own, far away and near; schedules."""
    client = run.client()
    client.stream("T", "t.>", allow_msg_ttl=True)
    with run.timed("far", run.size):
        client.exchange(pub(b"t.%d" % n, BODY, INBOX, b"Nats-TTL: 1h\r\n") for n in range(run.size))
    with run.timed("near and gone", run.size):
        client.exchange(pub(b"t.x.%d" % n, BODY, INBOX, b"Nats-TTL: 1s\r\n") for n in range(run.size))
        _until(client, "T", run.size)
    client.stream(
        "MARKS",
        "marks.>",
        allow_msg_ttl=True,
        max_age=1_000_000_000,
        subject_delete_marker_ttl=60_000_000_000,
    )
    with run.timed("aged into markers", run.size):
        client.exchange(pub(b"marks.%d" % n) for n in range(run.size))
        while client.info("MARKS")["state"]["last_seq"] < 2 * run.size:
            pass
    run.restart("restart")


def _until(client: Client, stream: str, messages: int) -> None:
    while client.info(stream)["state"]["messages"] > messages:
        pass


@path(2_000, 20_000)
def schedules(run: Run) -> None:
    client = run.client()
    client.stream("S", "s.>", allow_msg_schedules=True, allow_msg_ttl=True)
    head = b"Nats-Schedule: @at 2099-01-01T00:00:00Z\r\nNats-Schedule-Target: s.t.%d\r\n"
    with run.timed("far", run.size):
        client.exchange(pub(b"s.f.%d" % n, BODY, INBOX, head % n) for n in range(run.size))
    head = b"Nats-Schedule: @at 2020-01-01T00:00:00Z\r\nNats-Schedule-Target: s.t.%d\r\n"
    with run.timed("due at once", run.size):
        client.exchange(pub(b"s.n.%d" % n, BODY, INBOX, head % n) for n in range(run.size))
        while client.info("S")["state"]["last_seq"] < 3 * run.size:
            pass


@path(1, 10)
def republish(run: Run) -> None:
    client = run.client()
    client.stream("R", "r.>", republish={"src": "r.>", "dest": "again.>"})
    listeners = [run.client() for _ in range(run.size)]
    for each in listeners:
        each.send(b"SUB again.> 5\r\n")
        each.flush()
    with run.timed("publish", _SOME):
        client.fill([b"r.x"] * _SOME)
    with run.timed("changing subjects", _SOME):
        client.fill(b"r.%d" % number for number in range(_SOME))


@path(1, 100)
def transforms(run: Run) -> None:
    """A stream that rewrites subjects, and messages that take another subject each."""
    client = run.client()
    client.stream(
        "T", "t.*.*", subject_transform={"src": "t.*.*", "dest": "u.{{wildcard(2)}}.{{partition(10,1)}}"}
    )
    with run.timed("publish", _SOME):
        client.fill(b"t.%d.%d" % (number % run.size, number) for number in range(_SOME))
