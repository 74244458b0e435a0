"""No step of the loop does much work, whatever is asked of a server that holds much.

The watchdog has a clock that counts the lines of Python that were run (``tests.kits.large_site``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from millstream.base.build import pure_requested
from millstream.broker import reload
from millstream.broker.auth import ClientAuthenticator
from millstream.broker.options import AccountOptions, Export, ExportKind, Import
from millstream.jetstream.consumers.saved_state import OpenLetter
from millstream.server.monitor.accountz import AccountzOptions, account_statz, accountz
from millstream.server.monitor.connz import ConnzOptions, connz
from millstream.server.monitor.exposition import table_text
from millstream.server.monitor.healthz import HealthzOptions
from millstream.server.monitor.jsz import JszOptions
from millstream.server.monitor.subsz import SubszOptions, subsz
from millstream.server.monitor.totals import pending_bytes, server_traffic
from millstream.server.system.users import count_subscribers
from millstream.store.layout import layout
from tests.kits.large_site import (
    Hold,
    Site,
    assert_short_steps,
    clients,
    consumers,
    few_subjects,
    filled,
    messages,
    streams,
    subscriptions,
)

# -- what the server holds ------------------------------------------------------------------------


def aging(site: Site, scale: int) -> None:
    messages(site, scale, max_age=60_000_000_000)


def awaited(site: Site, scale: int) -> None:
    """Consumers have got some of the messages, and acknowledged none."""
    aging(site, scale)
    for number in range(5):
        config = {"durable_name": f"d{number}", "ack_policy": "explicit"}
        site.ask(f"CONSUMER.DURABLE.CREATE.M.d{number}", {"stream_name": "M", "config": config})
        site.client.say(b"PUB $JS.API.CONSUMER.MSG.NEXT.M.d%d _INBOX 1\r\n5\r\n" % number)


def expiring(site: Site, scale: int) -> None:
    messages(site, scale, header=b"NATS/1.0\r\nNats-TTL: 60s\r\n\r\n", allow_msg_ttl=True)


def marked(site: Site, scale: int) -> None:
    """Messages that leave a marker each."""
    marker = {"allow_msg_ttl": True, "subject_delete_marker_ttl": 3600_000_000_000, "allow_rollup_hdrs": True}
    messages(site, scale, header=b"NATS/1.0\r\nNats-TTL: 3600s\r\n\r\n", **marker)


def excessive(site: Site, scale: int) -> None:
    messages(site, scale, subjects=25 * scale)


def one_subject(site: Site, scale: int) -> None:
    messages(site, scale, subjects=1, allow_rollup_hdrs=True)


def replaceable(site: Site, scale: int) -> None:
    messages(site, scale, allow_rollup_hdrs=True)


def needed(site: Site, scale: int) -> None:
    site.ask("STREAM.CREATE.M", {"name": "M", "subjects": ["m.*"], "retention": "interest"})
    for name, pattern in (("all", "m.*"), ("none", "m.none")):
        config = {"durable_name": name, "ack_policy": "explicit", "filter_subject": pattern}
        site.ask(f"CONSUMER.DURABLE.CREATE.M.{name}", {"stream_name": "M", "config": config})
    site.client.say(b"".join(b"PUB m.%d 0\r\n\r\n" % number for number in range(50 * scale)))
    assert site.count() == 50 * scale


def holes(site: Site, scale: int) -> None:
    messages(site, scale, subjects=2)
    site.ask("STREAM.PURGE.M", {"filter": "m.1"})


def taken(site: Site, scale: int, retention: str = "limits", policy: str = "all", **more: Any) -> None:
    """A consumer has got all messages, and acknowledged none."""
    site.ask("STREAM.CREATE.M", {"name": "M", "subjects": ["m.*"], "retention": retention})
    config = {"durable_name": "d", "ack_policy": policy, "max_ack_pending": -1, **more}
    site.ask("CONSUMER.DURABLE.CREATE.M.d", {"stream_name": "M", "config": config})
    site.client.say(b"PUB m.0 0\r\n\r\n" * (50 * scale))
    site.client.say(b"PUB $JS.API.CONSUMER.MSG.NEXT.M.d _INBOX 5\r\n%05d\r\n" % (50 * scale))
    assert len(site.account.stream("M").consumers["d"].ledger.pending) == 50 * scale
    site.loop.advance(1.0)  # the journal hears of the deliveries


def acknowledge_all(site: Site) -> None:
    ledger = site.account.stream("M").consumers["d"].ledger
    last = ledger.delivered_sseq
    site.client.say(b"PUB $JS.ACK.M.d.1.%d.%d.0.0 _INBOX 4\r\n+ACK\r\n" % (last, last))
    site.loop.run_ready()
    assert not ledger.pending


def pending(site: Site) -> int:
    return len(site.account.stream("M").consumers["d"].ledger.pending)


def time_ends(site: Site) -> None:
    """Let no message be acknowledged in time."""
    ledger = site.account.stream("M").consumers["d"].ledger
    count = pending(site)
    site.pass_time(31)
    site.pass_time(1)
    assert ledger.waiting_again == count or (not ledger.pending and len(ledger.redelivered) == count)


def say_of_each(site: Site, word: bytes) -> None:
    """A client says the same of all messages, and the journal hears of it."""
    line = b"PUB $JS.ACK.M.d.1.%d.%d.0.0 %d\r\n%b\r\n"
    site.say_in_chunks([line % (seq, seq, len(word), word) for seq in range(1, pending(site) + 1)])
    site.pass_time(1.0)


def write_checkpoint(site: Site) -> None:
    """The journal of the consumers has grown, so all states are written again."""
    manager = site.account.stream("M").consumers
    journal: Any = manager.journal
    journal._untidy = True
    site.broker.turns.run("turn", manager.checkpoint_if_due)
    assert journal.checkpointing
    site.loop.run_ready()
    assert not journal.checkpointing


def open_letters(site: Site, scale: int) -> None:
    """Dead letters that are not durable in their stream."""
    site.ask("STREAM.CREATE.M", {"name": "M", "subjects": ["m.*"]})
    config = {"durable_name": "d", "ack_policy": "explicit"}
    site.ask("CONSUMER.DURABLE.CREATE.M.d", {"stream_name": "M", "config": config})
    journal: Any = site.account.stream("M").consumers.journal
    for number in range(50 * scale):
        journal.put_letter(OpenLetter("d", 1, number, "letters", number, b"dead", b"", b""))
    site.loop.run_ready()


def change_consumer(site: Site, **config: Any) -> None:
    plain = {"durable_name": "d", "ack_policy": "explicit", "max_ack_pending": -1}
    body = {"stream_name": "M", "config": {**plain, **config}}
    site.ask("CONSUMER.DURABLE.CREATE.M.d", body)
    site.loop.run_ready()


def asked(site: Site, scale: int) -> None:
    """Let many requests wait for messages."""
    site.ask("STREAM.CREATE.M", {"name": "M", "subjects": ["m.*"]})
    config = {"durable_name": "d", "ack_policy": "explicit", "max_waiting": 50 * scale}
    site.ask("CONSUMER.DURABLE.CREATE.M.d", {"stream_name": "M", "config": config})
    body = b'{"batch":1,"expires":30000000000}'
    line = b"PUB $JS.API.CONSUMER.MSG.NEXT.M.d _INBOX %d\r\n%b\r\n" % (len(body), body)
    site.say_in_chunks([line] * (50 * scale))


def requests_expire(site: Site) -> None:
    waiting: Any = site.account.stream("M").consumers["d"].mode
    assert waiting.waiting.count
    site.pass_time(31)
    site.pass_time(1)
    assert not waiting.waiting.count


def scheduled(site: Site, scale: int) -> None:
    """Messages that were put off until the same moment."""
    site.ask("STREAM.CREATE.M", {"name": "M", "subjects": ["m.*", "t"], "allow_msg_schedules": True})
    head = b"NATS/1.0\r\nNats-Schedule: @at 2023-11-14T22:14:00Z\r\nNats-Schedule-Target: t\r\n\r\n"
    line = b"HPUB m.%d %d %d\r\n%b\r\n"
    size = len(head)
    site.say_in_chunks([line % (number, size, size, head) for number in range(10 * scale)])
    assert site.count() == 10 * scale


def schedules_fire(site: Site) -> None:
    count = site.count()
    site.pass_time(60)
    assert site.account.stream("M").log.last_seq == 2 * count


def take_one_each(site: Site) -> None:
    """Each consumer gets a message, which the journal hears of later, of all at once."""
    site.client.say(b"PUB m.1 0\r\n\r\n")
    for name in site.account.stream("M").consumers:
        site.client.say(b"PUB $JS.API.CONSUMER.MSG.NEXT.M.%b _INBOX 1\r\n1\r\n" % name.encode())
    site.loop.advance(1.0)


def mostly_removed(site: Site, scale: int) -> None:
    """A sealed segment of which little is left."""
    messages(site, scale, subjects=25 * scale)
    log = site.account.stream("M").log
    for seq in range(1, 50 * scale):
        if seq % 3:
            log.remove(seq)
    log.roll()
    site.account.committer.dirty(site.account.stream("M"))
    site.loop.run_ready()


def in_many_files(site: Site, scale: int) -> None:
    """A stream of many segments with a message each."""
    site.ask("STREAM.CREATE.M", {"name": "M", "subjects": ["m.*"]})
    stream = site.account.stream("M")
    for number in range(scale):
        site.client.say(b"PUB m.%d 0\r\n\r\n" % number)
        stream.log.roll()
        site.account.committer.dirty(stream)
        site.loop.run_ready()
    assert len(layout(stream.log)) == scale + 1


def compact(site: Site) -> None:
    stream = site.account.stream("M")
    before = layout(stream.log)[0].size
    site.loop.advance(5.0)
    assert layout(stream.log)[0].size < before


def expire(site: Site, seconds: float, *, left: int = 0) -> None:
    """Wait until all messages are due, but not for the compaction that follows."""
    count = site.count()
    site.wait(seconds)
    assert site.count() == (count if left else 0)


def roll_up(site: Site, kind: str) -> None:
    """A message takes the place of all others."""
    block = f"NATS/1.0\r\nNats-Rollup: {kind}\r\n\r\n".encode()
    answer = site.client.say(b"HPUB m.0 _INBOX %d %d\r\n%b\r\n" % (len(block), len(block), block))
    assert b'"seq":' in answer
    assert site.count() == 1


def delete_in_one_commit(site: Site) -> None:
    """Messages are deleted one by one while the disk is slow, so all requests wait for the same commit."""
    site.worker.hold()
    count = site.count()
    requests = [b'{"seq":%d}' % seq for seq in range(1, count + 1, 2)]
    lines = [b"PUB $JS.API.STREAM.MSG.DELETE.M _INBOX %d\r\n%b\r\n" % (len(each), each) for each in requests]
    site.say_in_chunks(lines)
    site.worker.let_go()
    site.loop.run_ready()
    assert site.count() == count // 2
    assert site.account.api_total > count // 2


def limit_subjects(site: Site) -> None:
    site.ask("STREAM.UPDATE.M", {"name": "M", "subjects": ["m.*"], "max_msgs_per_subject": 1})
    log = site.account.stream("M").log
    assert log.messages == log.subject_count


def delete_consumer(site: Site) -> None:
    site.ask("CONSUMER.DELETE.M.all")
    site.loop.run_ready()
    assert site.count() == 0


def _subjects(count: int, word: str = "s") -> list[str]:
    return [f"{word}.{number}.{'x' * 200}" for number in range(count)]


def configured(site: Site, scale: int) -> None:
    """A stream with many subjects in its configuration, beside others."""
    site.ask("STREAM.CREATE.A", {"name": "A", "subjects": _subjects(20 * scale, "a")})
    site.ask("STREAM.CREATE.S", {"name": "S", "subjects": _subjects(20 * scale)})


def direct(site: Site, scale: int) -> None:
    messages(site, scale, subjects=10 * scale, allow_direct=True)


def get_directly(site: Site, request: bytes) -> bytes:
    answer = site.client.say(b"PUB $JS.API.DIRECT.GET.M _INBOX %d\r\n%b\r\n" % (len(request), request))
    site.loop.run_ready()
    return answer + site.client.heard()


def listeners(site: Site, scale: int) -> None:
    """A client with many subscriptions to one subject."""
    site.say_to(site.other, [b"SUB wide %d\r\n" % number for number in range(50 * scale)])


def audience(site: Site, scale: int) -> None:
    """Let many clients subscribe to one subject; a delivery runs a hundred lines of interpreted code."""
    for _ in range(max(scale // 2, 1) if pure_requested() else 5 * scale):
        site.join().say(b"SUB wide 1\r\n")


def publish_wide(site: Site) -> None:
    site.client.say(b"PUB wide 2\r\nhi\r\n")
    receivers = [each for each in site.broker.connections.values() if each.out_messages]
    expected = sum(len(each.subscriptions) for each in receivers)
    assert sum(each.out_messages for each in receivers) == expected


def reload_options(site: Site) -> None:
    """Limits and imports of all clients change."""
    new = msgspec.structs.replace(site.broker.options, max_payload=5000)
    pieces = reload.apply_in_slices(site.broker, new, ClientAuthenticator(new))
    site.broker.turns.in_slices("reload", pieces)
    site.loop.run_ready()
    assert all(each.parser.max_payload == 5000 for each in site.broker.connections.values())


def importers(site: Site, scale: int) -> None:
    """Many accounts that import a service."""
    reload_accounts(site, 4 * scale, "svc.*")


def reload_accounts(site: Site, count: int, exported: str) -> None:
    """Reload a configuration with so many accounts that import one subject."""
    service = Export(kind=ExportKind.SERVICE, subject=exported)
    imported = Import(kind=ExportKind.SERVICE, account="X", subject=exported)
    many = (AccountOptions(name=f"A{number}", imports=(imported,)) for number in range(count))
    accounts = (AccountOptions(name="X", exports=(service,)), *many)
    new = msgspec.structs.replace(site.broker.options, accounts=accounts)
    pieces = reload.apply_in_slices(site.broker, new, ClientAuthenticator(new))
    site.broker.turns.in_slices("reload", pieces)
    site.loop.run_ready()
    assert len(site.broker.accounts) == count + 3


def _consumer(**config: Any) -> Any:
    return {"stream_name": "M", "config": {"durable_name": "new", "ack_policy": "explicit", **config}}


# Name, what the server holds, what is asked of it.
OPERATIONS: list[tuple[str, Hold, Callable[[Site], Any]]] = [
    ("stream names", streams, lambda site: site.ask("STREAM.NAMES")),
    ("stream names by subject", streams, lambda site: site.ask("STREAM.NAMES", {"subject": "s.*"})),
    ("stream list", streams, lambda site: site.ask("STREAM.LIST", {"offset": 300})),
    ("info with subjects", messages, lambda site: site.ask("STREAM.INFO.M", {"subjects_filter": ">"})),
    ("info with deleted", holes, lambda site: site.ask("STREAM.INFO.M", {"deleted_details": True})),
    ("consumer names", consumers, lambda site: site.ask("CONSUMER.NAMES.M")),
    ("consumer list", consumers, lambda site: site.ask("CONSUMER.LIST.M")),
    ("jsz consumers", consumers, lambda site: site.document(site.view().jsz(JszOptions(consumer=True)))),
    ("health", streams, lambda site: site.make(site.view().health(HealthzOptions()))),
    ("stream metrics", streams, lambda site: site.make(table_text(site.view().stream_metrics()))),
    (
        "connz",
        clients,
        lambda site: site.document(connz(site.server(), ConnzOptions(limit=3000, sort="subs"))),
    ),
    (
        "connz of a subject",
        subscriptions,
        lambda site: site.document(
            connz(site.server(), ConnzOptions(account="$G", filter_subject="x", subscriptions_detail=True))
        ),
    ),
    (
        "connz with subscriptions",
        subscriptions,
        lambda site: site.document(connz(site.server(), ConnzOptions(subscriptions=True))),
    ),
    (
        "subsz",
        subscriptions,
        lambda site: site.document(subsz(site.server(), SubszOptions(subscriptions=True, limit=3000))),
    ),
    ("traffic", clients, lambda site: site.make(server_traffic(site.broker))),
    ("pending", clients, lambda site: site.make(pending_bytes(site.broker))),
    (
        "account",
        subscriptions,
        lambda site: site.document(accountz(site.server(), AccountzOptions(account="$G"))),
    ),
    ("account statz", clients, lambda site: site.document(account_statz(site.server()))),
    (
        "subscribers",
        subscriptions,
        lambda site: site.make(count_subscribers(site.broker.global_account, b"a.>")),
    ),
    (
        "jsz",
        streams,
        lambda site: site.document(site.view().jsz(JszOptions(streams=True, consumer=True, config=True))),
    ),
    ("account info", streams, lambda site: site.ask("INFO")),
    ("create a stream", streams, partial(Site.ask, endpoint="STREAM.CREATE.X", body={"name": "X"})),
    ("delete a stream", few_subjects, lambda site: site.ask("STREAM.DELETE.M")),
    ("delete a stream with many consumers", consumers, lambda site: site.ask("STREAM.DELETE.M")),
    ("delete one of many streams", streams, lambda site: site.ask("STREAM.DELETE.S3")),
    ("purge all", messages, lambda site: site.ask("STREAM.PURGE.M")),
    ("purge half", messages, lambda site: site.ask("STREAM.PURGE.M", {"keep": 2500})),
    ("purge subjects", messages, lambda site: site.ask("STREAM.PURGE.M", {"filter": "m.*"})),
    (
        "lower a limit",
        messages,
        partial(
            Site.ask, endpoint="STREAM.UPDATE.M", body={"name": "M", "subjects": ["m.*"], "max_msgs": 10}
        ),
    ),
    ("purge many files", in_many_files, lambda site: site.ask("STREAM.PURGE.M")),
    ("purge all but one of many files", in_many_files, lambda site: site.ask("STREAM.PURGE.M", {"keep": 1})),
    ("old messages go", aging, lambda site: expire(site, 60.2)),
    ("old messages go that are not acknowledged", awaited, lambda site: expire(site, 60.2)),
    ("messages expire", expiring, lambda site: expire(site, 60.2)),
    ("messages leave markers", marked, lambda site: expire(site, 3600.2, left=1)),
    ("a rollup of a subject", one_subject, lambda site: roll_up(site, "sub")),
    ("a rollup of all", replaceable, lambda site: roll_up(site, "all")),
    ("lower the limit of each subject", excessive, limit_subjects),
    ("delete a consumer that messages are kept for", needed, delete_consumer),
    (
        "consumer in the middle",
        messages,
        lambda site: site.ask(
            "CONSUMER.DURABLE.CREATE.M.new",
            _consumer(deliver_policy="by_start_sequence", opt_start_seq=2500, filter_subject="m.3"),
        ),
    ),
    (
        "consumer of the last of each subject",
        messages,
        lambda site: site.ask(
            "CONSUMER.DURABLE.CREATE.M.new",
            _consumer(deliver_policy="last_per_subject", filter_subject="m.>"),
        ),
    ),
    ("an ack of all", partial(taken, retention="limits"), acknowledge_all),
    ("an ack of all that are kept for it", partial(taken, retention="interest"), acknowledge_all),
    ("time for acks ends", partial(taken, policy="explicit"), time_ends),
    ("messages are given up", partial(taken, policy="explicit", max_deliver=1), time_ends),
    ("all are in progress", partial(taken, policy="explicit"), lambda site: say_of_each(site, b"+WPI")),
    ("all are refused", partial(taken, policy="explicit"), lambda site: say_of_each(site, b"-NAK")),
    ("all are terminated", partial(taken, policy="explicit"), lambda site: say_of_each(site, b"+TERM")),
    ("a checkpoint of what is not acknowledged", partial(taken, policy="explicit"), write_checkpoint),
    ("a checkpoint of dead letters", open_letters, write_checkpoint),
    (
        "another time for acks",
        partial(taken, policy="explicit"),
        lambda site: change_consumer(site, ack_wait=60_000_000_000),
    ),
    (
        "other waiting times",
        partial(taken, policy="explicit"),
        lambda site: change_consumer(site, backoff=[60_000_000_000, 90_000_000_000], max_deliver=5),
    ),
    (
        "begin anew",
        partial(taken, policy="explicit"),
        lambda site: site.ask("CONSUMER.RESET.M.d"),
    ),
    ("purge what is not acknowledged", taken, lambda site: site.ask("STREAM.PURGE.M")),
    (
        "purge a subject that is not acknowledged",
        taken,
        lambda site: site.ask("STREAM.PURGE.M", {"filter": "m.*"}),
    ),
    (
        "lower a limit of what is not acknowledged",
        taken,
        partial(
            Site.ask, endpoint="STREAM.UPDATE.M", body={"name": "M", "subjects": ["m.*"], "max_msgs": 10}
        ),
    ),
    ("delete a consumer that waits for acks", taken, lambda site: site.ask("CONSUMER.DELETE.M.d")),
    ("requests expire", asked, requests_expire),
    ("schedules fire", scheduled, schedules_fire),
    ("many consumers are written", consumers, take_one_each),
    ("a segment is compacted", mostly_removed, compact),
    ("a message to many subscriptions", listeners, publish_wide),
    ("a message to many clients", audience, publish_wide),
    ("a reload with many clients", audience, reload_options),
    ("accounts come", importers, lambda site: reload_accounts(site, 700, "svc.*")),
    ("imports change", importers, lambda site: reload_accounts(site, 400, "other.*")),
    ("accounts go", importers, lambda site: reload_accounts(site, 0, "svc.*")),
    (
        "a subscriber leaves",
        subscriptions,
        lambda site: site.leave(),
    ),
]
if not pure_requested():  # interpreted, reading the requests takes too long itself
    OPERATIONS += [
        (
            "create a stream with many subjects",
            configured,
            lambda site: site.ask("STREAM.CREATE.T", {"name": "T", "subjects": _subjects(2000, "t")}),
        ),
        (
            "exchange many subjects",
            configured,
            lambda site: site.ask("STREAM.UPDATE.S", {"name": "S", "subjects": _subjects(2000, "t")}),
        ),
        (
            "update a stream beside one with many subjects",
            configured,
            lambda site: site.ask("STREAM.UPDATE.S", {"name": "S", "subjects": ["s"]}),
        ),
        ("delete a stream with many subjects", configured, lambda site: site.ask("STREAM.DELETE.S")),
        (
            "the last of each before another",
            direct,
            lambda site: get_directly(site, b'{"multi_last":["m.*"],"up_to_seq":2500}'),
        ),
        (
            "too many last ones",
            replaceable,
            lambda site: get_directly(site, b'{"multi_last":["m.*"],"up_to_seq":1}'),
        ),
        ("many requests wait for one commit", few_subjects, delete_in_one_commit),
    ]

NAMES = [name for name, _, _ in OPERATIONS]
CHANGING = NAMES[NAMES.index("create a stream") :]


filled_once = functools.cache(filled)  # for all operations that leave the server as it is


@pytest.mark.parametrize(("name", "hold", "operate"), OPERATIONS, ids=NAMES)
def test_no_step_does_much(name: str, hold: Hold, operate: Callable[[Site], Any]) -> None:
    small = Site()
    hold(small, 1)
    operate(small)  # what is made once in a process is no work of the step
    site = filled(hold) if name in CHANGING else filled_once(hold)
    site.watchdog.long_steps.clear()
    with site.clock:
        operate(site)
    assert_short_steps(site)
