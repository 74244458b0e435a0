import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.broker.options import Permissions, ResponseRule, SubjectRules
from millstream.broker.permissions import PermissionSet


def answering(
    *, max_messages: int = 1, expires_s: float = 120.0, allow: tuple[str, ...] | None = None
) -> PermissionSet:
    return PermissionSet(
        Permissions(
            publish=SubjectRules(allow=allow),
            allow_responses=ResponseRule(max_messages=max_messages, expires_s=expires_s),
        )
    )


def test_who_may_answer_may_publish_nothing_else() -> None:
    assert not answering().may_publish(b"foo", 0.0)


def test_who_may_answer_keeps_what_is_allowed_besides() -> None:
    permissions = answering(allow=("foo",))
    assert permissions.may_publish(b"foo", 0.0)
    assert not permissions.may_publish(b"bar", 0.0)


def test_a_delivered_request_opens_its_reply_once() -> None:
    permissions = answering()
    permissions.allow_response(b"_INBOX.1", 0.0)
    assert permissions.may_publish(b"_INBOX.1", 0.0)
    assert not permissions.may_publish(b"_INBOX.1", 0.0)
    assert not permissions.may_publish(b"_INBOX.2", 0.0)


def test_the_number_of_answers_is_counted() -> None:
    permissions = answering(max_messages=2)
    permissions.allow_response(b"r", 0.0)
    assert [permissions.may_publish(b"r", 0.0) for _ in range(4)] == [True, True, False, False]


def test_a_used_reply_can_be_opened_again() -> None:
    permissions = answering()
    for _ in range(3):
        permissions.allow_response(b"r", 0.0)
        assert permissions.may_publish(b"r", 0.0)
    assert not permissions.may_publish(b"r", 0.0)


def test_a_second_request_for_an_open_reply_uses_one_answer_up() -> None:
    permissions = answering()
    permissions.allow_response(b"r", 0.0)
    permissions.allow_response(b"r", 0.0)
    assert not permissions.may_publish(b"r", 0.0)


def test_answers_may_be_unlimited() -> None:
    permissions = answering(max_messages=-1, expires_s=10.0)
    permissions.allow_response(b"r", 0.0)
    assert all(permissions.may_publish(b"r", 10.0) for _ in range(100))
    assert not permissions.may_publish(b"r", 10.1)


def test_an_open_reply_expires() -> None:
    permissions = answering(expires_s=5.0)
    permissions.allow_response(b"a", 100.0)
    permissions.allow_response(b"b", 100.0)
    assert permissions.may_publish(b"a", 105.0)
    assert not permissions.may_publish(b"b", 105.1)


@pytest.mark.parametrize("never", [0.0, -1.0])
def test_an_open_reply_may_live_forever(never: float) -> None:
    permissions = answering(expires_s=never)
    permissions.allow_response(b"r", 0.0)
    assert permissions.may_publish(b"r", 1e9)


def test_a_reply_that_is_allowed_anyway_is_not_tracked() -> None:
    permissions = answering(allow=("_INBOX.>",))
    permissions.allow_response(b"_INBOX.1", 0.0)
    assert all(permissions.may_publish(b"_INBOX.1", 0.0) for _ in range(3))
    assert not permissions._replies


def test_an_empty_reply_opens_nothing() -> None:
    permissions = answering()
    permissions.allow_response(b"", 0.0)
    assert not permissions._replies


def test_without_the_rule_nothing_is_opened() -> None:
    permissions = PermissionSet(Permissions(publish=SubjectRules(allow=("foo",))))
    permissions.allow_response(b"r", 0.0)
    assert not permissions.may_publish(b"r", 0.0)


def test_a_denied_subject_can_still_be_answered() -> None:
    permissions = PermissionSet(
        Permissions(publish=SubjectRules(deny=("r",)), allow_responses=ResponseRule())
    )
    assert not permissions.may_publish(b"r", 0.0)
    permissions.allow_response(b"r", 0.0)
    assert permissions.may_publish(b"r", 0.0)


def test_expired_replies_are_forgotten_without_being_asked_for() -> None:
    permissions = answering(expires_s=1.0)
    for number in range(10_000):
        permissions.allow_response(b"r.%d" % number, number * 0.01)
    assert len(permissions._replies) <= 102


def test_the_description_has_the_rule_in_nanoseconds() -> None:
    assert answering(max_messages=3, expires_s=1.5).describe() == {
        "publish": {},
        "subscribe": {},
        "responses": {"max": 3, "ttl": 1_500_000_000},
    }


steps = st.lists(
    st.tuples(
        st.sampled_from(["deliver", "publish"]), st.sampled_from([b"r1", b"r2", b"r3"]), st.integers(0, 4)
    ),
    max_size=30,
)


@given(steps, st.sampled_from([-1, 1, 2]), st.sampled_from([-1.0, 3.0]))
def test_responses_agree_with_a_naive_model(
    actions: list[tuple[str, bytes, int]], max_messages: int, expires_s: float
) -> None:
    permissions = answering(max_messages=max_messages, expires_s=expires_s)
    opened: dict[bytes, tuple[float, int]] = {}
    now = 0.0

    def use(subject: bytes) -> bool:
        if subject not in opened:
            return False
        since, used = opened[subject]
        opened[subject] = (since, used + 1)
        if 0 < max_messages < used + 1 or 0 < expires_s < now - since:
            del opened[subject]
            return False
        return True

    for action, subject, wait in actions:
        now += wait
        if action == "deliver":
            permissions.allow_response(subject, now)
            if not use(subject):
                opened[subject] = (now, 0)
        else:
            assert permissions.may_publish(subject, now) is use(subject)


def test_so_many_replies_are_open_and_the_oldest_make_room() -> None:
    permissions = answering(expires_s=0.0)
    for number in range(70_000):
        permissions.allow_response(b"_INBOX.%d" % number, 0.0)
    assert not permissions.may_publish(b"_INBOX.%d" % (70_000 - 65_537), 0.0)
    assert permissions.may_publish(b"_INBOX.%d" % (70_000 - 65_536), 0.0)
    assert permissions.may_publish(b"_INBOX.69999", 0.0)
