"""Consumers: filters, start points, naks, waiting requests, many of them, many clients."""

from benchmarks.paths.client import BODY, INBOX, Client, acks, consume, pub, request
from benchmarks.paths.run import Run, path
from benchmarks.wire import Address, dial

_SOME = 20_000
_FEW = 2_000
_CHUNK = b"v" * 131_072
_FROM = "by_start_sequence"


def _filled(run: Run, *, subjects: int = 10, **config: object) -> Client:
    client = run.client()
    client.stream("S", "s.>", **config)
    client.fill(b"s.%d" % (number % subjects) for number in range(run.size))
    return client


def _push_config(**more: object) -> dict[str, object]:
    return {"deliver_subject": INBOX.decode(), "ack_policy": "none", "mem_storage": True, **more}


def _creations(count: int, **config: object) -> list[bytes]:
    """Requests for so many durables of the stream `S`, each with a subject of its own."""
    return [
        request(
            f"$JS.API.CONSUMER.DURABLE.CREATE.S.C{number}",
            {
                "stream_name": "S",
                "config": {
                    "durable_name": f"C{number}",
                    "ack_policy": "explicit",
                    "filter_subject": f"s.{number}",
                    **config,
                },
            },
        )
        for number in range(count)
    ]


@path(20_000, 200_000)
def pulling(run: Run) -> None:
    """One message for each request, acknowledged in several ways."""
    client = _filled(run)
    next_of = "$JS.API.CONSUMER.MSG.NEXT.S."
    client.consumer("S", "one")
    with run.timed("fetch one, ack, repeat", _FEW):
        for _ in range(_FEW):
            client.send(request(f"{next_of}one", {"batch": 1, "expires": 10**10}))
            client.send(acks(client.replies(1)))
    client.consumer("S", "plain")
    with run.timed("next without a body, no ack", _FEW // 2):
        client.exchange([pub(f"{next_of}plain".encode(), b"")] * (_FEW // 2), 1)
    client.consumer("S", "sync")
    with run.timed("fetch 100, each acked with an answer", _SOME // 4):
        for _ in range(_SOME // 4 // 100):
            client.pull("S", "sync", 100)
            client.exchange([pub(reply, b"+ACK") for reply in client.replies(100)], 100)
    with run.timed("fetch one, ack with an answer", 500):
        for _ in range(500):
            client.pull("S", "sync", 1)
            client.exchange([pub(reply, b"+ACK") for reply in client.replies(1)], 1)
    client.consumer("S", "single", max_ack_pending=1)
    with run.timed("max_ack_pending 1", _FEW):
        client.pull("S", "single", _FEW)
        for _ in range(_FEW):
            client.send(acks(client.replies(1)))
    client.consumer("S", "next")
    with run.timed("ack and next in one", _FEW):
        client.pull("S", "next", 1)
        for _ in range(_FEW - 1):
            client.send(pub(client.replies(1)[0], b"+NXT"))
        client.send(acks(client.replies(1)))
    client.consumer("S", "quick", ack_policy="none")
    with run.timed("no_wait of 10", _SOME // 2):
        for _ in range(_SOME // 20):
            client.send(request(f"{next_of}quick", {"batch": 10, "no_wait": True}))
            client.replies(10)
    client.consumer("S", "empty", filter_subject="s.none")
    with run.timed("no_wait with nothing there", _FEW):
        client.exchange(
            [request(f"{next_of}empty", {"batch": 10, "no_wait": True})] * _FEW, 16, may_fail=True
        )
    client.consumer("S", "waits", filter_subject="s.w", ack_policy="none", max_waiting=5_000)
    with run.timed("1,000 waiting requests, 10,000 messages", 10_000):
        for _ in range(10):
            client.send(b"".join([request(f"{next_of}waits", {"batch": 1, "expires": 10**11})] * 1_000))
            client.flush()
            client.send(b"PUB s.w 128\r\n%b\r\n" % BODY * 1_000)
            client.replies(1_000)


@path(20_000, 200_000)
def consuming(run: Run) -> None:
    """Deliver policies, filters, start points."""
    client = _filled(run, subjects=1_000)
    with run.timed("push of all", run.size):
        client.consumer("S", "", **_push_config())
        client.receive(run.size)
    with run.timed("headers only", run.size):
        client.consumer("S", "", **_push_config(headers_only=True))
        client.receive(run.size)
    with run.timed("last of each of 1,000, 10 times", 10_000):
        for _ in range(10):
            client.consumer("S", "", **_push_config(deliver_policy="last_per_subject", filter_subject="s.>"))
            client.receive(1_000)
    with run.timed("from the middle by sequence, 200 times", 200):
        for _ in range(200):
            made = client.consumer(
                "S", "", deliver_policy="by_start_sequence", opt_start_seq=run.size // 2, mem_storage=True
            )
            client.send(request(f"$JS.API.CONSUMER.MSG.NEXT.S.{made['name']}", {"batch": 1}))
            client.replies(1)
    first, last = (client.info("S")["state"][each] for each in ("first_ts", "last_ts"))
    with run.timed("from a time, 200 times", 200):
        for number in range(200):
            made = client.consumer(
                "S",
                "",
                deliver_policy="by_start_time",
                opt_start_time=last if number % 2 else first,
                mem_storage=True,
            )
            client.send(request(f"$JS.API.CONSUMER.MSG.NEXT.S.{made['name']}", {"batch": 1}))
            client.replies(1)
    with run.timed("last of all, 100 times", 100):
        for _ in range(100):
            client.consumer("S", "", **_push_config(deliver_policy="last"))
            client.receive(1)
    for filters in (1, 50, 300):
        names = [f"s.{number}" for number in range(filters)]
        count = run.size // 1_000 * filters
        config = {"filter_subject": names[0]} if filters == 1 else {"filter_subjects": names}
        with run.timed(f"{filters} filter subjects", count):
            client.consumer("S", "", **_push_config(**config))
            client.receive(count)
    made = client.consumer(
        "S", "", ack_policy="none", filter_subjects=[f"s.{number}" for number in range(300)]
    )
    with run.timed("300 filter subjects, pull 100", run.size // 1_000 * 300):
        left = run.size // 1_000 * 300
        while left:
            client.pull("S", made["name"], min(100, left))
            client.replies(min(100, left))
            left -= min(100, left)
    with run.timed("wildcard filter that fits a thousandth", run.size // 1_000 * 20):
        for number in range(20):
            client.consumer("S", "", **_push_config(filter_subjects=[f"s.{number}", f"s.{number}.>"]))
            client.receive(run.size // 1_000)


@path(50, 500, config="write_deadline: 1h\nmax_pending: 1GB\n")
def deaf_observer(run: Run) -> None:
    """Readers of objects beside a client that listens to everything and reads nothing."""
    client = run.client()
    deaf = dial(Address("127.0.0.1", run.server.port), greeting=b"SUB > 1\r\n")
    with deaf:
        client.stream("S", "s.>")
        client.fill([b"s.x"] * 200, _CHUNK, 8)
        with run.timed("push two chunks of 128 KiB to a new consumer", run.size):
            for _ in range(run.size):
                made = client.consumer("S", "", **_push_config(opt_start_seq=199, deliver_policy=_FROM))
                client.receive(2)
                client.ask(f"CONSUMER.DELETE.S.{made['name']}")
        client.consumer("S", "pulls", ack_policy="none", opt_start_seq=100, deliver_policy=_FROM)
        with run.timed("pull a chunk, 100 times", 100):
            for _ in range(100):
                client.pull("S", "pulls", 1)
                client.replies(1)


@path(5_000, 50_000)
def redelivery(run: Run) -> None:
    """Naks, delays, back-offs, acks out of order."""
    client = _filled(run)
    client.consumer("S", "nak", max_ack_pending=-1, ack_wait=60 * 10**9)
    with run.timed("nak all, take again", 2 * run.size):
        client.pull("S", "nak", run.size)
        replies = client.replies(run.size)
        client.pull("S", "nak", run.size)
        client.send(b"".join(b"PUB %b 4\r\n-NAK\r\n" % reply for reply in replies))
        replies = client.replies(run.size)
    run.chance.shuffle(replies)
    with run.timed("ack out of order", run.size):
        client.exchange((pub(reply, b"+ACK") for reply in replies), 1_000)
    client.consumer("S", "delay", max_ack_pending=-1, ack_wait=60 * 10**9)
    with run.timed("nak with 300 ms of delay", run.size):
        client.pull("S", "delay", run.size)
        replies = client.replies(run.size)
        client.pull("S", "delay", run.size)
        delayed = b'-NAK {"delay":300000000}'
        client.send(b"".join(b"PUB %b %d\r\n%b\r\n" % (reply, len(delayed), delayed) for reply in replies))
        client.replies(run.size)
    client.consumer("S", "backoff", max_ack_pending=-1, max_deliver=3, backoff=[300_000_000, 10**11])
    with run.timed("back-off of 300 ms", run.size):
        client.pull("S", "backoff", 2 * run.size)
        client.replies(2 * run.size)
    client.consumer("S", "late", max_ack_pending=-1, ack_wait=500_000_000)
    with run.timed("ack_wait of 500 ms", run.size):
        client.pull("S", "late", 2 * run.size)
        client.replies(run.size)
        replies = client.replies(run.size)
        client.send(acks(replies))
        client.flush()
    client.consumer("S", "all", ack_policy="all", max_ack_pending=-1)
    with run.timed("ack all at once", run.size):
        client.pull("S", "all", run.size)
        client.exchange([pub(client.replies(run.size)[-1], b"+ACK")], 1)
    with run.timed("progress", run.size):
        client.consumer("S", "progress", max_ack_pending=-1)
        client.pull("S", "progress", run.size)
        client.send(b"".join(b"PUB %b 4\r\n+WPI\r\n" % reply for reply in client.replies(run.size)))
        client.flush()
    with run.timed("terminate", run.size):
        client.consumer("S", "term", max_ack_pending=-1)
        client.pull("S", "term", run.size)
        client.exchange([pub(reply, b"+TERM") for reply in client.replies(run.size)], 1_000)


@path(5_000, 50_000)
def work_queue(run: Run) -> None:
    """A work queue with ten filtered consumers, acknowledged out of order."""
    client = run.client()
    client.stream("S", "s.>", retention="workqueue")
    with run.timed("publish", run.size):
        client.fill(b"s.%d" % (number % 10) for number in range(run.size))
    for number in range(10):
        client.consumer("S", f"C{number}", filter_subject=f"s.{number}", max_ack_pending=-1)
    with run.timed("consume out of order", run.size):
        for number in range(10):
            client.pull("S", f"C{number}", run.size // 10)
        replies = client.replies(run.size)
        run.chance.shuffle(replies)
        client.exchange((pub(reply, b"+ACK") for reply in replies), 1_000)
    with run.timed("publish and consume", run.size):
        for start in range(0, run.size, 1_000):
            client.fill(b"s.%d" % (number % 10) for number in range(start, start + 1_000))
            for number in range(10):
                client.pull("S", f"C{number}", 100)
            client.exchange((pub(reply, b"+ACK") for reply in client.replies(1_000)), 1_000)
    if client.info("S")["state"]["messages"]:
        raise AssertionError("messages are left")


@path(1_000, 5_000)
def queue_of_filters(run: Run) -> None:
    """A work queue with so many consumers, each with a subject of its own."""
    client = run.client()
    client.stream("S", "s.>", retention="workqueue", max_consumers=100_000)
    with run.timed("create, 20 at once", run.size):
        client.exchange(_creations(run.size, mem_storage=True), 20)
    client.fill(b"s.%d" % (number % run.size) for number in range(_SOME))
    with run.timed("purge of a subject", 300):
        for number in range(300):
            client.ask("STREAM.PURGE.S", {"filter": f"s.{number}"})


@path(1, 10, 100)
def interest(run: Run) -> None:
    """A stream that keeps what its consumers have not acknowledged."""
    client, count = run.client(), 10_000
    client.stream("S", "s.>", retention="interest")
    for number in range(run.size):
        client.consumer("S", f"C{number}", max_ack_pending=-1)
    with run.timed("publish", count):
        client.fill([b"s.x"] * count)
    part = count // 10 if run.size > 10 else count
    with run.timed("consume", part * run.size):
        for number in range(run.size):
            consume(client, "S", f"C{number}", part, 500)
    with run.timed("publish and nobody there", count):
        client.stream("N", "n.>", retention="interest")
        client.fill([b"n.x"] * count)


@path(100, 1_000, 5_000)
def many_consumers(run: Run) -> None:
    """Serve many durables of one stream, each with a subject of its own."""
    client = run.client()
    client.stream("S", "s.>", max_consumers=100_000)
    with run.timed("create, 20 at once", run.size):
        client.exchange(_creations(run.size), 20)
    run.memory("memory")
    with run.timed("publish beside them", _SOME):
        client.fill(b"s.%d" % (number % run.size) for number in range(_SOME))
    with run.timed("publish one at a time", 500):
        client.fill([b"s.x"] * 500, BODY, 1)
    with run.timed("pull one from each", run.size):
        for start in range(0, run.size, 100):
            for number in range(start, start + 100):
                client.pull("S", f"C{number}", 1)
            client.send(acks(client.replies(100)))
    with run.timed("pulls that wait, then a message", run.size):
        for number in range(run.size):
            client.pull("S", f"C{number}", 100 + _SOME // run.size)
        client.receive(_SOME - run.size)
        client.send(b"".join(b"PUB s.%d 128\r\n%b\r\n" % (number, BODY) for number in range(run.size)))
        client.receive(run.size)
    with run.timed("account info", 200):
        client.exchange([pub(b"$JS.API.INFO", b"")] * 200, 1)
    with run.timed("delete, 20 at once", run.size // 2):
        client.exchange(
            [pub(b"$JS.API.CONSUMER.DELETE.S.C%d" % n, b"") for n in range(run.size // 2)], 20, may_fail=True
        )
    run.restart("restart after a kill", kill=True)


@path(100, 1_000)
def all_see_all(run: Run) -> None:
    """Serve many pull consumers without a filter, of which few pull."""
    client = run.client()
    client.stream("S", "s.>", max_consumers=100_000)
    for number in range(run.size):
        client.consumer("S", f"C{number}", mem_storage=True)
    with run.timed("publish beside them", _SOME):
        client.fill(b"s.%d" % (number % 10) for number in range(_SOME))
    with run.timed("consume by ten", _SOME):
        for number in range(10):
            consume(client, "S", f"C{number}", _SOME // 10, 200)
    client.pull("S", "C10", 10**6)
    client.receive(1_000)  # as many as may be unacknowledged
    client.consumer("S", "", **_push_config(deliver_policy="new"))
    with run.timed("deliver to one beside them", 5_000):
        client.send(b"PUB s.x 128\r\n%b\r\n" % BODY * 5_000)
        client.receive(5_000)


@path(10, 100, 500)
def push_consumers(run: Run) -> None:
    """Deliver the same messages to several push consumers."""
    client, listener = run.client(), run.client()
    client.stream("S", "s.>")
    for number in range(run.size):
        listener.send(b"SUB deliver.%d %d\r\n" % (number, number + 5))
        listener.consumer("S", "", **_push_config(deliver_subject=f"deliver.{number}"))
    rounds, part = 10, 10_000 // run.size
    with run.timed("deliveries", rounds * part * run.size):
        for _ in range(rounds):
            client.fill([b"s.x"] * part)
            listener.receive(part * run.size)


@path(10, 100)
def ordered_clients(run: Run) -> None:
    """Ordered consumers of many clients over a stream, all with flow control."""
    client, count = run.client(), 2_000
    client.stream("S", "s.>")
    client.fill(b"s.%d" % (number % 10) for number in range(count))
    clients = [run.client() for _ in range(run.size)]
    config = {
        "flow_control": True,
        "idle_heartbeat": 5 * 10**9,
        "max_deliver": 1,
        "ack_wait": 22 * 3600 * 10**9,
    }
    with run.timed("deliveries", count * run.size):
        for each in clients:
            each.consumer("S", "", **_push_config(deliver_subject=each.inbox.decode(), **config))
        for each in clients:
            each.receive(count)


@path(1, 10)
def queue_of_consumers(run: Run) -> None:
    """One durable that so many clients pull from."""
    clients = [run.client() for _ in range(run.size)]
    clients[0].stream("S", "s.>")
    clients[0].fill([b"s.x"] * 40_000)
    clients[0].consumer("S", "C", max_ack_pending=10_000)
    with run.timed("consume", 40_000):
        for _ in range(40_000 // run.size // 100):
            for each in clients:
                each.pull("S", "C", 100)
            for each in clients:
                each.send(acks(each.replies(100)))


@path(20_000, 100_000)
def consumer_restart(run: Run) -> None:
    """Consumers with many pending messages."""
    client = _filled(run)
    client.consumer("S", "C", max_ack_pending=-1)
    client.pull("S", "C", run.size)
    replies = client.replies(run.size)
    client.send(acks(replies[::2]))
    client.flush()
    with run.timed("info", 200):
        for _ in range(200):
            client.ask("CONSUMER.INFO.S.C")
    run.restart("restart after a kill", kill=True)
    run.restart("restart after a stop")
    client = run.client()
    with run.timed("ack after it", run.size):
        client.send(acks(replies))
        while client.ask("CONSUMER.INFO.S.C")["num_ack_pending"]:
            pass
