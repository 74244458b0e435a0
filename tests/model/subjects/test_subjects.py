"""Matching and the subscription tree against token lists and a plain list of subscriptions."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from millstream.subjects.match import collide, is_subset, matches
from millstream.subjects.tree import SubjectTree

# Few tokens and short subjects, so that random ones meet; some tokens only look like wildcards.
TOKENS = st.sampled_from([b"a", b"b", b"ab", b"c", b"a*", b"*b", b"**", b">>", b"a>"])
LITERALS = st.lists(TOKENS, min_size=1, max_size=4).map(b".".join)
ODD_LITERALS = st.lists(st.one_of(TOKENS, st.sampled_from([b"", b"*", b">"])), max_size=4).map(b".".join)


@st.composite
def patterns(draw: st.DrawFn) -> bytes:
    tokens = draw(st.lists(st.one_of(TOKENS, st.just(b"*")), max_size=4))
    if not tokens or draw(st.booleans()):
        tokens.append(b">")
    return b".".join(tokens)


def naive_matches(subject: bytes, pattern: bytes) -> bool:
    subject_tokens, pattern_tokens = subject.split(b"."), pattern.split(b".")
    if pattern_tokens[-1] == b">":
        fixed = pattern_tokens[:-1]
        if len(subject_tokens) <= len(fixed):
            return False
        subject_tokens = subject_tokens[: len(fixed)]
        pattern_tokens = fixed
    return len(subject_tokens) == len(pattern_tokens) and all(
        wanted in (b"*", token) for token, wanted in zip(subject_tokens, pattern_tokens, strict=True)
    )


def instances(pattern: bytes, other: bytes) -> list[bytes]:
    """Literal subjects of `pattern` that together tell whether it lies in, or meets, `other`."""
    subjects = [b""]
    for index, token in enumerate(pattern.split(b".")):
        choices = [token]
        if token == b"*":
            choices = [b"fresh", *(t for t in other.split(b".")[index : index + 1] if t not in (b"*", b">"))]
        elif token == b">":
            rest = [t if t not in (b"*", b">") else b"fresh" for t in other.split(b".")[index:]]
            endings = [b".".join([b"fresh"] * n) for n in range(1, 7)]
            endings += [b".".join(rest[:n]) for n in range(1, len(rest) + 1)]
            choices = endings
        subjects = [b".".join(part for part in (s, c) if part) for s in subjects for c in choices]
    return subjects


@settings(max_examples=500, deadline=None)
@given(LITERALS, patterns())
def test_matches_equals_comparing_token_lists(subject: bytes, pattern: bytes) -> None:
    assert matches(subject, pattern) is naive_matches(subject, pattern)


@settings(max_examples=300, deadline=None)
@given(patterns(), patterns())
def test_a_subset_is_one_whose_subjects_all_match(left: bytes, right: bytes) -> None:
    assert is_subset(left, right) is all(naive_matches(s, right) for s in instances(left, right))


@settings(max_examples=300, deadline=None)
@given(patterns(), patterns())
def test_patterns_collide_when_some_subject_matches_both(left: bytes, right: bytes) -> None:
    shared = any(naive_matches(s, left) and naive_matches(s, right) for s in instances(left, right))
    assert collide(left, right) is shared
    assert collide(right, left) is shared


class TreeMachine(RuleBasedStateMachine):
    """Random insertions and removals; the tree must answer as a list of entries does."""

    @initialize()
    def start(self) -> None:
        self.tree = SubjectTree()
        self.entries: list[tuple[bytes, bytes | None, int]] = []
        self.next_value = 0

    @rule(pattern=patterns(), queue=st.sampled_from([None, None, b"q", b"r"]))
    def insert(self, pattern: bytes, queue: bytes | None) -> None:
        self.next_value += 1
        self.tree.insert(pattern, queue, self.next_value)
        self.entries.append((pattern, queue, self.next_value))

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        if self.entries:
            entry = self.entries.pop(data.draw(st.integers(0, len(self.entries) - 1)))
            self.tree.remove(*entry)

    @rule(subject=st.one_of(LITERALS, ODD_LITERALS))
    def match(self, subject: bytes) -> None:
        result = self.tree.match(subject)
        plain: list[int] = []
        queues: dict[bytes, list[int]] = {}
        if b"" not in subject.split(b"."):
            for pattern, queue, value in self.entries:
                if naive_matches(subject, pattern):
                    (plain if queue is None else queues.setdefault(queue, [])).append(value)
        assert sorted(result.plain) == sorted(plain)
        assert {queue: sorted(members) for queue, members in result.queues.items()} == queues

    @invariant()
    def counts_agree(self) -> None:
        assert self.tree.count == len(self.entries)
        assert self.tree.inserts - self.tree.removes == len(self.entries)

    def teardown(self) -> None:
        for entry in self.entries:
            self.tree.remove(*entry)
        assert self.tree.root.is_empty()
        assert self.tree.count == 0


TreeMachine.TestCase.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
TestTree = TreeMachine.TestCase
