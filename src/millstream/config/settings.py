"""Settings from the file or the command line, before they are checked and become options."""

from typing import Any

import msgspec

from millstream.broker.options import CalloutOptions, User
from millstream.config.errors import Location


class FoundSettings(dict[str, Any]):
    """Results by name, with the location where each was set."""

    def __init__(self) -> None:
        super().__init__()
        self.places: dict[str, Location] = {}

    def at(self, name: str) -> Location | None:
        return self.places.get(name)


class AuthorizationBlock(msgspec.Struct, frozen=True, kw_only=True):
    username: str = ""
    password: str = ""
    token: str = ""
    timeout_s: float | None = None
    users: tuple[User, ...] | None = None  # None: the block has no `users`
    callout: CalloutOptions | None = None
    at: Location | None = None


def split_host_port(text: str) -> tuple[str, int]:
    """Split `host:port`, `:port` or `[v6]:port`; raise ValueError for anything else."""
    host_text, colon, port_text = text.rpartition(":")
    bracketed = host_text.startswith("[") and host_text.endswith("]")
    if not colon or (":" in host_text and not bracketed):
        raise ValueError(f'could not parse address string "{text}"')
    try:
        number = int(port_text)
    except ValueError:
        raise ValueError(f'could not parse port "{port_text}"') from None
    return (host_text[1:-1] if bracketed else host_text), number
