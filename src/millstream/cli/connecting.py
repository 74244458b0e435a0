"""Options that say which server to talk to and who is asking, for every command that is a client.

    @app.command()
    @talks_to_a_server
    def backup(folder: Path, server: Target) -> None:
        async with server.connected() as connection: …

The decorator puts the options in the place of the parameter `server`.  Names and environment variables are
those of the `nats` command line, so that a shell that is set up for it is set up for this.  A command that
talks to two servers has a second set, whose options begin with `--to-` and have no environment variables:
nobody shall send one server's password to another.

Files are read when the connection is made, and checked by `millstream.client.opening`.
"""

from __future__ import annotations

import functools
import inspect
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from nats.aio.client import Client as Connection

from millstream.base.tls_files import client_context
from millstream.cli.endings import UsageError
from millstream.client.opening import open_connection

DEFAULT_SERVER: Final = "nats://127.0.0.1:4222"
DEFAULT_TIMEOUT_S: Final = 10.0
_CONNECT_S: Final = 10.0


class LoginError(UsageError):
    """What was said about who is asking makes no sense."""


@dataclass(frozen=True, slots=True)
class Target:
    """A server, and who is asking; each field is the option of that name."""

    server: str = field(default=DEFAULT_SERVER, repr=False)  # a URL may have a password in it
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    creds: str = ""
    nkey: str = ""
    tlsca: str = ""
    tlscert: str = ""
    tlskey: str = ""
    tlsfirst: bool = False
    inbox_prefix: str = ""
    js_domain: str = ""
    timeout: float = DEFAULT_TIMEOUT_S

    @property
    def servers(self) -> list[str]:
        """The addresses, each with a scheme."""
        found = [each.strip() for each in self.server.split(",") if each.strip()]
        return [each if "://" in each else f"nats://{each}" for each in found]

    def arguments(self) -> dict[str, Any]:
        """What ``nats.connect`` is to be told beside the addresses; LoginError if it makes no sense."""
        ways = {"user": self.user, "token": self.token, "creds": self.creds, "nkey": self.nkey}
        given = [name for name, value in ways.items() if value]
        if len(given) > 1:
            raise LoginError(f"{' and '.join(given)} are {len(given)} ways to log in; give one")
        if self.password and not self.user:
            raise LoginError("a password needs a user")
        found: dict[str, Any] = {}
        if self.user:
            found |= {"user": self.user, "password": self.password}
        elif self.token:
            found["token"] = self.token
        elif self.creds:
            found["user_credentials"] = _full(self.creds)
        elif self.nkey:
            found["nkeys_seed"] = _full(self.nkey)
        context = self._tls()
        if context is not None:
            found["tls"] = context
        if self.tlsfirst:
            found["tls_handshake_first"] = True
        if self.inbox_prefix:
            found["inbox_prefix"] = self.inbox_prefix
        return found

    def _tls(self) -> ssl.SSLContext | None:
        if not (self.tlsca or self.tlscert or self.tlskey or self.tlsfirst):
            return None
        if bool(self.tlscert) != bool(self.tlskey):
            raise LoginError("tlscert and tlskey belong together")
        return client_context(_full(self.tlsca), _full(self.tlscert), _full(self.tlskey))

    @asynccontextmanager
    async def connected(self, *, name: str = "millstream", **options: Any) -> AsyncIterator[Connection]:
        """A connection that is closed in the end; `options` are further ones of ``nats.connect``.

        Raises ClientError if there is none.  One that is lost is tried to get back for some time; errors of
        it reach whoever waits for an answer.
        """
        connection = Connection()
        arguments = {
            "name": name,
            "error_cb": _ignore,
            "connect_timeout": 3,
            "max_reconnect_attempts": 10,
            "reconnect_time_wait": 0.5,
            **self.arguments(),
            **options,
        }
        await open_connection(connection, self.servers, _CONNECT_S, patient=False, **arguments)
        try:
            yield connection
        finally:
            await connection.close()


async def _ignore(error: Exception) -> None:
    """Leave errors of a connection to whoever waits for an answer over it."""


def _full(path: str) -> str:
    return str(Path(path).expanduser()) if path else ""


# name, environment variable, how the help calls the value, what it is
_OPTIONS: Final = (
    ("user", "NATS_USER", "NAME", "User name."),
    ("password", "NATS_PASSWORD", "PASSWORD", "Password."),
    ("token", "NATS_TOKEN", "TOKEN", "Token."),
    ("creds", "NATS_CREDS", "FILE", "File with the user's JWT and seed."),
    ("nkey", "NATS_NKEY", "FILE", "File with the user's NKEY seed."),
    ("tlsca", "NATS_CA", "FILE", "File with the certificates to trust."),
    ("tlscert", "NATS_CERT", "FILE", "File with our certificate."),
    ("tlskey", "NATS_KEY", "FILE", "File with the key of our certificate."),
    ("tlsfirst", "", "", "Begin with TLS before the server says anything."),
    ("inbox_prefix", "", "PREFIX", "First part of the subjects of answers."),
    ("js_domain", "", "NAME", "JetStream domain."),
    ("timeout", "", "SECONDS", "Seconds to wait for an answer."),
)


def talks_to_a_server(command: Callable[..., None]) -> Callable[..., None]:
    """Give `command` the options of a server in place of its parameter `server`, which is a Target."""
    text = "The server, or several with commas."
    address = _Parameter("server", ("--server", "-s"), "NATS_URL", "URL", text)
    return _extended(command, "server", address, "")


def talks_to_a_second(command: Callable[..., None]) -> Callable[..., None]:
    """The same for a parameter `to`: ``--to``, ``--to-user`` and so on."""
    text = "Where to: a server, or several of a cluster with commas."
    address = _Parameter("to", ("--to",), "", "URL", text)
    return _extended(command, "to", address, "to-")


@dataclass(frozen=True, slots=True)
class _Parameter:
    name: str
    flags: tuple[str, ...]
    environment: str
    value: str
    help: str

    def made(self, default: Any) -> inspect.Parameter:
        option = typer.Option(
            *self.flags,
            envvar=self.environment or None,
            metavar=self.value or None,
            help=self.help,
            show_default=default not in ("", False),
        )
        return inspect.Parameter(
            self.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=Annotated[type(default), option],
        )


def _extended(
    command: Callable[..., None], parameter: str, address: _Parameter, prefix: str
) -> Callable[..., None]:
    fields = {"server": address}
    for name, environment, value, text in _OPTIONS:
        flag = f"--{prefix}{name.replace('_', '-')}"
        fields[name] = _Parameter(
            f"{prefix}{name}".replace("-", "_"), (flag,), "" if prefix else environment, value, text
        )

    @functools.wraps(command)
    def wrapper(**given: Any) -> None:
        values = {field: given.pop(one.name) for field, one in fields.items()}
        command(**given, **{parameter: Target(**values)})

    signature = inspect.signature(command, eval_str=True)
    kept = [
        each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name, each in signature.parameters.items()
        if name != parameter
    ]
    defaults = Target()
    made = [one.made("" if one.name == "to" else getattr(defaults, field)) for field, one in fields.items()]
    every = [*kept, *made]
    wrapper.__signature__ = signature.replace(parameters=every)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {each.name: each.annotation for each in every}
    del wrapper.__wrapped__
    return wrapper
