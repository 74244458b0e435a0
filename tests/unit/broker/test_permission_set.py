import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.broker.options import Permissions, SubjectRules
from millstream.broker.permissions import PermissionRuleError, PermissionSet, check_permissions


def publishing(*, allow: tuple[str, ...] | None = None, deny: tuple[str, ...] = ()) -> PermissionSet:
    return PermissionSet(Permissions(publish=SubjectRules(allow=allow, deny=deny)))


def subscribing(*, allow: tuple[str, ...] | None = None, deny: tuple[str, ...] = ()) -> PermissionSet:
    return PermissionSet(Permissions(subscribe=SubjectRules(allow=allow, deny=deny)))


@pytest.mark.parametrize(
    ("allow", "deny", "subject", "allowed"),
    [
        (None, (), b"foo", True),
        (("foo",), (), b"foo", True),
        (("foo",), (), b"foo.bar", False),
        (("foo.*",), (), b"foo.bar", True),
        (("foo.*",), (), b"foo", False),
        (("foo.>",), (), b"foo.a.b", True),
        (("foo.>",), (), b"foo", False),
        (("foo", "bar.>"), (), b"bar.x", True),
        ((), (), b"foo", False),
        (None, ("foo",), b"foo", False),
        (None, ("foo",), b"bar", True),
        (("foo.>",), ("foo.secret",), b"foo.secret", False),
        (("foo.>",), ("foo.secret",), b"foo.open", True),
        (("foo.>",), ("foo.*.x",), b"foo.a.x", False),
        # wildcards of a published subject are plain tokens
        (("foo.*",), (), b"foo.*", True),
        (("foo.*",), (), b"foo.>", True),
        (("foo.bar",), (), b"foo.*", False),
        # a subject with an empty token falls under no rule
        ((">",), (), b"foo..bar", False),
        (("foo.>",), (), b"foo.", False),
        (("foo.>",), (), b"foo..", False),
        ((">",), (), b".foo", False),
        (None, (">",), b"foo..bar", True),
    ],
)
def test_publish_rules(
    allow: tuple[str, ...] | None, deny: tuple[str, ...], subject: bytes, allowed: bool
) -> None:
    permissions = publishing(allow=allow, deny=deny)
    assert permissions.may_publish(subject, 0.0) is allowed
    assert permissions.may_publish(subject, 0.0) is allowed, "the cached answer is the same"


def test_publish_rules_do_not_touch_subscriptions() -> None:
    assert publishing(allow=("foo",)).may_subscribe(b"anything.>")
    assert subscribing(allow=("foo",)).may_publish(b"anything", 0.0)


@pytest.mark.parametrize(
    ("allow", "deny", "subject", "queue", "allowed"),
    [
        (None, (), b"foo.>", None, True),
        (("foo.*",), (), b"foo.a", None, True),
        (("foo.*",), (), b"foo.*", None, True),
        (("foo.*",), (), b"foo.>", None, False),  # the reference takes `>` for one token and lets it through
        (("foo.*",), (), b">", None, False),
        (("foo.*",), (), b"*.a", None, False),
        ((), (), b"foo", None, False),
        (("foo.>",), ("foo.a",), b"foo.a", None, False),
        (("foo.>",), ("foo.a",), b"foo.*", None, True),
        (None, ("foo.*",), b"foo.>", None, False),
        (None, ("foo.*",), b">", None, True),
        # allow with queue groups
        (("q.* g",), (), b"q.a", None, False),
        (("q.* g",), (), b"q.a", b"g", True),
        (("q.* g",), (), b"q.a", b"h", False),
        (("q.* g.*",), (), b"q.a", b"g.b", True),
        (("q.* g.*",), (), b"q.a", b"g", False),
        (("q.* g.*",), (), b"q.a", b"g.*", True),  # the group is called so
        (("q.* g.*",), (), b"q.a", b"g.>", False),
        (("q.* >",), (), b"q.a", b"any.name", True),
        (("q.*",), (), b"q.a", b"any", True),
        (("q.*", "q.a g"), (), b"q.a", b"h", False),  # a queue rule replaces the plain one
        (("q.*", "q.a g"), (), b"q.b", b"h", True),
        (("q.*", "q.a g"), (), b"q.a", None, True),
        (("q.*", "q.* g", "q.* h"), (), b"q.a", b"h", True),
        (("  q.*   g ",), (), b"q.a", b"g", True),
        # deny with queue groups
        (None, ("q g",), b"q", b"g", False),
        (None, ("q g",), b"q", b"h", True),
        (None, ("q g",), b"q", None, True),
        (None, ("q g.>",), b"q", b"g.a.b", False),
        (None, ("q",), b"q", b"g", False),
        (("q g",), ("q g",), b"q", b"g", False),
        (None, (), b"q", b"", True),
        (("q g",), (), b"q", b"", False),
    ],
)
def test_subscribe_rules(
    allow: tuple[str, ...] | None, deny: tuple[str, ...], subject: bytes, queue: bytes | None, allowed: bool
) -> None:
    assert subscribing(allow=allow, deny=deny).may_subscribe(subject, queue) is allowed


def test_a_subscription_wider_than_a_deny_turns_the_delivery_filter_on() -> None:
    permissions = subscribing(deny=("foo.secret", "bar.> workers"))
    assert permissions.may_subscribe(b"foo.open")
    assert permissions.may_subscribe(b"baz.*")
    assert not permissions.filters_deliveries
    assert permissions.may_subscribe(b"foo.*")
    assert permissions.filters_deliveries
    assert permissions.delivery_denied(b"foo.secret")
    assert not permissions.delivery_denied(b"foo.open")


def test_a_refused_subscription_does_not_turn_the_filter_on() -> None:
    permissions = subscribing(allow=("bar",), deny=("foo.secret",))
    assert not permissions.may_subscribe(b"foo.*")
    assert not permissions.filters_deliveries


def test_a_queue_deny_is_filtered_for_the_group_only() -> None:
    permissions = subscribing(deny=("foo.secret workers",))
    assert permissions.may_subscribe(b"foo.*", b"workers")
    assert permissions.filters_deliveries
    assert permissions.delivery_denied(b"foo.secret", b"workers")
    assert not permissions.delivery_denied(b"foo.secret", b"others")
    assert not permissions.delivery_denied(b"foo.secret")
    assert permissions.delivery_denied(b"foo.secret", b"workers"), "answers are cached per group"


@pytest.mark.parametrize(
    ("subject", "queue", "blocks"),
    [
        (b"foo.*", None, True),
        (b">", None, True),
        (b"foo.a", None, False),
        (b"foo.secret", b"g", True),
        (b"bar.*", None, False),
    ],
)
def test_which_subscriptions_could_see_something_denied(
    subject: bytes, queue: bytes | None, blocks: bool
) -> None:
    assert subscribing(deny=("foo.secret",)).blocks_delivery(subject, queue) is blocks


def test_nothing_is_held_back_without_a_deny() -> None:
    permissions = subscribing(allow=("foo.>",))
    assert permissions.may_subscribe(b"foo.>")
    assert not permissions.filters_deliveries
    assert not permissions.delivery_denied(b"foo.a")


def test_caches_stay_small_and_keep_telling_the_truth() -> None:
    permissions = PermissionSet(
        Permissions(publish=SubjectRules(allow=("a.*",)), subscribe=SubjectRules(deny=("b.*",)))
    )
    for number in range(2_000):
        assert permissions.may_publish(b"a.%d" % number, 0.0)
        assert not permissions.may_publish(b"b.%d" % number, 0.0)
        assert permissions.delivery_denied(b"b.%d" % number)
        assert not permissions.delivery_denied(b"a.%d" % number)
    assert len(permissions._publish_cache) <= 128
    assert len(permissions._delivery_cache) <= 256


@pytest.mark.parametrize(
    ("permissions", "text"),
    [
        (
            Permissions(publish=SubjectRules(allow=("foo..bar",))),
            'publish allow: subject "foo..bar" is not a valid subject',
        ),
        (
            Permissions(publish=SubjectRules(deny=("foo queue",))),
            'publish deny: subject "foo queue" is not a valid subject',
        ),
        (
            Permissions(subscribe=SubjectRules(allow=("",))),
            'subscribe allow: subject "" is not a valid subject',
        ),
        (
            Permissions(subscribe=SubjectRules(deny=("a b c",))),
            'subscribe deny: subject "a b c" is not a valid subject',
        ),
        (
            Permissions(subscribe=SubjectRules(deny=("a..b q",))),
            'subscribe deny: subject "a..b" is not a valid subject',
        ),
        (
            Permissions(subscribe=SubjectRules(deny=("a q..r",))),
            'subscribe deny: queue "q..r" is not a valid queue',
        ),
    ],
)
def test_a_rule_that_is_no_subject_is_refused(permissions: Permissions, text: str) -> None:
    with pytest.raises(PermissionRuleError) as caught:
        check_permissions(permissions)
    assert str(caught.value) == text
    with pytest.raises(PermissionRuleError):
        PermissionSet(permissions)


def test_the_description_shows_what_is_set_and_nothing_else() -> None:
    permissions = Permissions(
        publish=SubjectRules(deny=("x",)), subscribe=SubjectRules(allow=("foo.*", "q.* g.*"))
    )
    assert PermissionSet(permissions).describe() == {
        "publish": {"deny": ["x"]},
        "subscribe": {"allow": ["foo.*", "q.* g.*"]},
    }
    assert PermissionSet(Permissions()).describe() == {"publish": {}, "subscribe": {}}


def naive_match(subject: bytes, pattern: bytes) -> bool:
    tokens, rule = subject.split(b"."), pattern.split(b".")
    if b"" in tokens:
        return False
    if rule[-1] == b">":
        if len(tokens) < len(rule):
            return False
        rule = rule[:-1]
        tokens = tokens[: len(rule)]
    return len(tokens) == len(rule) and all(
        wanted in (b"*", token) for token, wanted in zip(tokens, rule, strict=True)
    )


tokens = st.sampled_from(["a", "b", "*"])
patterns = st.builds(
    lambda head, tail: ".".join([*head, *tail]),
    st.lists(tokens, min_size=1, max_size=3),
    st.sampled_from([[], [">"]]),
)
subjects = st.one_of(
    patterns, st.lists(st.sampled_from(["a", "b", "c", "", ">"]), min_size=1, max_size=4).map(".".join)
).map(str.encode)
rule_lists = st.lists(patterns, max_size=4).map(tuple)


@given(st.one_of(st.none(), rule_lists), rule_lists, st.lists(subjects, min_size=1, max_size=8))
def test_publishing_agrees_with_a_naive_model(
    allow: tuple[str, ...] | None, deny: tuple[str, ...], published: list[bytes]
) -> None:
    permissions = publishing(allow=allow, deny=deny)
    for subject in published:
        listed = allow is None or any(naive_match(subject, rule.encode()) for rule in allow)
        denied = any(naive_match(subject, rule.encode()) for rule in deny)
        assert permissions.may_publish(subject, 0.0) is (listed and not denied)


@given(st.one_of(st.none(), rule_lists), rule_lists, patterns, st.lists(subjects, max_size=8))
def test_an_accepted_subscription_never_sees_a_denied_message(
    allow: tuple[str, ...] | None, deny: tuple[str, ...], wanted: str, published: list[bytes]
) -> None:
    permissions = subscribing(allow=allow, deny=deny)
    if not permissions.may_subscribe(wanted.encode()):
        return
    for subject in published:
        if not naive_match(subject, wanted.encode()):
            continue
        held_back = permissions.filters_deliveries and permissions.delivery_denied(subject)
        assert held_back is any(naive_match(subject, rule.encode()) for rule in deny)


_RULES = st.lists(
    st.one_of(
        st.lists(st.sampled_from(["a", "b", "*"]), min_size=1, max_size=3).map(".".join),
        st.lists(st.sampled_from(["a", "b", "*"]), max_size=2).map(lambda tokens: ".".join([*tokens, ">"])),
    ),
    max_size=6,
)
_ASKED = st.lists(st.sampled_from([b"a", b"b", b"*", b">", b""]), min_size=1, max_size=3).map(b".".join)
_UNRELATED = tuple(f"z.{number}.*" for number in range(200))


@given(_RULES, _RULES, _ASKED, st.sampled_from([None, b"q"]))
def test_many_rules_answer_as_few_would(
    allow: list[str], deny: list[str], asked: bytes, queue: bytes | None
) -> None:
    answers = []
    for others in ((), _UNRELATED):
        allowed, denied = (*allow, *others), (*deny, *others)
        permissions = subscribing(allow=allowed, deny=denied)
        answers.append(
            [
                publishing(allow=allowed, deny=denied).may_publish(asked, 0.0),
                permissions.may_subscribe(asked, queue),
                permissions.filters_deliveries,
                permissions.delivery_denied(asked, queue),
            ]
        )
    assert answers[0] == answers[1]


def test_connections_of_a_user_share_thousands_of_rules() -> None:
    rules = tuple(f"a.{number}.*" for number in range(1_000))
    one, other = (publishing(allow=rules, deny=("a.1.x",)) for _ in range(2))
    assert one._publish_allow is other._publish_allow
    assert one.may_publish(b"a.7.x", 0.0)
    assert not one.may_publish(b"a.1.x", 0.0)
    assert one._publish_cache
    assert not other._publish_cache
