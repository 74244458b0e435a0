"""Options that say which server to talk to and who is asking, for every command that is a client.

    @app.command()
    @talks_to_a_server
    def backup(folder: Path, server: Target) -> None:
        async with server.connected() as connection: …

The decorator puts the options in the place of the parameter `server`.  Names and environment variables are
those of the `nats` command line, so that a shell that is set up for it is set up for this.  A command that
talks to two servers has a second set, whose options begin with `--to-` and have no environment variables:
nobody shall send one server's password to another.

Files are read when the connection is made.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from nats.aio.client import Client as Connection
from nats.errors import AuthorizationError
from nats.errors import Error as NatsError

from millstream.base.errors import MillstreamError

DEFAULT_SERVER: Final = "nats://127.0.0.1:4222"
DEFAULT_TIMEOUT_S: Final = 10.0
_CONNECT_S: Final = 10.0


class LoginError(MillstreamError):
    """What was said about who is asking makes no sense, or a file of it can not be read."""


class CannotConnect(MillstreamError):
    """No server could be reached, or it did not let us in."""


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
        """What ``nats.connect`` is to be told beside the addresses; LoginError if it can not be."""
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
            found["user_credentials"] = _readable(self.creds)
        elif self.nkey:
            found["nkeys_seed"] = _readable(self.nkey)
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
        try:
            ca = _readable(self.tlsca) if self.tlsca else None
            context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=ca)
            if self.tlscert:
                context.load_cert_chain(_readable(self.tlscert), _readable(self.tlskey))
        except ssl.SSLError as error:
            raise LoginError(f"a certificate or key can not be used: {error}") from error
        return context

    @asynccontextmanager
    async def connected(self, *, name: str = "millstream", **options: Any) -> AsyncIterator[Connection]:
        """A connection that is closed in the end; `options` are further ones of ``nats.connect``.

        One that is lost is tried to get back for some time; errors of it reach whoever waits for an answer.
        """
        connection = Connection()
        problems: list[Exception] = []

        refused = asyncio.Event()

        async def note(error: Exception) -> None:
            problems.append(error)
            if isinstance(error, AuthorizationError) or "authorization" in str(error).lower():
                refused.set()

        arguments = {
            "name": name,
            "error_cb": note,
            "connect_timeout": 3,
            "max_reconnect_attempts": 10,
            "reconnect_time_wait": 0.5,
            **self.arguments(),
            **options,
        }
        try:
            await _unless(refused, connection.connect(self.servers, **arguments))
        except (NatsError, OSError, ValueError) as error:
            reason = problems[-1] if problems else error
            await connection.close()
            shown = ", ".join(each.rpartition("@")[2].rpartition("//")[2] for each in self.servers)
            raise CannotConnect(f"{shown}: {str(reason) or type(reason).__name__}") from error
        try:
            yield connection
        finally:
            await connection.close()


async def _unless(refused: asyncio.Event, connecting: Coroutine[Any, Any, None]) -> None:
    """Connect within some time; somebody who was refused is not let in by asking again."""
    task = asyncio.ensure_future(connecting)
    told = asyncio.ensure_future(refused.wait())
    try:
        await asyncio.wait([task, told], timeout=_CONNECT_S, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise TimeoutError
        await task
    finally:
        for each in (task, told):
            each.cancel()
        await asyncio.gather(task, told, return_exceptions=True)


def _readable(path: str) -> str:
    full = Path(path).expanduser()
    try:
        with full.open("rb"):
            return str(full)
    except OSError as error:
        raise LoginError(f"{path}: {error.strerror}") from error


# name, environment variable, what it is
_OPTIONS: Final = (
    ("user", "NATS_USER", "User name."),
    ("password", "NATS_PASSWORD", "Password."),
    ("token", "NATS_TOKEN", "Token."),
    ("creds", "NATS_CREDS", "File with the user's JWT and seed."),
    ("nkey", "NATS_NKEY", "File with the user's NKEY seed."),
    ("tlsca", "NATS_CA", "File with the certificates to trust."),
    ("tlscert", "NATS_CERT", "File with our certificate."),
    ("tlskey", "NATS_KEY", "File with the key of our certificate."),
    ("tlsfirst", "", "Begin with TLS before the server says anything."),
    ("inbox_prefix", "", "First part of the subjects of answers."),
    ("js_domain", "", "JetStream domain."),
    ("timeout", "", "Seconds to wait for an answer."),
)


def talks_to_a_server(command: Callable[..., None]) -> Callable[..., None]:
    """Give `command` the options of a server in place of its parameter `server`, which is a Target."""
    address = _Parameter("server", ("--server", "-s"), "NATS_URL", "The server, or several with commas.")
    return _extended(command, "server", address, "", "Connection")


def talks_to_a_second(command: Callable[..., None]) -> Callable[..., None]:
    """The same for a parameter `to`: ``--to``, ``--to-user`` and so on."""
    address = _Parameter("to", ("--to",), "", "Where to: a server, or several of a cluster with commas.")
    return _extended(command, "to", address, "to-", "Connection to the target")


@dataclass(frozen=True, slots=True)
class _Parameter:
    name: str
    flags: tuple[str, ...]
    environment: str
    help: str

    def made(self, default: Any, panel: str) -> inspect.Parameter:
        option = typer.Option(
            *self.flags,
            envvar=self.environment or None,
            help=self.help,
            show_default=default not in ("", False),
            rich_help_panel=panel,
        )
        return inspect.Parameter(
            self.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=Annotated[type(default), option],
        )


def _extended(
    command: Callable[..., None], parameter: str, address: _Parameter, prefix: str, panel: str
) -> Callable[..., None]:
    fields = {"server": address}
    for name, environment, text in _OPTIONS:
        flag = f"--{prefix}{name.replace('_', '-')}"
        fields[name] = _Parameter(
            f"{prefix}{name}".replace("-", "_"), (flag,), "" if prefix else environment, text
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
    made = [
        one.made("" if one.name == "to" else getattr(defaults, field), panel) for field, one in fields.items()
    ]
    every = [*kept, *made]
    wrapper.__signature__ = signature.replace(parameters=every)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {each.name: each.annotation for each in every}
    del wrapper.__wrapped__
    return wrapper
