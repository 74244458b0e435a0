"""Which server to try next, and when: configured addresses, those that a cluster told, and growing pauses.

Pure: random numbers come from a generator that can be handed in, and waiting is done by the caller.
"""

import ipaddress
import random
from dataclasses import dataclass
from typing import Final

from millstream.link.errors import BadLinkOptions
from millstream.link.login import ServerInfo
from millstream.link.options import LinkOptions, ServerAddress

_MOST_LEARNT: Final = 256  # addresses; no cluster has more, and a server must not fill our memory


@dataclass(frozen=True, slots=True)
class Reconnect:
    """How a link gets a lost connection back: after `first_s`, then after longer and longer pauses."""

    first_s: float = 0.05
    longest_s: float = 5.0
    attempts: int = -1  # rounds over all servers that may fail in a row; -1 is any number
    stop_when_refused: bool = (
        False  # whether refused credentials end the link; files are read again otherwise
    )


class Backoff:
    """Delays of consecutive failures, from nothing up to `longest_s`."""

    __slots__ = ("_first_s", "_longest_s", "_random", "failures")

    def __init__(self, *, first_s: float, longest_s: float, generator: random.Random) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._random = generator
        self.failures = 0

    def next_s(self) -> float:
        """Return how long to wait now: half of the delay for sure, the other half by chance."""
        self.failures += 1
        if self.failures == 1:
            return 0.0
        delay_s = min(self._first_s * 2.0 ** min(self.failures - 2, 32), self._longest_s)
        return delay_s * (0.5 + self._random.random() / 2)

    def succeeded(self) -> None:
        """The next failure is a first one again."""
        self.failures = 0


class ServerPool:
    """The servers of the options, and those that the last server knew; its list replaces the one before."""

    def __init__(self, options: LinkOptions, generator: random.Random | None = None) -> None:
        self._configured = options.servers
        self._learnt: list[ServerAddress] = []
        self._leaving: set[tuple[str, int]] = set()
        self._random = generator or random.Random()

    def learn(self, info: ServerInfo) -> None:
        """Take the addresses that an INFO tells; one without addresses changes nothing."""
        if not info.connect_urls:
            return
        first = self._configured[0]
        seen = {_key(server) for server in self._configured}
        learnt: list[ServerAddress] = []
        for url in info.connect_urls[:_MOST_LEARNT]:
            try:
                told = ServerAddress.parse(url)
            except BadLinkOptions:
                continue  # a server may offer what we do not speak
            if _key(told) not in seen:
                seen.add(_key(told))
                learnt.append(ServerAddress(told.host, told.port, first.tls, first.user, first.password))
        self._learnt = learnt

    def avoid(self, server: ServerAddress) -> None:
        """Try this server last from now on: it is about to shut down."""
        self._leaving.add(_key(server))

    def connected(self, server: ServerAddress) -> None:
        """It lets clients in, so it is not about to shut down any more."""
        self._leaving.discard(_key(server))

    def known(self) -> list[ServerAddress]:
        return [*self._configured, *self._learnt]

    def has_others(self, server: ServerAddress) -> bool:
        """Return whether there is a server to go to that is not about to shut down."""
        return any(_key(each) != _key(server) and _key(each) not in self._leaving for each in self.known())

    def round(self) -> list[ServerAddress]:
        """Every server once, in random order; those that are about to shut down come last."""
        servers = self.known()
        self._random.shuffle(servers)
        return sorted(servers, key=lambda server: _key(server) in self._leaving)

    def tls_name(self, server: ServerAddress) -> str:
        """The name that the server's certificate must have: clusters tell bare addresses of their members."""
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
