"""Keep the keys of an OpenID Connect issuer, and fetch them in a thread when they are old or one is missing.

The loop never waits for the issuer.  Tokens with unknown keys, which anybody can make, cause one fetch every
ten seconds at most.  While the issuer is away, the keys that it had are good for a day.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final

from millstream.base import guard
from millstream.broker.oidc.keys import Keys, OidcError, fetch_keys
from millstream.broker.options import OidcOptions

if TYPE_CHECKING:
    from millstream.broker.broker import Broker

_log = logging.getLogger("millstream.broker")

_PAUSE_S: Final = 10.0  # between two fetches
_REFRESH_S: Final = 3600.0  # after which keys are fetched again
_TRUST_S: Final = 86_400.0  # for keys that could not be fetched again
_MOST_WAITING: Final = 4096  # logins that wait for keys; others are refused


class KeyRing:
    """The keys of an issuer, on the event loop."""

    def __init__(self, broker: Broker, options: OidcOptions) -> None:
        self._broker = broker
        self.options = options
        self._keys: Keys = {}
        self._fetched = float("-inf")  # when the keys came
        self._tried = float("-inf")
        self._fetching = False
        self._waiting: list[Callable[[], None]] = []
        self._thread: ThreadPoolExecutor | None = None

    def close(self) -> None:
        """Give up what is being fetched."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)

    def keys(self) -> Keys:
        """Return the keys that may be used now."""
        age = self._broker.now() - self._fetched
        if age > _REFRESH_S:
            self._fetch()
        return self._keys if age <= _TRUST_S else {}

    def renew(self, done: Callable[[], None]) -> None:
        """Fetch the keys again unless that was tried just now, and call `done`, perhaps at once."""
        self._fetch()
        if self._fetching and len(self._waiting) < _MOST_WAITING:
            self._waiting.append(done)
        else:
            done()

    def _fetch(self) -> None:
        now = self._broker.now()
        if self._fetching or now - self._tried < _PAUSE_S:
            return
        self._tried = now
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "millstream-oidc")
        fetched = self._broker.loop.run_in_executor(self._thread, partial(fetch_keys, self.options))
        self._fetching = True  # not before: without a thread there is nothing to wait for
        self._broker.turns.when_done(fetched, self._came)

    def _came(self, fetched: asyncio.Future[Keys]) -> None:
        self._fetching = False
        try:
            if not fetched.cancelled():
                self._keys = fetched.result()
                self._fetched = self._broker.now()
        except OidcError as error:
            _log.error("The keys of the OpenID Connect issuer cannot be had: %s", error)
        except Exception as error:
            guard.report("fetching the keys of an issuer", error)
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            self._broker.turns.soon(each)
