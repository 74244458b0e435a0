"""Acknowledgements on their way to those who wait for them."""

from millstream.broker.router import SubjectSpace
from millstream.broker.routes import Subscriber, Subscription, Target
from millstream.protocol.outbuf import OutBuffer
from millstream.protocol.parser import Frame
from millstream.protocol.replies import Replies


class Listener(Subscriber):
    def __init__(self) -> None:
        self.got: list[tuple[bytes, bytes]] = []

    def deliver(self, target: Target, frame: Frame, source: Subscriber | None) -> bool:
        self.got.append((target.subject, frame.payload()))
        return True


def listening(space: SubjectSpace, *patterns: bytes, queue: bytes | None = None) -> Listener:
    listener = Listener()
    for pattern in patterns:
        space.subscribe(Subscription(listener, pattern, queue, b"1"))
    return listener


def answers(*replies: bytes) -> Replies:
    made = Replies()
    for number, reply in enumerate(replies, 1):
        made.add(reply, 0, len(reply), number, b"}")
    return made


def test_each_gets_the_answers_to_its_own_subjects_in_order() -> None:
    space = SubjectSpace("A", 1)
    one, two = listening(space, b"_INBOX.one.*"), listening(space, b"_INBOX.two.*")
    space.answer(answers(b"_INBOX.one.a", b"_INBOX.one.b", b"_INBOX.two.a", b"_INBOX.one.c"), b'{"seq":')
    assert one.got == [
        (b"_INBOX.one.a", b'{"seq":1}'),
        (b"_INBOX.one.b", b'{"seq":2}'),
        (b"_INBOX.one.c", b'{"seq":4}'),
    ]
    assert two.got == [(b"_INBOX.two.a", b'{"seq":3}')]


def test_a_subject_without_a_dot_and_a_literal_one_are_answered() -> None:
    space = SubjectSpace("A", 1)
    listener = listening(space, b"me", b"in.box")
    space.answer(answers(b"me", b"in.box", b"in.other", b"me"), b"")
    assert [subject for subject, _ in listener.got] == [b"me", b"in.box", b"me"]


def test_subjects_that_begin_alike_are_told_apart() -> None:
    space = SubjectSpace("A", 1)
    short, long = listening(space, b"in.*"), listening(space, b"inn.*")
    space.answer(answers(b"in.1", b"inn.1", b"in.2"), b"")
    assert [subject for subject, _ in short.got] == [b"in.1", b"in.2"]
    assert [subject for subject, _ in long.got] == [b"inn.1"]


def test_one_of_a_queue_gets_an_answer() -> None:
    space = SubjectSpace("A", 1)
    members = [listening(space, b"in.*", queue=b"q") for _ in range(3)]
    space.answer(answers(b"in.1", b"in.2"), b"")
    assert sum(len(member.got) for member in members) == 2


def test_the_line_of_an_answer_is_that_of_any_message() -> None:
    out = OutBuffer()
    assert out.append_answer(b"9", b"in.1}", 0, 4, b'{"seq":', 120, 1) == 11
    assert out.take() == b'MSG in.1 9 11\r\n{"seq":120}\r\n'
