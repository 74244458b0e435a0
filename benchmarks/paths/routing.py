"""Messages that are not stored: subjects that change, many receivers, queue groups, requests."""

from benchmarks.paths.client import BODY, INBOX, Client, pub
from benchmarks.paths.run import Run, path

_SOME = 100_000


def _send_all(client: Client, frames: list[bytes]) -> None:
    """Write in parts of some kilobytes."""
    for start in range(0, len(frames), 500):
        client.send(b"".join(frames[start : start + 500]))


def _plain(subject: bytes) -> bytes:
    return b"PUB %b 128\r\n%b\r\n" % (subject, BODY)


@path(10, 100_000)
def changing_subjects(run: Run) -> None:
    """Each message to one of so many subjects; all are taken by a few wildcards, or by nobody."""
    client, listener = run.client(), run.client()
    with run.timed("nobody listens", _SOME):
        _send_all(client, [_plain(b"x.%d" % (number % run.size)) for number in range(_SOME)])
        client.flush()
    listener.send(b"SUB a.> 5\r\n")
    listener.flush()
    with run.timed("one wildcard", _SOME):
        _send_all(client, [_plain(b"a.b.%d" % (number % run.size)) for number in range(_SOME)])
        listener.receive(_SOME)
    listener.send(b"".join(b"SUB d.*.%d.> %d\r\n" % (number, number + 10) for number in range(1_000)))
    listener.flush()
    with run.timed("deep, one of 1,000 wildcards", _SOME):
        frames = [_plain(b"d.%d.%d.e.f.g.h.i.j.k.l" % (n % run.size, n % 1_000)) for n in range(_SOME)]
        _send_all(client, frames)
        listener.receive(_SOME)
    listener.send(b"SUB q.> g 6\r\nSUB q.*.* g 7\r\nSUB q.> h 8\r\n")
    listener.flush()
    with run.timed("two queue groups", _SOME):
        _send_all(client, [_plain(b"q.b.%d" % (number % run.size)) for number in range(_SOME)])
        listener.receive(2 * _SOME)


@path(1, 10, 100, 1_000)
def fan_out(run: Run) -> None:
    """Publish to many subscriptions over ten connections, on a changing subject and on a fixed one."""
    client = run.client()
    listeners = [run.client() for _ in range(min(10, run.size))]
    for number in range(run.size):
        listeners[number % len(listeners)].send(b"SUB f.> %d\r\n" % (number + 5))
    for each in listeners:
        each.flush()
    count = 200_000 // run.size // len(listeners) * len(listeners) or len(listeners)
    for name, frames in (
        ("one subject", [_plain(b"f.x")] * count),
        ("changing", [_plain(b"f.%d" % number) for number in range(count)]),
    ):
        with run.timed(name, count * run.size):
            step = max(1, 20_000 // run.size)
            for start in range(0, count, step):
                part = frames[start : start + step]
                client.send(b"".join(part))
                for place, each in enumerate(listeners):
                    share = len(range(place, run.size, len(listeners)))
                    each.receive(share * len(part))


@path(10, 1_000)
def queue_groups(run: Run) -> None:
    """One queue group of so many members, and so many groups."""
    client, listener = run.client(), run.client()
    listener.send(b"".join(b"SUB one.> group %d\r\n" % (number + 5) for number in range(run.size)))
    listener.flush()
    with run.timed("one group", _SOME):
        _send_all(client, [_plain(b"one.x")] * _SOME)
        listener.receive(_SOME)
    with run.timed("one group, changing subject", _SOME):
        _send_all(client, [_plain(b"one.%d" % number) for number in range(_SOME)])
        listener.receive(_SOME)
    listener.send(b"".join(b"SUB many.> g%d %d\r\n" % (n, n + 5_000) for n in range(run.size)))
    listener.flush()
    count = _SOME // run.size
    with run.timed("many groups", count * run.size):
        _send_all(client, [_plain(b"many.x")] * count)
        listener.receive(count * run.size)
    with run.timed("a member leaves and comes", 2_000):
        for number in range(2_000):
            sid = number % run.size + 5
            listener.send(b"UNSUB %d\r\nSUB one.> group %d\r\n" % (sid, sid))
            client.send(_plain(b"one.x"))
        client.flush()
        listener.flush()


@path(1_000, 100_000)
def inboxes(run: Run) -> None:
    """Requests, each with an inbox of its own; so many other inboxes are subscribed."""
    client, service, others = run.client(), run.client(), run.client()
    with run.timed("subscribe", run.size):
        _send_all(
            others, [b"SUB _INBOX.other.%d %d\r\n" % (number, number + 5) for number in range(run.size)]
        )
        others.flush()
    service.send(b"SUB service 5\r\n")
    service.flush()
    count = 20_000
    with run.timed("request with its own inbox", count):
        for start in range(0, count, 100):
            block = b"".join(
                b"SUB _INBOX.mine.%d %d\r\nUNSUB %d 1\r\nPUB service _INBOX.mine.%d 2\r\nhi\r\n"
                % (n, n + 10, n + 10, n)
                for n in range(start, start + 100)
            )
            client.send(block)
            service.send(b"".join(b"PUB %b 2\r\nho\r\n" % reply for reply in service.replies(100)))
            client.receive(100)
    with run.timed("request over one inbox", count):
        for start in range(0, count, 100):
            client.send(
                b"".join(b"PUB service %b.%d 2\r\nhi\r\n" % (INBOX, n) for n in range(start, start + 100))
            )
            service.send(b"".join(b"PUB %b 2\r\nho\r\n" % reply for reply in service.replies(100)))
            client.receive(100)
    with run.timed("no responders", count):
        client.exchange([pub(b"nobody.%d" % number, b"") for number in range(count)], 100, may_fail=True)
    with run.timed("subscribe and unsubscribe", count):
        _send_all(client, [b"SUB churn.%d.* 77\r\nUNSUB 77\r\n" % number for number in range(count)])
        client.flush()
    with run.timed("publish beside changing wildcards", count):
        others.send(b"SUB hot.* 3\r\n")
        others.flush()
        for start in range(0, count, 10):
            client.send(b"SUB hot.*.%d 88\r\n" % start + _plain(b"hot.x") * 10 + b"UNSUB 88\r\n")
        others.receive(count)
    with run.timed("unsubscribe", run.size):
        _send_all(others, [b"UNSUB %d\r\n" % (number + 5) for number in range(run.size)])
        others.flush()


@path(0, 1)
def slow_receiver(run: Run) -> None:
    """Fan-out to ten, beside one that never reads."""
    client = run.client()
    listeners = [run.client() for _ in range(10)]
    for each in listeners:
        each.send(b"SUB f 5\r\n")
        each.flush()
    for _ in range(run.size):
        run.client().send(b"SUB f 5\r\n")
    count = 20_000
    with run.timed("deliveries", count * 10):
        for _ in range(0, count, 1_000):
            client.send(_plain(b"f") * 1_000)
            for each in listeners:
                each.receive(1_000)
