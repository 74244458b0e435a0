"""The handshake, from INFO to an authenticated client, with everything that can go wrong."""

import json

import bcrypt
import pytest

from millstream.broker.broker import Broker
from millstream.broker.close_reason import CloseReason
from millstream.broker.options import (
    AccountOptions,
    AccountQuota,
    Authorization,
    Permissions,
    SubjectRules,
    User,
)
from tests.kits.broker import Recorder, client, loop_of, make_accounts, make_broker
from tests.kits.fake_transport import FakeClient

HASH = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
REFUSED = b"-ERR 'Authorization Violation'\r\n"


def info_of(wire: bytes) -> dict[str, object]:
    assert wire.startswith(b"INFO ")
    assert wire.endswith(b" \r\n")
    decoded: dict[str, object] = json.loads(wire[5:])
    return decoded


def with_password(password: str = "secret", **options: object) -> Broker:
    users = (User(name="ann", password=password), User(name="bob", password="plain"))
    return make_broker(authorization=Authorization(users=users), **options)


CONNECT_ANN = b'CONNECT {"verbose":false,"user":"ann","pass":"secret"}\r\n'
CONNECT_BOB = b'CONNECT {"verbose":false,"user":"bob","pass":"plain"}\r\n'


# -- INFO and CONNECT ---------------------------------------------------------------------------------


def test_the_server_speaks_first_and_says_what_it_is() -> None:
    one = FakeClient(make_broker(server_name="mill"))
    assert info_of(one.greeting) == {
        "server_id": "NSERVER",
        "server_name": "mill",
        "version": "2.15.1",
        "proto": 1,
        "go": "millstream",
        "host": "0.0.0.0",
        "port": 4222,
        "headers": True,
        "max_payload": 1048576,
        "client_id": 5,
        "client_ip": "127.0.0.1",
        "api_lvl": 5,
    }


def test_client_ids_rise() -> None:
    broker = make_broker()
    assert [FakeClient(broker).connection.cid for _ in range(3)] == [5, 6, 7]


def test_a_bare_connect_is_verbose() -> None:
    one = FakeClient(make_broker())
    assert one.say(b"CONNECT {}\r\n") == b"+OK\r\n"


def test_keys_are_read_in_any_case_and_null_is_no_value() -> None:
    one = FakeClient(make_broker())
    assert one.say(b'CONNECT {"VERBOSE":false,"Echo":null,"unknown":{"a":[1]}}\r\n') == b""
    assert one.connection.echo


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"1",
        b'"x"',
        b"{",
        b"{}{}",
        b'{"verbose":1}',
        b'{"protocol":"1"}',
        b'{"user":5}',
        b"\x00",
    ],
)
def test_a_connect_that_is_no_json_object_of_the_right_kind_closes_without_a_word(text: bytes) -> None:
    one = FakeClient(make_broker())
    assert one.say(b"CONNECT " + text + b"\r\nPING\r\n") == b""
    assert one.closed
    assert one.connection.session.reason is CloseReason.PROTOCOL_VIOLATION


def test_a_deeply_nested_connect_is_ignored_or_closes() -> None:
    """Python decides how deep: up to 1,000 levels with 3.11, and about 10,000 since 3.13, as nats-server."""
    one = FakeClient(make_broker())
    answer = one.say(b'CONNECT {"a":' + b"[" * 1500 + b"]" * 1500 + b"}\r\nPING\r\n")
    assert one.closed == (answer == b"")
    assert answer in (b"", b"+OK\r\nPONG\r\n")


@pytest.mark.parametrize("protocol", [-1, 2, 99])
def test_an_unknown_protocol_is_refused(protocol: int) -> None:
    one = FakeClient(make_broker())
    assert one.connect(protocol=protocol) == b"-ERR 'invalid client protocol'\r\n"
    assert one.closed


def test_no_responders_needs_headers() -> None:
    one = FakeClient(make_broker())
    answer = one.connect(headers=False, no_responders=True)
    assert answer == b"-ERR 'no responders requires headers support'\r\n"
    assert one.closed


def test_headers_may_be_switched_off_for_everybody() -> None:
    one = FakeClient(make_broker(headers=False))
    assert info_of(one.greeting)["headers"] is False
    assert one.connect() == b""
    assert not one.connection.headers


@pytest.mark.parametrize("option", [{"account": "A"}, {"new_account": True}])
def test_asking_for_an_account_is_refused(option: dict[str, object]) -> None:
    one = FakeClient(make_broker())
    assert one.connect(**option) == REFUSED
    assert one.closed


# -- credentials --------------------------------------------------------------------------------------


def test_the_right_password_is_admitted_and_announced() -> None:
    notes = Recorder()
    broker = make_broker(notes, authorization=Authorization(username="ann", password="secret"))
    one = FakeClient(broker)
    assert info_of(one.greeting)["auth_required"] is True
    assert one.say(CONNECT_ANN + b"PING\r\n") == b"PONG\r\n"
    assert notes.notes == [("connected", one.connection.cid)]


@pytest.mark.parametrize(
    "wire",
    [
        b'CONNECT {"user":"ann","pass":"wrong"}\r\n',
        b'CONNECT {"user":"eve","pass":"secret"}\r\n',
        b"CONNECT {}\r\n",
        b"PING\r\n",
        b"PUB foo 1048576\r\n",
        b"X",
        b"\xff\xff\xff",
    ],
)
def test_without_the_right_credentials_there_is_one_answer(wire: bytes) -> None:
    notes = Recorder()
    broker = make_broker(notes, authorization=Authorization(username="ann", password="secret"))
    one = FakeClient(broker)
    assert one.say(wire + b"PING\r\n") == REFUSED
    assert one.closed
    cid = one.connection.cid
    assert notes.notes == [("refused", cid), ("disconnected", cid, CloseReason.AUTHENTICATION_FAILURE)]
    assert broker.connections == {}


def test_before_authentication_nothing_is_obeyed_even_in_one_chunk() -> None:
    broker = with_password()
    listener = client(broker, user="bob", **{"pass": "plain"})
    listener.say(b"SUB > 1\r\n")
    one = FakeClient(broker)
    assert one.say(b'CONNECT {"user":"ann","pass":"wrong"}\r\nPUB foo 2\r\nhi\r\n') == REFUSED
    assert listener.heard() == b""


def test_who_says_nothing_is_sent_away_after_the_timeout() -> None:
    broker = with_password()
    one = FakeClient(broker)
    loop_of(broker).advance(1.9)
    assert not one.closed
    loop_of(broker).advance(0.2)
    assert one.heard() == b"-ERR 'Authentication Timeout'\r\n"
    assert one.connection.session.reason is CloseReason.AUTHENTICATION_TIMEOUT


def test_half_a_connect_does_not_stop_the_timeout() -> None:
    broker = with_password()
    one = FakeClient(broker)
    one.say(b"CONNECT {")
    loop_of(broker).advance(2.1)
    assert one.heard() == b"-ERR 'Authentication Timeout'\r\n"


def test_the_timeout_is_configurable_and_ends_with_connect() -> None:
    users = (User(name="ann", password="secret"),)
    broker = make_broker(authorization=Authorization(users=users, timeout_s=0.5))
    slow, quick = FakeClient(broker), FakeClient(broker)
    quick.say(CONNECT_ANN)
    loop_of(broker).advance(0.6)
    assert slow.closed
    assert not quick.closed
    loop_of(broker).advance(1.0)
    assert not quick.closed


def test_a_full_account_refuses_the_next() -> None:
    broker = make_accounts(AccountOptions(name="A", limits=AccountQuota(max_connections=1)))
    first, second = client(broker, "A"), FakeClient(broker)
    answer = second.connect(user="A", **{"pass": "A"})
    assert answer == b"-ERR 'maximum account active connections exceeded'\r\n"
    assert second.closed
    first.transport.peer_closes()
    loop_of(broker).run_ready()
    client(broker, "A")


def test_limits_of_an_account_apply_after_connect() -> None:
    limits = AccountQuota(max_payload=10, max_subscriptions=1)
    broker = make_accounts(AccountOptions(name="A", limits=limits))
    one = client(broker, "A", protocol=1)
    assert b'"max_payload":10,' in one.say(b"PING\r\n")
    assert one.say(b"SUB a 1\r\nSUB b 2\r\n") == b"-ERR 'maximum subscriptions exceeded'\r\n"
    assert one.say(b"PUB a 11\r\n") == b"-ERR 'Maximum Payload Violation'\r\n"


# -- CONNECT again, or never --------------------------------------------------------------------------


def test_a_second_connect_drops_subscriptions_and_applies_the_new_options() -> None:
    broker = make_broker()
    one = client(broker)
    one.say(b"SUB foo 1\r\n")
    assert one.say(b'CONNECT {"verbose":true,"echo":false}\r\n') == b"+OK\r\n"
    assert one.say(b"PUB foo 0\r\n\r\n") == b"+OK\r\n"
    assert broker.global_account.space.tree.count == 0
    assert one.say(b"SUB foo 1\r\nPUB foo 0\r\n\r\n") == b"+OK\r\n+OK\r\n"  # no echo now


def test_options_that_a_second_connect_does_not_name_are_kept() -> None:
    one = client(make_broker(), echo=False)
    one.say(b"CONNECT {}\r\n")
    assert one.say(b"SUB foo 1\r\nPUB foo 0\r\n\r\nPING\r\n") == b"PONG\r\n"


def test_a_second_connect_with_wrong_credentials_closes() -> None:
    one = FakeClient(with_password())
    one.say(CONNECT_ANN)
    assert one.say(b'CONNECT {"pass":"wrong"}\r\nPING\r\n') == REFUSED
    assert one.closed


def test_a_second_connect_to_another_account_takes_everything_along() -> None:
    broker = make_accounts(AccountOptions(name="A"), AccountOptions(name="B"))
    in_a, in_b, mover = client(broker, "A"), client(broker, "B"), client(broker, "A")
    for each in (in_a, in_b):
        each.say(b"SUB foo 1\r\n")
    mover.say(b"SUB other 1\r\nPUB foo 1\r\n1\r\n")
    assert (in_a.heard(), in_b.heard()) == (b"MSG foo 1 1\r\n1\r\n", b"")
    mover.connect(user="B", **{"pass": "B"})
    mover.say(b"PUB foo 1\r\n2\r\n")  # the same subject: the route kept must be forgotten
    assert (in_a.heard(), in_b.heard()) == (b"", b"MSG foo 1 1\r\n2\r\n")
    assert sorted(broker.accounts["A"].connections) == [in_a.connection.cid]
    assert sorted(broker.accounts["B"].connections) == [in_b.connection.cid, mover.connection.cid]
    in_a.say(b"PUB other 1\r\n3\r\n")
    assert mover.heard() == b""


def test_a_second_connect_with_fewer_permissions_holds_for_the_subject_just_used() -> None:
    limited = User(name="bob", password="b", permissions=Permissions(publish=SubjectRules(deny=("foo",))))
    users = (User(name="ann", password="a"), limited)
    one = FakeClient(make_broker(authorization=Authorization(users=users)))
    one.connect(user="ann", **{"pass": "a"})
    assert one.say(b"PUB foo 0\r\n\r\n") == b""
    one.connect(user="bob", **{"pass": "b"})
    assert b"Permissions Violation" in one.say(b"PUB foo 0\r\n\r\n")


def test_a_client_in_the_global_account_counts_once() -> None:
    broker = make_broker()
    one = FakeClient(broker)
    one.say(b"PUB foo 2\r\nhi\r\n")
    one.connect()
    one.connect()
    account = broker.global_account
    assert (account.totals.connections, len(account.connections)) == (1, 1)
    one.transport.peer_closes()
    loop_of(broker).run_ready()
    assert (account.totals.past.in_messages, account.totals.past.in_bytes) == (1, 2)


def test_a_no_auth_user_may_skip_connect_and_gets_no_ok_for_it() -> None:
    users = (User(name="guest", password="x", account="A"),)
    broker = make_broker(
        accounts=(AccountOptions(name="A"),), authorization=Authorization(users=users, no_auth_user="guest")
    )
    one = FakeClient(broker)
    assert "auth_required" not in info_of(one.greeting)
    assert one.say(b"SUB foo 1\r\nPUB foo 0\r\n\r\n") == b"+OK\r\n+OK\r\nMSG foo 1 0\r\n\r\n"
    assert one.connection.account.name == "A"
    assert one.say(b"CONNECT {}\r\n") == b"+OK\r\n"  # a real CONNECT gets one
    assert len(one.connection.subscriptions) == 0


# -- bcrypt -----------------------------------------------------------------------------------------


def test_a_bcrypt_password_is_checked_elsewhere_while_the_connection_waits() -> None:
    broker = with_password(HASH)
    one = FakeClient(broker)
    assert one.say(CONNECT_ANN + b"SUB foo 1\r\nPUB foo 2\r\nhi\r\nPING\r\n") == b""
    assert one.connection.suspended
    assert not one.transport.reading
    loop_of(broker).finish_jobs()
    assert one.heard() == b"MSG foo 1 2\r\nhi\r\nPONG\r\n"
    assert one.transport.reading


@pytest.mark.parametrize("cut", range(0, 60, 3))
def test_commands_behind_connect_survive_any_cut(cut: int) -> None:
    broker = with_password(HASH)
    one = FakeClient(broker)
    rest = b"SUB foo 1\r\nPUB foo 12\r\nhello, world\r\nPING\r\n"
    one.say(CONNECT_ANN + rest[:cut])
    loop_of(broker).finish_jobs()
    one.say(rest[cut:])
    assert one.connection.out_messages == 1
    assert one.connection.in_messages == 1


def test_a_wrong_bcrypt_password_is_refused_and_nothing_behind_it_obeyed() -> None:
    broker = with_password(HASH)
    listener = client(broker, user="bob", **{"pass": "plain"})
    listener.say(b"SUB > 1\r\n")
    one = FakeClient(broker)
    one.say(b'CONNECT {"user":"ann","pass":"wrong"}\r\nPUB foo 2\r\nhi\r\n')
    loop_of(broker).finish_jobs()
    assert one.heard() == REFUSED
    assert one.closed
    assert listener.heard() == b""


def test_a_client_that_leaves_while_its_password_is_checked_is_forgotten() -> None:
    broker = with_password(HASH)
    one = FakeClient(broker)
    one.say(CONNECT_ANN + b"SUB foo 1\r\n")
    one.transport.peer_closes()
    loop_of(broker).run_ready()
    loop_of(broker).finish_jobs()
    assert broker.connections == {}
    assert broker.global_account.connections == {}
    assert broker.global_account.space.tree.count == 0


def test_a_second_connect_behind_a_slow_one_waits_its_turn() -> None:
    broker = with_password(HASH)
    one = FakeClient(broker)
    one.say(CONNECT_ANN + b"SUB foo 1\r\n" + CONNECT_BOB + b"PUB foo 0\r\n\r\nPING\r\n")
    loop_of(broker).finish_jobs()
    assert one.heard() == b"PONG\r\n"
    assert one.connection.session.identity.user == "bob"
