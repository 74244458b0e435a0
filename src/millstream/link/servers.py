"""The choice of the next server: configured addresses, those that a cluster announced, growing pauses.

The module is pure: callers may pass the random generator, and do the waiting.
"""

import ipaddress
import random
from dataclasses import dataclass
from typing import Final

from millstream.link.errors import BadLinkOptions
from millstream.link.login import ServerInfo
from millstream.link.options import LinkOptions, ServerAddress

_MOST_LEARNT: Final = 256  # addresses; bounds what a server can make us remember


@dataclass(frozen=True, slots=True)
class Reconnect:
    """The reconnect policy: wait `first_s`, then longer after each failure."""

    first_s: float = 0.05
    longest_s: float = 5.0
    attempts: int = -1  # failed rounds over all servers before the link gives up; -1: never
    stop_when_refused: bool = False  # refused credentials end the link; otherwise files are read again


class Backoff:
    """The delays after consecutive failures, up to `longest_s`."""

    __slots__ = ("_first_s", "_longest_s", "_random", "failures")

    def __init__(self, *, first_s: float, longest_s: float, generator: random.Random) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._random = generator
        self.failures = 0

    def next_s(self) -> float:
        """Return the next delay: half of it is fixed, half is random."""
        self.failures += 1
        if self.failures == 1:
            return 0.0
        delay_s = min(self._first_s * 2.0 ** min(self.failures - 2, 32), self._longest_s)
        return delay_s * (0.5 + self._random.random() / 2)

    def succeeded(self) -> None:
        """Reset the delay after a success."""
        self.failures = 0


class ServerPool:
    """The servers of the options, and those that the last INFO announced."""

    def __init__(self, options: LinkOptions, generator: random.Random | None = None) -> None:
        self._configured = options.servers
        self._learnt: list[ServerAddress] = []
        self._leaving: set[tuple[str, int]] = set()
        self._random = generator or random.Random()

    def learn(self, info: ServerInfo) -> None:
        """Replace the announced addresses by those of an INFO, if it has any."""
        if not info.connect_urls:
            return
        first = self._configured[0]
        seen = {_key(server) for server in self._configured}
        learnt: list[ServerAddress] = []
        for url in info.connect_urls[:_MOST_LEARNT]:
            try:
                told = ServerAddress.parse(url)
            except BadLinkOptions:
                continue  # a server may announce protocols that we do not support
            if _key(told) not in seen:
                seen.add(_key(told))
                learnt.append(ServerAddress(told.host, told.port, first.tls, first.user, first.password))
        self._learnt = learnt

    def avoid(self, server: ServerAddress) -> None:
        """Try this server last, because it is about to shut down."""
        self._leaving.add(_key(server))

    def connected(self, server: ServerAddress) -> None:
        """Note that a server accepts clients, so it is not shutting down."""
        self._leaving.discard(_key(server))

    def known(self) -> list[ServerAddress]:
        return [*self._configured, *self._learnt]

    def has_others(self, server: ServerAddress) -> bool:
        """Return whether there is another server that is not shutting down."""
        return any(_key(each) != _key(server) and _key(each) not in self._leaving for each in self.known())

    def round(self) -> list[ServerAddress]:
        """Return every server once, in random order; those that are shutting down come last."""
        servers = self.known()
        self._random.shuffle(servers)
        return sorted(servers, key=lambda server: _key(server) in self._leaving)

    def tls_name(self, server: ServerAddress) -> str:
        """Return the name that the server's certificate must have; clusters announce bare addresses."""
        if server not in self._configured and _is_address(server.host):
            return next((each.host for each in self._configured if not _is_address(each.host)), server.host)
        return server.host


def _key(server: ServerAddress) -> tuple[str, int]:
    return server.host, server.port


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
