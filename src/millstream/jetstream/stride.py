"""Choose how many messages to send before the next look at the clock.

Some messages take a hundred times as long as others: redeliveries, single ones from all over the log, those
for a mirror that rewrites them, or for thousands of subscribers.  So a sender begins with one message, and
sends more at a time while that takes little.

Compiled, because it is on the path of a message.
"""

_MOST = 128  # messages
_SHORT_NS = 200_000  # twice as many are sent after a stride that took less
_LONG_NS = 500_000  # and half as many after one that took more


class Stride:
    """The number of messages of one sender between two looks."""

    def __init__(self) -> None:
        self.messages = 1

    def took(self, sent: int, duration_ns: int) -> None:
        """Record that a stride with `sent` messages ended."""
        if duration_ns > _LONG_NS:
            if self.messages > 1:
                self.messages //= 2
        elif duration_ns < _SHORT_NS and sent >= self.messages and self.messages < _MOST:
            self.messages *= 2
