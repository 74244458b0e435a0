"""SUB, UNSUB, PING and the rest: transcripts of what each operation does."""

import pytest

from millstream.broker.close_reason import CloseReason
from millstream.broker.options import (
    AccountOptions,
    Authorization,
    Permissions,
    ResponseRule,
    SubjectRules,
    User,
)
from tests.kits.broker import Recorder, client, make_accounts, make_broker
from tests.kits.fake_transport import FakeClient


def restricted(permissions: Permissions, **connect: object) -> tuple[FakeClient, FakeClient]:
    """A client with these permissions, and one with none to limit it."""
    users = (
        User(name="limited", password="limited", permissions=permissions),
        User(name="free", password="free"),
    )
    broker = make_broker(authorization=Authorization(users=users))
    return client(broker, "limited", **connect), client(broker, "free")


# -- subscriptions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [b"", b"foo", b"a b c d"])
def test_sub_with_the_wrong_number_of_arguments_closes_without_a_word(arguments: bytes) -> None:
    one = client(make_broker())
    assert one.say(b"SUB " + arguments + b"\r\n") == b""
    assert one.closed
    assert one.connection.session.reason is CloseReason.PROTOCOL_VIOLATION


@pytest.mark.parametrize("subject", [b"foo..bar", b".foo", b"foo.", b"foo.>.bar", b">.foo"])
def test_a_bad_subject_is_refused_and_the_connection_goes_on(subject: bytes) -> None:
    one = client(make_broker())
    assert one.say(b"SUB %b 1\r\nPING\r\n" % subject) == b"-ERR 'Invalid Subject'\r\nPONG\r\n"
    assert len(one.connection.subscriptions) == 0


def test_a_sid_in_use_keeps_its_first_subscription() -> None:
    one = FakeClient(make_broker())
    one.say(b"CONNECT {}\r\nSUB foo 1\r\n")
    assert one.say(b"SUB bar 1\r\n") == b"+OK\r\n"
    assert one.say(b"PUB bar 0\r\n\r\n") == b"+OK\r\n"
    assert one.say(b"PUB foo 0\r\n\r\n") == b"+OK\r\nMSG foo 1 0\r\n\r\n"


def test_a_sid_may_be_any_token_and_used_again_after_unsub() -> None:
    one = client(make_broker())
    one.say(b"SUB foo abc-\xff\r\nUNSUB abc-\xff\r\nSUB bar abc-\xff\r\n")
    assert one.say(b"PUB foo 0\r\n\r\nPUB bar 0\r\n\r\n") == b"MSG bar abc-\xff 0\r\n\r\n"


def test_the_queue_of_the_system_is_not_for_clients() -> None:
    one = client(make_broker())
    answer = one.say(b"SUB foo _sys_ 1\r\n")
    assert answer == b'-ERR \'Permissions Violation for Subscription to "foo" using queue "_sys_"\'\r\n'
    assert len(one.connection.subscriptions) == 0


def test_max_subscriptions_refuses_the_next_one_and_unsub_makes_room() -> None:
    one = client(make_broker(max_subscriptions=2))
    full = b"-ERR 'maximum subscriptions exceeded'\r\n"
    assert one.say(b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\n") == full
    assert one.say(b"UNSUB 1\r\nSUB c 3\r\n") == b""
    assert sorted(one.connection.subscriptions) == [b"2", b"3"]


@pytest.mark.parametrize(("subject", "fits"), [(b"a.b", True), (b"a.b.c", True), (b"a.b.c.d", False)])
def test_max_subject_tokens(subject: bytes, fits: bool) -> None:
    one = client(make_broker(max_subject_tokens=3))
    answer = one.say(b"SUB %b 1\r\n" % subject)
    assert (answer == b"") is fits
    assert fits or b"too many tokens" in answer


# -- UNSUB ------------------------------------------------------------------------------------------


def test_unsub_with_a_number_ends_after_so_many_messages_counted_from_sub() -> None:
    one = client(make_broker())
    one.say(b"SUB foo 1\r\nPUB foo 0\r\n\r\nUNSUB 1 3\r\n")
    assert one.say(b"PUB foo 0\r\n\r\n" * 5) == b"MSG foo 1 0\r\n\r\n" * 2
    assert len(one.connection.subscriptions) == 0
    assert one.connection.broker.global_account.space.tree.count == 0


def test_unsub_with_a_number_already_reached_ends_at_once() -> None:
    one = client(make_broker())
    one.say(b"SUB foo 1\r\n" + b"PUB foo 0\r\n\r\n" * 3)
    assert one.say(b"UNSUB 1 3\r\nPUB foo 0\r\n\r\n") == b""
    assert len(one.connection.subscriptions) == 0


def test_a_later_unsub_replaces_the_number() -> None:
    one = client(make_broker())
    one.say(b"SUB foo 1\r\nUNSUB 1 2\r\nUNSUB 1 4\r\n")
    assert one.say(b"PUB foo 0\r\n\r\n" * 9) == b"MSG foo 1 0\r\n\r\n" * 4


@pytest.mark.parametrize("number", [b"x", b"-1", b"0", b"1.5", b"9" * 10, b"9" * 19, b"9" * 30, b"9" * 4000])
def test_unsub_with_a_bad_number_is_unsub_without(number: bytes) -> None:
    one = client(make_broker())
    assert one.say(b"SUB foo 1\r\nUNSUB 1 %b\r\nPUB foo 0\r\n\r\nPING\r\n" % number) == b"PONG\r\n"
    assert len(one.connection.subscriptions) == 0


def test_the_largest_number_for_unsub_is_kept() -> None:
    one = client(make_broker())
    one.say(b"SUB foo 1\r\nUNSUB 1 999999999\r\n")
    assert one.connection.subscriptions[b"1"].max == 999_999_999


def test_unsub_of_an_unknown_sid_is_no_mistake() -> None:
    one = FakeClient(make_broker())
    assert one.say(b"CONNECT {}\r\nUNSUB 7\r\nUNSUB 7 2\r\n") == b"+OK\r\n" * 3


@pytest.mark.parametrize("arguments", [b"", b"1 2 3"])
def test_unsub_with_the_wrong_number_of_arguments_closes_without_a_word(arguments: bytes) -> None:
    one = client(make_broker())
    assert one.say(b"UNSUB " + arguments + b"\r\n") == b""
    assert one.closed


def test_auto_unsubscribe_of_a_queue_member_leaves_the_rest_to_the_others() -> None:
    broker = make_broker()
    sender, first, second = client(broker), client(broker), client(broker)
    first.say(b"SUB foo q 1\r\nUNSUB 1 5\r\n")
    second.say(b"SUB foo q 1\r\n")
    sender.say(b"PUB foo 0\r\n\r\n" * 100)
    assert first.heard().count(b"MSG") == 5
    assert second.heard().count(b"MSG") == 95


# -- the small ones -----------------------------------------------------------------------------------


def test_ping_is_answered_and_the_first_pong_brings_an_info() -> None:
    one = client(make_broker(), protocol=1)
    first = one.say(b"PING\r\n")
    assert first.startswith(b"PONG\r\nINFO {")
    assert b'"connect_info":true' in first
    assert b'"remote_account":"$G"' in first
    assert one.say(b"PING\r\nping\r\n") == b"PONG\r\nPONG\r\n"


def test_a_client_of_protocol_0_gets_no_second_info() -> None:
    one = client(make_broker())
    assert one.say(b"PING\r\n") == b"PONG\r\n"


def test_info_and_ok_and_pong_of_a_client_mean_nothing() -> None:
    one = client(make_broker())
    assert one.say(b"INFO {}\r\n+OK\r\nPONG\r\nPONG\r\nPING\r\n") == b"PONG\r\n"


def test_err_of_a_client_closes() -> None:
    one = client(make_broker())
    assert one.say(b"-ERR 'whatever'\r\nPING\r\n") == b""
    assert one.closed
    assert one.connection.session.reason is CloseReason.PARSE_ERROR


@pytest.mark.parametrize(
    ("wire", "answer", "reason"),
    [
        (b"FOO\r\n", b"-ERR 'Unknown Protocol Operation'\r\n", CloseReason.PROTOCOL_VIOLATION),
        (b"PUB foo x\r\n", b"", CloseReason.PROTOCOL_VIOLATION),
        (
            b"SUB " + b"x" * 5000,
            b"-ERR 'maximum control line exceeded'\r\n",
            CloseReason.MAX_CONTROL_LINE_EXCEEDED,
        ),
        (b"PUB foo 1048577\r\n", b"-ERR 'Maximum Payload Violation'\r\n", CloseReason.MAX_PAYLOAD_EXCEEDED),
    ],
)
def test_a_fatal_mistake_closes_with_its_word_and_its_reason(
    wire: bytes, answer: bytes, reason: CloseReason
) -> None:
    one = client(make_broker())
    assert one.say(wire) == answer
    assert one.closed
    assert one.connection.session.reason is reason


# -- what a client may publish ------------------------------------------------------------------------


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("subject", [b"$NRG.x", b"_GR_.x"])
def test_names_of_the_servers_own_may_not_be_published_to(subject: bytes, verbose: bool) -> None:
    one = FakeClient(make_broker())
    one.connect(verbose=verbose)
    answer = one.say(b"PUB %b 0\r\n\r\n" % subject)
    assert answer == b"-ERR 'Permissions Violation for Publish to \"%b\"'\r\n" % subject
    assert not one.closed


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("reply", [b"_R_.abc", b"_GR_.abc", b"$JS.ACK.foo"])
def test_reserved_reply_subjects_are_refused_on_either_path(reply: bytes, verbose: bool) -> None:
    broker = make_broker()
    other = client(broker)
    other.say(b"SUB > 1\r\n")
    one = FakeClient(broker)
    one.connect(verbose=verbose)
    answer = one.say(b"PUB foo %b 0\r\n\r\n" % reply)
    assert answer == b"-ERR 'Permissions Violation for Publish with Reply of \"%b\"'\r\n" % reply
    assert other.heard() == b""


@pytest.mark.parametrize("reply", [b"_R_", b"_INBOX.1", b"$JS.API.x", b"$", b"_", b"R_.a"])
def test_other_replies_that_begin_alike_are_fine(reply: bytes) -> None:
    one = client(make_broker())
    one.say(b"SUB foo 1\r\n")
    assert one.say(b"PUB foo %b 0\r\n\r\n" % reply) == b"MSG foo 1 %b 0\r\n\r\n" % reply


# -- no responders ------------------------------------------------------------------------------------


def answer_for(subject: bytes, inbox: bytes = b"inbox.1", sid: bytes = b"7") -> bytes:
    block = b"NATS/1.0 503\r\nNats-Subject: " + subject + b"\r\n\r\n"
    return b"HMSG %b %b %d %d\r\n%b\r\n" % (inbox, sid, len(block), len(block), block)


def test_a_request_nobody_listens_to_is_answered_at_once() -> None:
    one = client(make_broker(), no_responders=True)
    one.say(b"SUB inbox.* 7\r\n")
    assert one.say(b"PUB help inbox.1 0\r\n\r\n") == answer_for(b"help")


def test_no_answer_without_a_reply_a_subscription_of_ones_own_or_the_wish_for_it() -> None:
    broker = make_broker()
    wishes = client(broker, no_responders=True)
    other = client(broker)
    other.say(b"SUB inbox.* 7\r\n")
    assert wishes.say(b"PUB help 0\r\n\r\nPUB help inbox.1 0\r\n\r\n") == b""
    wishes.say(b"SUB inbox.* q 7\r\n")  # a queue subscription does not count
    assert wishes.say(b"PUB help inbox.1 0\r\n\r\n") == b""
    assert other.say(b"PUB help inbox.1 0\r\n\r\n") == b""


def test_a_request_that_only_reaches_the_asker_without_echo_has_no_responders() -> None:
    one = client(make_broker(), no_responders=True, echo=False)
    one.say(b"SUB inbox.* 7\r\nSUB help 8\r\n")
    assert one.say(b"PUB help inbox.1 0\r\n\r\n") == answer_for(b"help")


# -- permissions --------------------------------------------------------------------------------------


def test_publishing_is_checked_for_every_subject() -> None:
    rules = SubjectRules(allow=("a.*", "b"), deny=("a.secret",))
    limited, free = restricted(Permissions(publish=rules))
    free.say(b"SUB > 1\r\n")
    answer = limited.say(b"".join(b"PUB %b 0\r\n\r\n" % s for s in (b"a.x", b"a.secret", b"b", b"c", b"a.x")))
    assert answer == (
        b"-ERR 'Permissions Violation for Publish to \"a.secret\"'\r\n"
        b"-ERR 'Permissions Violation for Publish to \"c\"'\r\n"
    )
    assert free.heard() == b"MSG a.x 1 0\r\n\r\nMSG b 1 0\r\n\r\nMSG a.x 1 0\r\n\r\n"
    assert not limited.closed


def test_a_refused_publish_is_not_acknowledged_and_is_told_to_the_observer() -> None:
    notes = Recorder()
    user = User(name="u", password="u", permissions=Permissions(publish=SubjectRules(deny=("x",))))
    broker = make_broker(notes, authorization=Authorization(users=(user,)))
    one = FakeClient(broker)
    one.say(b'CONNECT {"user":"u","pass":"u"}\r\n')
    assert one.say(b"PUB x 0\r\n\r\nPUB y 0\r\n\r\n").endswith(b'"x"\'\r\n+OK\r\n')
    assert notes.notes[-1] == ("publish refused", one.connection.cid, b"x")


def test_subscribing_is_checked_with_and_without_queue() -> None:
    limited, _ = restricted(Permissions(subscribe=SubjectRules(allow=("a.*", "w q"), deny=("a.no",))))
    violation = b"-ERR 'Permissions Violation for Subscription to "
    assert limited.say(b"SUB a.x 1\r\nSUB w q 2\r\nSUB a.x any 3\r\n") == b""
    assert limited.say(b"SUB b 4\r\n") == violation + b'"b"\'\r\n'
    assert limited.say(b"SUB a.no 4\r\n") == violation + b'"a.no"\'\r\n'
    assert limited.say(b"SUB w 4\r\n") == violation + b'"w"\'\r\n'
    assert limited.say(b"SUB w r 4\r\n") == violation + b'"w" using queue "r"\'\r\n'
    assert sorted(limited.connection.subscriptions) == [b"1", b"2", b"3"]


def test_a_subscription_wider_than_a_deny_does_not_see_what_is_denied() -> None:
    limited, free = restricted(Permissions(subscribe=SubjectRules(deny=("a.secret", "b.x q"))))
    limited.say(b"SUB a.* 1\r\nSUB b.> q 2\r\nSUB b.> 3\r\n")
    free.say(b"PUB a.open 0\r\n\r\nPUB a.secret 0\r\n\r\nPUB b.x 0\r\n\r\nPUB b.x.y 0\r\n\r\n")
    assert sorted(limited.heard().split(b" 0\r\n\r\n")) == [
        b"", b"MSG a.open 1", b"MSG b.x 3", b"MSG b.x.y 2", b"MSG b.x.y 3",
    ]  # fmt: skip


def test_a_denied_queue_member_passes_the_message_on() -> None:
    limited, free = restricted(Permissions(subscribe=SubjectRules(deny=("a.secret",))))
    limited.say(b"SUB a.* q 1\r\n")
    free.say(b"SUB a.* q 1\r\n")
    answers = free.say(b"PUB a.secret 0\r\n\r\n" * 30)
    assert answers.count(b"MSG") == 30
    assert limited.heard() == b""


def test_allow_responses_opens_a_reply_once() -> None:
    limited, free = restricted(Permissions(allow_responses=ResponseRule()))
    limited.say(b"SUB help 1\r\n")
    free.say(b"SUB inbox.1 1\r\n")
    refusal = b"-ERR 'Permissions Violation for Publish to \"inbox.1\"'\r\n"
    assert limited.say(b"PUB inbox.1 0\r\n\r\n") == refusal
    free.say(b"PUB help inbox.1 0\r\n\r\n")
    assert limited.heard() == b"MSG help 1 inbox.1 0\r\n\r\n"
    assert limited.say(b"PUB inbox.1 0\r\n\r\n") == b""
    assert free.heard() == b"MSG inbox.1 1 0\r\n\r\n"
    assert limited.say(b"PUB inbox.1 0\r\n\r\n") == refusal


# -- accounts ---------------------------------------------------------------------------------------


def test_accounts_do_not_hear_each_other() -> None:
    broker = make_accounts(AccountOptions(name="A"), AccountOptions(name="B"))
    a, a2, b = client(broker, "A"), client(broker, "A"), client(broker, "B")
    for each in (a, a2, b):
        each.say(b"SUB > 1\r\n")
    a.say(b"PUB foo 0\r\n\r\n")
    assert (a2.heard(), b.heard()) == (b"MSG foo 1 0\r\n\r\n", b"")
