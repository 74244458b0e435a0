"""Poll a receiver that does not keep up: no event fires when its socket drains.

Compiled, because it is on the path of a message.
"""

_SHORTEST_LOOK_S = 0.002
_LONGEST_LOOK_S = 0.05


class SlowReceiverPoll:
    """Decides when to poll a slow receiver again: less often, the longer it takes."""

    def __init__(self) -> None:
        self._waited_s = 0.0

    def look_after_s(self) -> float:
        delay_s = min(max(self._waited_s / 4, _SHORTEST_LOOK_S), _LONGEST_LOOK_S)
        self._waited_s += delay_s
        return delay_s

    def is_over(self) -> None:
        """Reset after the receiver took something."""
        self._waited_s = 0.0
