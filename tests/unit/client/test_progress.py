"""Gaps, repeats and where to go on: by example, and against a server that loses at random.

Messages reach the core as objects, as from nats-py, and where they lie in the parser, as from a link.
"""

import itertools
from enum import Enum

from hypothesis import given
from hypothesis import strategies as st

from millstream.client.config import StartAt, ordered_config
from millstream.client.core import OrderedCore
from millstream.client.state import ResetReason
from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.enums import DeliverPolicy
from millstream.link.deliveries import LinkMessage
from millstream.link.parser import LinkOp, LinkParser


class Verdict(Enum):
    NEXT = "next"
    KNOWN = "known"
    GAP = "gap"


class Progress:
    """A core with one consumer after the other, and how it judged what came."""

    def __init__(self, config: ConsumerConfig) -> None:
        self.core = OrderedCore(config, max_messages=10**6, max_bytes=10**9, changed=lambda: None)
        self._parser = LinkParser()
        self._in_parser = itertools.cycle((False, True))
        self._listen()

    def _listen(self) -> None:
        self.core.listen("S", "C", "inbox")

    def ask(self, last_seq: int) -> ConsumerConfig:
        self._listen()
        return self.core.ask(last_seq)

    def opened(self, consumer_seq: int, stream_seq: int) -> None:
        self.core.opened(consumer_seq, stream_seq)

    @property
    def consumer_seq(self) -> int:
        return self.core.consumer_seq

    @property
    def stream_seq(self) -> int:
        return self.core.stream_seq

    @property
    def seen_seq(self) -> int:
        return self.core.seen_seq

    @property
    def in_snapshot(self) -> bool:
        return self.core.in_snapshot()

    def message(self, consumer_seq: int, stream_seq: int) -> Verdict:
        reply = f"$JS.ACK.S.C.1.{stream_seq}.{consumer_seq}.1700000000000000000.3"
        before = self.core.held
        if next(self._in_parser):
            self._parser.feed(b"MSG a.b 7 %b 1\r\nx\r\n" % reply.encode())
            assert self._parser.next() == LinkOp.MSG
            self.core.take(self._parser)
        else:
            self.core.receive(LinkMessage("a.b", b"x", reply))
        return self._verdict(self.core.held > before)

    def heartbeat(self, last_consumer_seq: int) -> Verdict:
        block = b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: %d\r\n\r\n" % last_consumer_seq
        self.core.receive(LinkMessage("inbox", b"", block=block, status=100))
        return self._verdict(True)

    def _verdict(self, good: bool) -> Verdict:
        if self.core.trouble is ResetReason.GAP:
            self._listen()
            return Verdict.GAP
        return Verdict.NEXT if good else Verdict.KNOWN


def place(config: ConsumerConfig) -> tuple[DeliverPolicy, int]:
    return config.deliver_policy, config.opt_start_seq


def test_what_comes_next_is_next_and_a_jump_of_the_consumer_sequence_is_a_gap() -> None:
    progress = Progress(ordered_config())
    assert place(progress.ask(20)) == (DeliverPolicy.ALL, 0)
    progress.opened(0, 0)
    assert progress.message(1, 4) is Verdict.NEXT
    assert progress.message(2, 9) is Verdict.NEXT  # sequences of the stream may jump
    assert progress.message(4, 11) is Verdict.GAP
    assert (progress.consumer_seq, progress.stream_seq) == (2, 9)
    assert place(progress.ask(20)) == (DeliverPolicy.BY_START_SEQUENCE, 10)
    assert progress.consumer_seq == 0


def test_the_same_message_again_is_known_and_a_consumer_that_counts_anew_is_a_gap() -> None:
    progress = Progress(ordered_config())
    progress.ask(9)
    progress.opened(0, 0)
    for sequence in (1, 2, 3):
        assert progress.message(sequence, sequence) is Verdict.NEXT
    assert progress.message(3, 3) is Verdict.KNOWN
    assert progress.message(1, 1) is Verdict.KNOWN
    assert progress.message(1, 4) is Verdict.GAP


def test_a_heartbeat_that_counts_otherwise_is_a_gap() -> None:
    progress = Progress(ordered_config())
    progress.ask(1)
    progress.opened(0, 0)
    assert progress.heartbeat(0) is Verdict.NEXT
    assert progress.heartbeat(1) is Verdict.GAP
    progress.message(1, 1)
    assert progress.heartbeat(1) is Verdict.NEXT
    assert progress.heartbeat(0) is Verdict.GAP


def test_a_start_that_depends_on_the_moment_is_pinned_by_the_first_answer() -> None:
    progress = Progress(ordered_config(start=StartAt.NEW))
    assert place(progress.ask(10)) == (DeliverPolicy.NEW, 0)
    progress.opened(0, 10)
    assert place(progress.ask(15)) == (DeliverPolicy.BY_START_SEQUENCE, 11)
    progress.opened(0, 10)
    assert progress.seen_seq == 0


def test_an_answer_that_was_lost_leaves_the_first_question_open() -> None:
    progress = Progress(ordered_config(start=StartAt.LAST))
    progress.ask(10)
    assert place(progress.ask(12)) == (DeliverPolicy.LAST, 0)
    progress.opened(1, 12)  # the answer came after a delivery that did not: still not known where it began
    assert place(progress.ask(13)) == (DeliverPolicy.LAST, 0)


def test_an_answer_that_comes_after_the_first_message_changes_nothing() -> None:
    progress = Progress(ordered_config())
    progress.ask(10)
    assert progress.message(1, 1) is Verdict.NEXT
    progress.opened(1, 1)
    assert place(progress.ask(10)) == (DeliverPolicy.BY_START_SEQUENCE, 2)


def test_last_per_subject_is_asked_for_again_until_its_end_is_passed() -> None:
    progress = Progress(ordered_config(start=StartAt.LAST_PER_SUBJECT))
    assert progress.ask(10).deliver_policy is DeliverPolicy.LAST_PER_SUBJECT
    progress.opened(0, 6)
    assert progress.message(1, 7) is Verdict.NEXT
    assert progress.message(3, 10) is Verdict.GAP
    assert progress.ask(14).deliver_policy is DeliverPolicy.LAST_PER_SUBJECT
    progress.opened(0, 6)
    assert progress.message(1, 7) is Verdict.KNOWN
    assert progress.message(2, 9) is Verdict.NEXT
    assert progress.message(3, 14) is Verdict.GAP  # perhaps 11, 12 and 13 are not the last of their subjects
    assert place(progress.ask(14)) == (DeliverPolicy.BY_START_SEQUENCE, 11)
    assert progress.message(1, 11) is Verdict.NEXT


def test_last_per_subject_continues_by_sequence_where_each_subject_has_one_message() -> None:
    progress = Progress(ordered_config(start=StartAt.LAST_PER_SUBJECT))
    assert progress.core.ask(10, True).deliver_policy is DeliverPolicy.LAST_PER_SUBJECT
    progress.opened(0, 6)
    assert progress.message(1, 7) is Verdict.NEXT
    assert progress.message(3, 10) is Verdict.GAP
    progress.core.listen("S", "C", "inbox")
    assert place(progress.core.ask(14, True)) == (DeliverPolicy.BY_START_SEQUENCE, 8)
    assert progress.message(1, 9) is Verdict.NEXT
    assert progress.message(2, 14) is Verdict.NEXT  # 10 was replaced meanwhile


class LosingServer:
    """A stream of one or more subjects, whose consumers lose and repeat what they send as they are told."""

    def __init__(self, subjects: list[int]) -> None:
        self.stream = list(enumerate(subjects, 1))  # (sequence, subject)

    @property
    def last_seq(self) -> int:
        return len(self.stream)

    def row(self, config: ConsumerConfig) -> list[int]:
        """The sequences that a new consumer sends."""
        sequences = [sequence for sequence, _ in self.stream]
        if config.deliver_policy is DeliverPolicy.BY_START_SEQUENCE:
            return [sequence for sequence in sequences if sequence >= config.opt_start_seq]
        if config.deliver_policy is DeliverPolicy.LAST_PER_SUBJECT:
            return sorted({subject: sequence for sequence, subject in self.stream}.values())
        return sequences


@given(
    subjects=st.lists(st.integers(0, 3), min_size=1, max_size=12),
    later=st.lists(st.lists(st.integers(0, 3), max_size=4), max_size=6),
    fates=st.lists(st.sampled_from(["pass", "pass", "pass", "drop", "twice"]), max_size=60),
    start=st.sampled_from([StartAt.FIRST, StartAt.LAST_PER_SUBJECT]),
)
def test_whatever_is_lost_each_message_is_next_once_and_in_order(
    subjects: list[int], later: list[list[int]], fates: list[str], start: StartAt
) -> None:
    server = LosingServer(subjects)
    first_row = server.row(ordered_config(start=start))
    opened_at = server.last_seq
    progress = Progress(ordered_config(start=start))
    handed_out: list[int] = []
    fate = iter(fates)
    for arrivals in [*later, [], []]:
        row = server.row(progress.ask(server.last_seq))
        progress.opened(0, row[0] - 1 if row else server.last_seq)
        verdict = Verdict.NEXT
        for consumer_seq, stream_seq in enumerate(row, 1):
            for _ in range({"pass": 1, "drop": 0, "twice": 2}[next(fate, "pass")]):
                verdict = progress.message(consumer_seq, stream_seq)
                if verdict is Verdict.NEXT:
                    handed_out.append(stream_seq)
            if verdict is Verdict.GAP:
                break
        server.stream += [(server.last_seq + n, subject) for n, subject in enumerate(arrivals, 1)]
    while (row := server.row(progress.ask(server.last_seq))) and handed_out[-1:] != [server.last_seq]:
        progress.opened(0, row[0] - 1)
        for consumer_seq, stream_seq in enumerate(row, 1):
            verdict = progress.message(consumer_seq, stream_seq)
            if verdict is Verdict.NEXT:
                handed_out.append(stream_seq)
            elif verdict is Verdict.GAP:
                break

    assert handed_out == sorted(set(handed_out))
    after = [sequence for sequence in handed_out if sequence > opened_at]
    assert after == list(range(opened_at + 1, server.last_seq + 1))
    before = [sequence for sequence in handed_out if sequence <= opened_at]
    if start is StartAt.FIRST:
        assert before == first_row
    else:
        # A subject that got a newer message meanwhile may have lost its older one, but none appears
        # that was never the last.
        assert set(before) <= set(first_row)
        newest = {subject: sequence for sequence, subject in server.stream}
        superseded = {sequence for sequence, subject in server.stream if newest[subject] > opened_at}
        assert set(first_row) - set(before) <= superseded
