"""Messages to clients of another account, who asked through an imported service."""

from millstream.broker.broker import Broker
from millstream.broker.options import AccountOptions, Export, ExportKind, Import, ResponseType
from millstream.broker.outlet import SubjectOutlet
from millstream.broker.reply_outlet import ReplyOutlet, outlet_to
from millstream.protocol.outlet import Outlet
from millstream.protocol.parser import make_frame
from tests.kits.broker import client, loop_of, make_accounts
from tests.kits.fake_transport import FakeClient

MESSAGE = make_frame(b"ack", None, b"hi")


def asked(kind: ResponseType, *, threshold_s: float = 120.0) -> tuple[Broker, FakeClient, Outlet]:
    """A client of IM has asked a service of EX; an outlet for the reply subject that EX saw."""
    export = Export(
        kind=ExportKind.SERVICE, subject="pull", response_type=kind, response_threshold_s=threshold_s
    )
    taken = Import(kind=ExportKind.SERVICE, account="EX", subject="pull", to="")
    broker = make_accounts(
        AccountOptions(name="EX", exports=(export,)), AccountOptions(name="IM", imports=(taken,))
    )
    service, requester = client(broker, "EX"), client(broker, "IM")
    service.say(b"SUB pull 1\r\n")
    requester.say(b"SUB inbox 1\r\nPUB pull inbox 0\r\n\r\n")
    reply = service.heard().split()[3]
    assert reply.startswith(b"_R_.")
    return broker, requester, outlet_to(broker.imports, broker.accounts["EX"], reply)


def test_a_message_crosses_the_border_under_its_own_subject() -> None:
    broker, requester, outlet = asked(ResponseType.STREAM)
    assert isinstance(outlet, ReplyOutlet)
    assert (outlet.has_interest(), outlet.behind()) == (True, False)
    assert [outlet.send(b"orders", MESSAGE), outlet.send(b"orders.new", MESSAGE)] == [1, 1]
    broker.tick.flush()
    assert requester.heard() == b"MSG orders 1 ack 2\r\nhi\r\nMSG orders.new 1 ack 2\r\nhi\r\n"


def test_an_answer_crosses_the_border_under_the_name_that_the_requester_gave() -> None:
    broker, requester, outlet = asked(ResponseType.STREAM)
    assert isinstance(outlet, ReplyOutlet)
    assert [outlet.send(outlet.destination, MESSAGE) for _ in range(2)] == [1, 1]
    broker.tick.flush()
    assert requester.heard() == b"MSG inbox 1 ack 2\r\nhi\r\n" * 2
    requester.say(b"UNSUB 1\r\n")
    assert outlet.send(outlet.destination, MESSAGE) == 0


def test_a_single_answer_under_that_name_is_the_only_one() -> None:
    _, _, outlet = asked(ResponseType.SINGLETON)
    assert isinstance(outlet, ReplyOutlet)
    assert [outlet.send(outlet.destination, MESSAGE) for _ in range(2)] == [1, 0]


def test_interest_is_that_of_the_requester() -> None:
    _, requester, outlet = asked(ResponseType.STREAM)
    requester.say(b"UNSUB 1\r\n")
    assert not outlet.has_interest()
    assert outlet.send(b"orders", MESSAGE) == 0
    requester.say(b"SUB inbox 2\r\n")
    assert outlet.has_interest()


def test_a_service_with_a_single_answer_sends_one() -> None:
    _, _, outlet = asked(ResponseType.SINGLETON)
    assert outlet.has_interest()
    assert outlet.send(b"orders", MESSAGE) == 1
    assert not outlet.has_interest()
    assert outlet.send(b"orders", MESSAGE) == 0


def test_nobody_waits_for_an_answer_that_comes_too_late() -> None:
    broker, _, outlet = asked(ResponseType.STREAM, threshold_s=2.0)
    loop_of(broker).advance(1.9)
    assert outlet.has_interest()
    loop_of(broker).advance(0.2)
    assert not outlet.has_interest()
    assert (outlet.send(b"orders", MESSAGE), outlet.behind()) == (0, False)


def test_other_subjects_are_of_the_account_itself() -> None:
    broker = make_accounts(AccountOptions(name="EX"))
    outlet = outlet_to(broker.imports, broker.accounts["EX"], b"inbox")
    assert isinstance(outlet, SubjectOutlet)
    assert not outlet.has_interest()
