"""A sender looks at the clock more often, the longer its messages take."""

from millstream.jetstream.stride import Stride


def test_it_grows_while_messages_are_quick() -> None:
    stride = Stride()
    assert stride.messages == 1
    for _ in range(20):
        stride.took(stride.messages, 1000)
    assert stride.messages == 128


def test_a_few_messages_say_nothing_of_many() -> None:
    stride = Stride()
    stride.took(1, 1000)
    stride.took(1, 1000)
    assert stride.messages == 2


def test_it_shrinks_to_one_message() -> None:
    stride = Stride()
    for _ in range(4):
        stride.took(stride.messages, 1000)
    for _ in range(10):
        stride.took(stride.messages, 10_000_000)
    assert stride.messages == 1
