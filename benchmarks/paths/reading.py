"""Reading streams: direct gets of all kinds, holes, filters, infos, many subjects, restarts."""

import json

from benchmarks.paths.client import INBOX, Client, pub, request
from benchmarks.paths.run import Run, path

_GETS = 10_000
_FEW = 1_000


def _read(client: Client, frames: list[bytes], window: int = 16) -> None:
    client.exchange(frames, window, may_fail=True)


def _direct(stream: str, **body: object) -> bytes:
    return request(f"$JS.API.DIRECT.GET.{stream}", body)


@path(20_000, 500_000)
def direct_gets(run: Run) -> None:
    """Get messages directly from many subjects, of which one in a thousand is sparse."""
    client = run.client()
    client.stream("G", "g.>")
    with run.timed("publish", run.size):
        client.fill(
            b"g.rare.%d" % (n // 1000 % 5) if n % 1000 == 0 else b"g.often.%d" % (n % 10_000)
            for n in range(run.size)
        )
    some = [run.chance.randint(1, run.size) for _ in range(_GETS)]
    with run.timed("by sequence", _GETS):
        _read(client, [_direct("G", seq=each) for each in some])
    with run.timed("through the stream API", _GETS):
        _read(client, [request("$JS.API.STREAM.MSG.GET.G", {"seq": each}) for each in some])
    with run.timed("last of subject", _GETS):
        _read(client, [_direct("G", last_by_subj=f"g.often.{each % 10_000}") for each in some])
    few = some[:_FEW]
    with run.timed("next of a common subject", _FEW):
        _read(client, [_direct("G", seq=each, next_by_subj=f"g.often.{each % 10_000}") for each in few])
    with run.timed("next of a sparse subject", _FEW):
        _read(client, [_direct("G", seq=each, next_by_subj=f"g.rare.{each % 5}") for each in few])
    with run.timed("next of a sparse wildcard", _FEW):
        _read(client, [_direct("G", seq=each, next_by_subj="g.rare.*") for each in few])
    with run.timed("next of a wildcard that is wide", _FEW):
        _read(client, [_direct("G", seq=each, next_by_subj="g.often.*") for each in few])
    with run.timed("next of a subject that is not there", _FEW):
        _read(client, [_direct("G", seq=each, next_by_subj="g.never.*") for each in few])
    with run.timed("last of a wildcard", _FEW):
        _read(client, [request("$JS.API.STREAM.MSG.GET.G", {"last_by_subj": "g.rare.*"})] * _FEW)
    with run.timed("last of a wide wildcard", _FEW):
        _read(client, [request("$JS.API.STREAM.MSG.GET.G", {"last_by_subj": "g.>"})] * _FEW)
    with run.timed("batches of 100", 200 * 100):
        for each in few[:200]:
            client.send(_direct("G", seq=max(1, each - 200), batch=100, max_bytes=10**7))
            client.receive_batch()
    with run.timed("last of several, 100 subjects", 200 * 100):
        names = [f"g.often.{number}" for number in range(1, 101)]
        for _ in range(200):
            client.send(_direct("G", multi_last=names))
            client.receive_batch()
    with run.timed("last of a wildcard of several", 10_000):
        client.send(_direct("G", multi_last=["g.rare.*"]))
        client.receive_batch()
        client.send(_direct("G", multi_last=["g.often.*"], batch=1_000))
        client.receive_batch()
    with run.timed("last of several up to a sequence", 100 * 5):
        for each in few[:100]:
            client.send(_direct("G", multi_last=["g.rare.*"], up_to_seq=each))
            client.receive_batch()
    state = client.info("G")["state"]
    with run.timed("last of several up to a time", 100 * 5):
        for _ in range(100):
            client.send(_direct("G", multi_last=["g.rare.*"], up_to_time=state["last_ts"]))
            client.receive_batch()


@path(20_000, 300_000)
def holes(run: Run) -> None:
    """Messages deleted one by one at random, then everything read across the holes."""
    client = run.client()
    client.stream("H", "h.>")
    client.fill(b"h.%d" % (number % 100) for number in range(run.size))
    gone = run.chance.sample(range(1, run.size + 1), run.size // 4)
    with run.timed("delete", len(gone)):
        client.exchange(
            (pub(b"$JS.API.STREAM.MSG.DELETE.H", b'{"seq":%d,"no_erase":true}' % each) for each in gone), 200
        )
    erased = [each for each in run.chance.sample(range(1, run.size + 1), 1_500) if each not in set(gone)][
        :1_000
    ]
    with run.timed("erase", len(erased)):
        client.exchange((pub(b"$JS.API.STREAM.MSG.DELETE.H", b'{"seq":%d}' % each) for each in erased), 200)
    left = client.info("H")["state"]["messages"]
    with run.timed("get at random", _GETS):
        _read(client, [_direct("H", seq=run.chance.randint(1, run.size)) for _ in range(_GETS)])
    client.consumer("H", "", deliver_subject=INBOX.decode(), ack_policy="none")
    with run.timed("push all", left):
        client.receive(left)
    with run.timed("info", 200):
        for _ in range(200):
            client.info("H")
    with run.timed("info with the deleted", 10):
        for _ in range(10):
            client.info("H", {"deleted_details": True})
    run.memory("memory")
    run.restart("restart after a stop")
    run.restart("restart after a kill", kill=True)
    client = run.client()
    with run.timed("get after it", _GETS):
        _read(client, [_direct("H", seq=run.chance.randint(1, run.size)) for _ in range(_GETS)])


@path(100_000, 1_000_000)
def interior_deletes(run: Run) -> None:
    """One subject is purged out of two, so every second message is a hole."""
    client = run.client()
    client.stream("I", "i.*")
    client.fill(b"i.%d" % (number % 2) for number in range(run.size))
    with run.timed("purge every second", run.size // 2):
        client.ask("STREAM.PURGE.I", {"filter": "i.0"})
    with run.timed("info", 100):
        for _ in range(100):
            client.info("I")
    with run.timed("info with the deleted", 3):
        for _ in range(3):
            client.info("I", {"deleted_details": True})
    with run.timed("publish meanwhile", 20_000):
        client.fill([b"i.1"] * 20_000)
    client.consumer(
        "I", "", deliver_subject=INBOX.decode(), ack_policy="none", flow_control=True, idle_heartbeat=10**10
    )
    with run.timed("push all", run.size // 2):
        client.receive(run.size // 2 + 20_000)
    run.restart("restart after a kill", kill=True)


@path(100_000, 1_000_000)
def many_subjects(run: Run) -> None:
    """A message in each of many subjects."""
    client = run.client()
    client.stream("S", "s.>")
    with run.timed("publish", run.size):
        client.fill(b"s.%d.%d" % (number % 1000, number) for number in range(run.size))
    run.memory("memory")
    with run.timed("info with subjects of a thousandth", 50):
        for number in range(50):
            client.info("S", {"subjects_filter": f"s.{number}.>"})
    with run.timed("info with all subjects", 1):
        client.info("S", {"subjects_filter": ">"})
    with run.timed("consumers with a wildcard in the middle", 20):
        for number in range(20):
            client.consumer("S", f"D{number}", filter_subject=f"s.*.{number}", mem_storage=True)
    with run.timed("last of a sparse wildcard", 100):
        _read(client, [request("$JS.API.STREAM.MSG.GET.S", {"last_by_subj": f"s.*.{n}"}) for n in range(100)])
    with run.timed("purge of a subject", 500):
        client.exchange(
            (pub(b"$JS.API.STREAM.PURGE.S", b'{"filter":"s.%d.%d"}' % (n % 1000, n)) for n in range(500)), 1
        )
    run.restart("restart after a stop")
    run.memory("memory after it")
    run.restart("restart after a kill", kill=True)
    client = run.client()
    with run.timed("last of subject after it", _GETS):
        some = [run.chance.randrange(1000, run.size) for _ in range(_GETS)]
        _read(client, [_direct("S", last_by_subj=f"s.{each % 1000}.{each}") for each in some])


@path(200_000, 1_000_000)
def restarts(run: Run) -> None:
    """Restart with few subjects, many messages, and some consumers in the middle of them."""
    client = run.client()
    client.stream("R", "r.*")
    client.fill(b"r.%d" % (number % 10) for number in range(run.size))
    for number in range(10):
        client.consumer("R", f"C{number}", filter_subject=f"r.{number}")
        client.pull("R", f"C{number}", 100)
        client.replies(100)
    run.restart("after a kill", kill=True)
    run.restart("after a stop")
    run.memory("memory")
    client = run.client()
    with run.timed("first consumer info", 10):
        for number in range(10):
            client.ask(f"CONSUMER.INFO.R.C{number}")


@path(100, 2_000)
def lists(run: Run) -> None:
    """Names and lists of streams and consumers."""
    client = run.client()
    for number in range(20):
        client.stream(f"S{number}", f"s{number}.>", storage="memory", max_consumers=100_000)
    frames = [
        request(
            f"$JS.API.CONSUMER.CREATE.S0.C{number}",
            {
                "stream_name": "S0",
                "config": {"name": f"C{number}", "mem_storage": True, "inactive_threshold": 10**13},
            },
        )
        for number in range(run.size)
    ]
    with run.timed("create consumers in memory", run.size):
        client.exchange(frames, 20)
    with run.timed("list of streams", 200):
        for _ in range(200):
            client.ask("STREAM.LIST")
    with run.timed("names of streams", 500):
        for _ in range(500):
            client.ask("STREAM.NAMES", {"subject": "s3.x"})
    with run.timed("list of consumers", 50):
        for _ in range(50):
            client.ask("CONSUMER.LIST.S0", {"offset": run.size // 2})
    with run.timed("names of consumers", 50):
        for _ in range(50):
            client.ask("CONSUMER.NAMES.S0")
    with run.timed("consumer info", 1_000):
        client.exchange((pub(b"$JS.API.CONSUMER.INFO.S0.C%d" % (n % run.size), b"") for n in range(1_000)), 8)
    config = json.loads(json.dumps(client.info("S1")["config"]))
    with run.timed("update of a stream", 300):
        for number in range(300):
            client.ask("STREAM.UPDATE.S1", config | {"max_msgs": 1_000 + number})
