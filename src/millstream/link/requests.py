"""Open requests; all their answers come to one wildcard inbox.

    ask ─▶ reply subject <inbox>.<token> ─▶ answer ─▶ `settle(Message)`
                                        └▶ deadline, permission, cut ─▶ `settle(LinkError)`

Every request has exactly one outcome, unless the caller calls ``forget``.  A token is random, so a seen token
does not reveal the next.  This module has neither clock nor socket; callers pass times.
"""

import math
import secrets
from collections.abc import Callable
from typing import Final, NamedTuple

from millstream.link.deliveries import LinkMessage, Receiver, copy_message
from millstream.link.errors import LinkError, NoResponders, PermissionViolation, RequestTimeout
from millstream.link.parser import LinkParser

_NO_RESPONDERS: Final = 503

Settle = Callable[[LinkMessage | LinkError], None]


class _Open(NamedTuple):
    subject: str
    settle: Settle
    deadline: float
    timeout_s: float


class Requests(Receiver):
    """The open requests of one link, across its connections."""

    def __init__(self, inbox: str) -> None:
        self.inbox: Final = inbox
        self.pattern: Final = f"{inbox}.*"
        self._prefix_size = len(inbox) + 1
        self._open: dict[str, _Open] = {}
        self._refused: PermissionViolation | None = None  # the credentials do not permit the inbox

    def __len__(self) -> int:
        return len(self._open)

    def ask(self, subject: str, settle: Settle, now: float, timeout_s: float) -> str:
        """Register a request and return its reply subject; `timeout_s` 0 waits for ever."""
        if self._refused is not None:
            raise self._refused
        token = secrets.token_hex(8)
        self._open[token] = _Open(subject, settle, now + (timeout_s or math.inf), timeout_s)
        return f"{self.inbox}.{token}"

    def forget(self, reply: str) -> None:
        """Forget a request; its answer is ignored."""
        self._open.pop(reply[self._prefix_size :], None)

    def take(self, parser: LinkParser) -> bool:
        """Settle the request whose answer is the parser's current message."""
        message = copy_message(parser)
        asked = self._open.pop(message.subject[self._prefix_size :], None)
        if asked is not None:
            if message.status == _NO_RESPONDERS and not message.payload:
                asked.settle(NoResponders(f"nobody listens on {asked.subject}"))
            else:
                asked.settle(message)
        return False

    def expire(self, now: float) -> None:
        """Give up requests whose deadline has passed."""
        for token, asked in [pair for pair in self._open.items() if pair[1].deadline <= now]:
            del self._open[token]
            asked.settle(RequestTimeout(f"no answer to {asked.subject} within {asked.timeout_s:g} s"))

    def fail_all(self, make: Callable[[str], LinkError]) -> None:
        """Give up all requests with the error that `make` returns for each subject."""
        given_up, self._open = self._open, {}
        self._refused = None  # the next connection may have other permissions
        for asked in given_up.values():
            asked.settle(make(asked.subject))

    def deny(self, subject: str, error: PermissionViolation) -> None:
        """Give up requests to `subject`: the server does not permit them and sends no answer."""
        for token, asked in [pair for pair in self._open.items() if pair[1].subject == subject]:
            del self._open[token]
            asked.settle(error)

    def deny_all(self, error: PermissionViolation) -> None:
        """Refuse all further requests, because no answer can reach us."""
        self.fail_all(lambda _: error)
        self._refused = error
