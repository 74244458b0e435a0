"""Messages that cross the border between accounts, and those that do not."""

import re

import pytest

from millstream.broker import imports as broker_imports
from millstream.broker.broker import Broker
from millstream.broker.options import AccountOptions, Export, ExportKind, Import, ResponseType
from tests.kits.broker import client, loop_of, make_accounts
from tests.kits.fake_transport import FakeClient


def stream(subject: str) -> Export:
    return Export(kind=ExportKind.STREAM, subject=subject)


def service(subject: str, kind: ResponseType = ResponseType.SINGLETON, threshold_s: float = 120.0) -> Export:
    return Export(
        kind=ExportKind.SERVICE, subject=subject, response_type=kind, response_threshold_s=threshold_s
    )


def take(kind: ExportKind, account: str, subject: str, to: str = "", prefix: str = "") -> Import:
    return Import(kind=kind, account=account, subject=subject, to=to, prefix=prefix)


def streams(subject: str, *imports: tuple[str, str], prefix: str = "") -> Broker:
    """EX exports `subject`; IM imports each (subject, to)."""
    taken = tuple(take(ExportKind.STREAM, "EX", each, to, prefix) for each, to in imports)
    return make_accounts(
        AccountOptions(name="EX", exports=(stream(subject),)), AccountOptions(name="IM", imports=taken)
    )


def services(export: Export, *imports: tuple[str, str]) -> Broker:
    taken = tuple(take(ExportKind.SERVICE, "EX", each, to) for each, to in imports)
    return make_accounts(
        AccountOptions(name="EX", exports=(export,)), AccountOptions(name="IM", imports=taken)
    )


def plain(wire: bytes) -> bytes:
    """Messages without the header block that tells a service who asks."""
    return re.sub(
        rb"HMSG (\S+ \S+ (?:\S+ )?)\d+ \d+\r\nNATS/1\.0\r\n(?:[^\r]+\r\n)+\r\n(.*?)\r\n",
        rb"MSG \1\2\r\n",
        wire,
    )


def reply_of(wire: bytes) -> bytes:
    return wire.split()[3]


# -- streams ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exported", "to", "subscribed", "published", "seen"),
    [
        ("foo", "", b"foo", b"foo", b"foo"),
        ("foo", "", b"*", b"foo", b"foo"),
        ("foo", "", b">", b"foo", b"foo"),
        ("foo.*", "", b"foo.a", b"foo.a", b"foo.a"),
        ("foo.*", "", b"foo.a", b"foo.b", None),
        ("foo.*", "", b"foo.*", b"foo.b", b"foo.b"),
        ("foo.*", "", b">", b"foo.b", b"foo.b"),
        ("foo.>", "", b"foo.*.c", b"foo.b.c", b"foo.b.c"),
        ("foo.>", "", b"foo.*.c", b"foo.b.d", None),
        ("foo.>", "", b"bar.>", b"foo.b", None),
        ("foo", "bar.baz", b"bar.*", b"foo", b"bar.baz"),
        ("foo", "bar.baz", b"foo", b"foo", None),
        ("foo.*", "bar.$1", b"bar.a", b"foo.a", b"bar.a"),
        ("foo.*", "bar.$1", b"bar.a", b"foo.b", None),
        ("foo.*", "bar.$1", b"bar.*", b"foo.b", b"bar.b"),
        ("foo.*", "bar.*", b"bar.>", b"foo.b", b"bar.b"),
        ("foo.*.*", "bar.$2.$1", b"bar.>", b"foo.a.b", b"bar.b.a"),
        ("foo.*.*", "bar.$2.$1", b"bar.b.*", b"foo.a.b", b"bar.b.a"),
        ("foo.*.*", "bar.$2.$1", b"bar.a.*", b"foo.a.b", None),
        ("foo.>", "bar.>", b"bar.x.*", b"foo.x.y", b"bar.x.y"),
        ("foo.>", "bar.>", b"bar.x.*", b"foo.z.y", None),
    ],
)
def test_a_stream_import_shows_what_a_subscription_covers_under_the_local_name(
    exported: str, to: str, subscribed: bytes, published: bytes, seen: bytes | None
) -> None:
    broker = streams(exported, (exported, to))
    sender, receiver = client(broker, "EX"), client(broker, "IM")
    receiver.say(b"SUB %b 1\r\n" % subscribed)
    sender.say(b"PUB %b inbox 2\r\nhi\r\n" % published)
    assert receiver.heard() == (b"" if seen is None else b"MSG %b 1 inbox 2\r\nhi\r\n" % seen)


def test_an_import_of_a_part_shows_that_part() -> None:
    broker = streams("foo.>", ("foo.a.*", ""))
    sender, receiver = client(broker, "EX"), client(broker, "IM")
    receiver.say(b"SUB > 1\r\n")
    sender.say(b"PUB foo.a.x 0\r\n\r\nPUB foo.b.x 0\r\n\r\nPUB foo.a 0\r\n\r\n")
    assert receiver.heard() == b"MSG foo.a.x 1 0\r\n\r\n"


def test_a_prefix_stands_before_the_subject() -> None:
    broker = streams("foo.*", ("foo.*", ""), prefix="from.ex.")
    sender, receiver = client(broker, "EX"), client(broker, "IM")
    receiver.say(b"SUB from.> 1\r\nSUB foo.* 2\r\n")
    sender.say(b"PUB foo.a 0\r\n\r\n")
    assert receiver.heard() == b"MSG from.ex.foo.a 1 0\r\n\r\n"


def test_a_stream_flows_one_way_only() -> None:
    broker = streams("foo", ("foo", ""))
    exporter, importer = client(broker, "EX"), client(broker, "IM")
    exporter.say(b"SUB foo 1\r\n")
    importer.say(b"SUB foo 1\r\n")
    importer.say(b"PUB foo 0\r\n\r\n")
    assert exporter.heard() == b""


def test_local_and_imported_messages_meet_in_one_subscription() -> None:
    broker = streams("foo", ("foo", ""))
    exporter, importer = client(broker, "EX"), client(broker, "IM")
    importer.say(b"SUB foo 1\r\n")
    exporter.say(b"PUB foo 1\r\n1\r\n")
    assert importer.say(b"PUB foo 1\r\n2\r\n") == b"MSG foo 1 1\r\n1\r\nMSG foo 1 1\r\n2\r\n"


def test_a_queue_shares_the_stream_across_the_border() -> None:
    broker = streams("foo.*", ("foo.*", ""))
    sender, local = client(broker, "EX"), client(broker, "EX")
    members = [client(broker, "IM") for _ in range(2)]
    local.say(b"SUB foo.a q 1\r\n")
    members[0].say(b"SUB foo.a q 1\r\n")
    members[1].say(b"SUB foo.* q 1\r\n")
    sender.say(b"PUB foo.a 0\r\n\r\n" * 60)
    shares = [each.heard().count(b"MSG") for each in (local, *members)]
    assert sum(shares) == 60
    assert min(shares) > 5


def test_unsub_ends_the_view_into_the_other_account() -> None:
    broker = streams("foo.*", ("foo.*", "bar.$1"))
    sender, receiver = client(broker, "EX"), client(broker, "IM")
    receiver.say(b"SUB bar.* 1\r\nUNSUB 1\r\n")
    sender.say(b"PUB foo.a 0\r\n\r\n")
    assert receiver.heard() == b""
    assert broker.accounts["EX"].space.tree.root.is_empty()


def test_unsub_after_a_number_counts_local_and_imported_messages_together() -> None:
    broker = streams("foo", ("foo", ""))
    sender, receiver = client(broker, "EX"), client(broker, "IM")
    receiver.say(b"SUB foo 1\r\nUNSUB 1 3\r\n")
    sender.say(b"PUB foo 0\r\n\r\n" * 2)
    receiver.connection.broker.publish(broker.accounts["IM"], b"foo", b"")
    sender.say(b"PUB foo 0\r\n\r\n" * 5)
    assert receiver.heard() == b"MSG foo 1 0\r\n\r\n" * 3
    assert len(receiver.connection.subscriptions) == 0
    assert broker.accounts["EX"].space.tree.count == 0
    assert broker.accounts["IM"].space.tree.count == 0


def test_a_client_that_leaves_takes_its_views_along() -> None:
    broker = streams("foo.*", ("foo.*", ""), ("foo.a", "alias"))
    receiver = client(broker, "IM")
    receiver.say(b"SUB > 1\r\nSUB foo.a q 2\r\n")
    assert broker.accounts["EX"].space.tree.count == 3
    receiver.transport.peer_closes()
    loop_of(broker).run_ready()
    assert broker.accounts["EX"].space.tree.count == 0


def test_an_imported_message_is_held_back_by_permissions_under_its_local_name() -> None:
    broker = streams("foo.*", ("foo.*", "bar.$1"))
    sender, receiver = client(broker, "EX"), client(broker, "IM")
    receiver.say(b"SUB bar.* 1\r\n")

    class DenyB:
        def delivery_denied(self, subject: bytes, queue: bytes | None) -> bool:
            return subject == b"bar.b"

    receiver.connection.permissions = DenyB()
    receiver.connection.filters_deliveries = True
    sender.say(b"PUB foo.a 0\r\n\r\nPUB foo.b 0\r\n\r\n")
    assert receiver.heard() == b"MSG bar.a 1 0\r\n\r\n"


def test_no_account_hears_what_it_did_not_import() -> None:
    broker = make_accounts(
        AccountOptions(name="EX", exports=(stream("foo"),)),
        AccountOptions(name="IM", imports=(take(ExportKind.STREAM, "EX", "foo"),)),
        AccountOptions(name="OTHER"),
    )
    sender, other = client(broker, "EX"), client(broker, "OTHER")
    other.say(b"SUB > 1\r\n")
    sender.say(b"PUB foo 0\r\n\r\n")
    assert other.heard() == b""


def test_wiring_anew_keeps_subscriptions_and_views() -> None:
    broker = streams("foo.*", ("foo.*", ""))
    sender, receiver = client(broker, "EX"), client(broker, "IM")
    receiver.say(b"SUB foo.a 1\r\n")
    broker.imports.wire()
    broker.imports.wire()
    sender.say(b"PUB foo.a 0\r\n\r\n")
    assert receiver.heard() == b"MSG foo.a 1 0\r\n\r\n"
    assert broker.accounts["EX"].space.tree.count == 1


# -- services ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exported", "to", "asked", "arrives"),
    [
        ("help", "", b"help", b"help"),
        ("help", "desk.help", b"desk.help", b"help"),
        ("help", "desk.help", b"help", None),
        ("help.*", "", b"help.me", b"help.me"),
        ("help.*", "desk.$1", b"desk.me", b"help.me"),
        ("help.*", "desk.*", b"desk.me", b"help.me"),
        ("help.*.*", "desk.$2.$1", b"desk.a.b", b"help.b.a"),
        ("help.>", "", b"help.a.b", b"help.a.b"),
    ],
)
def test_a_request_arrives_under_the_exporters_name_and_the_answer_comes_back(
    exported: str, to: str, asked: bytes, arrives: bytes | None
) -> None:
    broker = services(service(exported), (exported, to))
    server, asker = client(broker, "EX"), client(broker, "IM")
    server.say(b"SUB > 1\r\n")
    asker.say(b"SUB inbox.* 9\r\n")
    asker.say(b"PUB %b inbox.7 2\r\nhi\r\n" % asked)
    request = server.heard()
    if arrives is None:
        assert request == b""
        return
    assert re.fullmatch(rb"MSG %b 1 _R_\.\S+ hi\r\n" % re.escape(arrives), plain(request))
    server.say(b"PUB %b 3\r\nyes\r\n" % reply_of(request))
    assert asker.heard() == b"MSG inbox.7 9 3\r\nyes\r\n"


def ask(asker: FakeClient, server: FakeClient, subject: bytes = b"help", inbox: bytes = b"inbox.7") -> bytes:
    """Send a request; the reply subject that the service sees."""
    asker.say(b"PUB %b %b 0\r\n\r\n" % (subject, inbox))
    return reply_of(server.heard())


def pair(export: Export) -> tuple[Broker, FakeClient, FakeClient]:
    broker = services(export, (export.subject, ""))
    server, asker = client(broker, "EX"), client(broker, "IM")
    server.say(b"SUB help 1\r\n")
    asker.say(b"SUB inbox.* 9\r\n")
    return broker, server, asker


def test_a_single_answer_is_all_there_is() -> None:
    _, server, asker = pair(service("help"))
    reply = ask(asker, server)
    server.say(b"PUB %b 1\r\n1\r\nPUB %b 1\r\n2\r\n" % (reply, reply))
    assert asker.heard() == b"MSG inbox.7 9 1\r\n1\r\n"


@pytest.mark.parametrize("kind", [ResponseType.STREAM, ResponseType.CHUNKED])
def test_a_service_may_answer_many_times_if_it_says_so(kind: ResponseType) -> None:
    _, server, asker = pair(service("help", kind))
    reply = ask(asker, server)
    server.say(b"PUB %b 1\r\n1\r\n" % reply * 4)
    assert asker.heard() == b"MSG inbox.7 9 1\r\n1\r\n" * 4


def test_an_answer_that_comes_too_late_is_not_delivered() -> None:
    broker, server, asker = pair(service("help", ResponseType.STREAM, threshold_s=5.0))
    reply = ask(asker, server)
    server.say(b"PUB %b 0\r\n\r\n" % reply)
    loop_of(broker).advance(5.1)
    for each in (server, asker):
        each.say(b"PONG\r\n")
        each.heard()
    server.say(b"PUB %b 0\r\n\r\n" % reply)
    assert asker.heard() == b""


def test_requests_that_nobody_answered_are_forgotten_in_time() -> None:
    broker, server, asker = pair(service("help", threshold_s=5.0))
    for _ in range(100):
        ask(asker, server)
    loop_of(broker).advance(5.1)
    ask(asker, server)
    assert len(broker.imports.responses(broker.accounts["EX"])._pending) == 1


def test_answers_find_their_asker_among_many() -> None:
    broker, server, first = pair(service("help"))
    second = client(broker, "IM")
    second.say(b"SUB box.* 3\r\n")
    one, two = ask(first, server), ask(second, server, inbox=b"box.1")
    server.say(b"PUB %b 1\r\n2\r\nPUB %b 1\r\n1\r\n" % (two, one))
    assert first.heard() == b"MSG inbox.7 9 1\r\n1\r\n"
    assert second.heard() == b"MSG box.1 3 1\r\n2\r\n"


def test_headers_of_request_and_answer_pass_the_border() -> None:
    _, server, asker = pair(service("help"))
    asker.say(b"HPUB help inbox.7 18 20\r\nNATS/1.0\r\nA: b\r\n\r\nhi\r\n")
    request = server.heard()
    assert b"\r\nA: b\r\n" in request
    assert request.endswith(b"\r\n\r\nhi\r\n")
    server.say(b"HPUB %b 12 13\r\nNATS/1.0\r\n\r\n!\r\n" % reply_of(request))
    assert asker.heard() == b"HMSG inbox.7 9 12 13\r\nNATS/1.0\r\n\r\n!\r\n"


@pytest.mark.parametrize("block", [b"", b"x", b"\r\n", b"garbage", b"NATS/1.0\r\n\r\n"])
def test_a_header_block_that_is_none_does_no_harm(block: bytes) -> None:
    _, server, asker = pair(service("help"))
    asker.say(b"HPUB help inbox.7 %d %d\r\n%b!\r\n" % (len(block), len(block) + 1, block))
    request = server.heard()
    assert request.endswith(b"!\r\n")
    size = int(request.split(b"\r\n")[0].split()[-1])
    assert len(request) == request.index(b"\r\n") + 2 + size + 2


def test_a_service_without_subscribers_has_no_responders() -> None:
    broker = services(service("help"), ("help", ""))
    asker = client(broker, "IM", no_responders=True)
    asker.say(b"SUB inbox.* 9\r\n")
    assert b"NATS/1.0 503" in asker.say(b"PUB help inbox.7 0\r\n\r\n")
    assert len(broker.imports.responses(broker.accounts["EX"])._pending) == 0


def test_servers_in_a_queue_share_the_requests() -> None:
    broker = services(service("help"), ("help", ""))
    servers = [client(broker, "EX") for _ in range(2)]
    for each in servers:
        each.say(b"SUB help q 1\r\n")
    client(broker, "IM").say(b"PUB help 0\r\n\r\n" * 50)
    shares = [each.heard().count(b"HMSG") for each in servers]
    assert sum(shares) == 50
    assert min(shares) > 5


def test_a_service_is_asked_through_two_borders_and_answers_through_both() -> None:
    broker = make_accounts(
        AccountOptions(name="C", exports=(service("c"),)),
        AccountOptions(name="B", exports=(service("b"),), imports=(take(ExportKind.SERVICE, "C", "c", "b"),)),
        AccountOptions(name="A", imports=(take(ExportKind.SERVICE, "B", "b", "a"),)),
    )
    asker, middle, server = client(broker, "A"), client(broker, "B"), client(broker, "C")
    middle.say(b"SUB x 1\r\n")
    server.say(b"SUB c 1\r\n")
    asker.say(b"SUB inbox 9\r\nPUB a inbox 2\r\nhi\r\n")
    request = server.heard()
    assert plain(request).startswith(b"MSG c 1 _R_.")
    server.say(b"PUB %b 2\r\nyo\r\n" % reply_of(request))
    assert asker.heard() == b"MSG inbox 9 2\r\nyo\r\n"
    assert middle.heard() == b""


def test_the_reply_subject_tells_nothing_of_the_asker_and_is_never_the_same() -> None:
    _, server, asker = pair(service("help"))
    replies = {ask(asker, server) for _ in range(20)}
    assert len(replies) == 20
    assert not any(b"inbox" in reply for reply in replies)


def test_an_answer_to_a_reply_that_was_never_given_goes_nowhere() -> None:
    _, server, asker = pair(service("help"))
    reply = ask(asker, server)
    server.say(b"PUB %b1 0\r\n\r\nPUB %b.x 0\r\n\r\nPING\r\n" % (reply, reply))
    assert asker.heard() == b""


# -- circles ----------------------------------------------------------------------------------------


def circle(names: str, kind: ExportKind) -> Broker:
    """Accounts that each import `x` from every other: no configuration file can say this."""
    export = service("x") if kind is ExportKind.SERVICE else stream("x")
    return make_accounts(
        *(
            AccountOptions(
                name=name,
                exports=(export,),
                imports=tuple(take(kind, other, "x") for other in names if other != name),
            )
            for name in names
        )
    )


@pytest.mark.timeout(20)
@pytest.mark.parametrize("names", ["AB", "ABC"])
@pytest.mark.parametrize("kind", list(ExportKind))
def test_imports_in_a_circle_come_to_an_end(names: str, kind: ExportKind) -> None:
    broker = circle(names, kind)
    clients = [client(broker, name) for name in names]
    for each in clients:
        each.say(b"SUB x 1\r\n")
    clients[0].say(b"PUB x reply 0\r\n\r\nPING\r\n")
    assert not any(each.closed for each in clients)
    assert all(b"MSG x 1 " in each.heard() for each in clients[1:])


def test_answers_that_never_come_are_waited_for_in_bounded_number(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(broker_imports, "_MOST_PENDING", 10)
    broker = services(service("q"), ("q", ""))
    server, asker = client(broker, "EX"), client(broker, "IM")
    server.say(b"SUB q 1\r\n")
    asker.say(b"SUB in.* 1\r\n")
    asker.say(b"".join(b"PUB q in.%d 0\r\n\r\n" % number for number in range(25)))
    replies = re.findall(rb"HMSG q 1 (\S+) ", server.heard())
    assert len(replies) == 25
    for reply in replies:
        server.say(b"PUB %b 0\r\n\r\n" % reply)
    answered = re.findall(rb"MSG in\.(\d+) ", asker.heard())
    assert answered == [b"%d" % number for number in range(15, 25)]
    assert sum("wait for answers" in message for message in caplog.messages) == 1
