"""Open a connection of nats-py, or say in one sentence why there is none.

nats-py tries again without an end, logs every failure with its traceback, reads a credentials file that is
none for ever, and talks in the clear to a server that does not ask for TLS.  So what it is given is checked
before it sees it, its failures are taken down here, and one that will not pass ends the attempt at once.
A server that refuses a login may close the connection before nats-py has read why: then `millstream.link`
asks once more, which reads it always.

No text here has a password, a token or a seed in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections import UserString
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
from nats.aio.client import Client as Connection
from nats.errors import AuthorizationError, NoServersError
from nats.errors import Error as NatsError

from millstream.base.addresses import Address, BadAddress, parse_address
from millstream.base.errors import UNREADABLE_JSON, MillstreamError
from millstream.base.reasons import connection_reason, file_reason
from millstream.client.errors import BadOptions, ClientError, CredentialsRefused, ServerUnavailable
from millstream.link.errors import AuthorizationViolation
from millstream.link.link import check_login
from millstream.link.options import LinkOptions, ServerAddress, TlsOptions

_LOG: Final = logging.getLogger("millstream.client")

_SCHEMES: Final = ("nats", "tls", "ws", "wss")
_CALLBACKS: Final = ("user_jwt_cb", "signature_cb")
_LOGINS: Final = (
    "user",
    "password",
    "token",
    "user_credentials",
    "nkeys_seed",
    "nkeys_seed_str",
    *_CALLBACKS,
)
_REFUSALS: Final = ("authorization", "authentication", "user authentication", "account authentication")
_NO_GREETING: Final = "expecting INFO"
_LOOK_S: Final = 3.0  # for a server to say whether it offers TLS
_LONGEST_INFO: Final = 256 * 1024

ErrorCallback = Callable[[Exception], Awaitable[None]]


async def open_connection(
    connection: Connection,
    servers: str | Sequence[str],
    timeout_s: float | None,
    *,
    patient: bool = True,
    **options: Any,
) -> None:
    """Connect to one of `servers` within `timeout_s`; `options` are those of ``nats.connect``.

    With `patient`, failures that may pass are tried again until then; else each server has one chance.
    Raises BadOptions, CredentialsRefused or ServerUnavailable; the connection is closed then.
    """
    urls = _urls(servers)
    addresses = [_parsed(url) for url in urls]
    _check_logins(options)
    attempt = _Attempt(addresses, options, 0 if patient else len(addresses))
    options["error_cb"] = attempt.note
    connecting: asyncio.Future[None] | None = None
    try:
        async with asyncio.timeout(timeout_s):
            await _check_tls(addresses, options)
            connecting = asyncio.ensure_future(connection.connect(urls, **options))
            over = asyncio.ensure_future(attempt.over.wait())
            try:
                await asyncio.wait((connecting, over), return_when=asyncio.FIRST_COMPLETED)
            finally:
                over.cancel()
            if not connecting.done():
                raise attempt.last
            await connecting
        if not connection.is_connected:  # nats-py does not notice a server that closes during the login
            raise ConnectionResetError
        attempt.is_over = True
    except (NatsError, OSError) as error:
        await _give_up(connection, connecting)
        raise await attempt.failure(error) from None
    except BaseException:
        await _give_up(connection, connecting)
        raise


def _urls(servers: str | Sequence[str]) -> list[str]:
    urls = [servers] if isinstance(servers, str) else servers
    if not isinstance(urls, list | tuple) or not urls or not all(isinstance(url, str) for url in urls):
        raise BadOptions(f"{servers!r} is no address of a server, and no list of some")
    return list(urls)


async def _give_up(connection: Connection, connecting: asyncio.Future[None] | None) -> None:
    """End an attempt; nats-py may fail to close what it has not opened yet."""
    if connecting is not None:
        connecting.cancel()
        await asyncio.gather(connecting, return_exceptions=True)
    with contextlib.suppress(Exception):
        await connection.close()


@dataclass(slots=True)
class _Attempt:
    """What has gone wrong so far; `over` is set when trying again will not help."""

    addresses: list[Address]
    options: dict[str, Any]
    most_failures: int  # 0: any number
    over: asyncio.Event = field(default_factory=asyncio.Event)
    is_over: bool = False
    _failures: list[Exception] = field(default_factory=list)
    _told: ErrorCallback | None = field(init=False)

    def __post_init__(self) -> None:
        self._told = self.options.get("error_cb")

    async def note(self, error: Exception) -> None:
        """nats-py's `error_cb`: also of the connection, once it is open."""
        if not self.is_over:
            self._failures.append(error)
            hopeless = _refusal(error) is not None or isinstance(error, ssl.SSLError)
            if hopeless or len(self._failures) == self.most_failures:
                self.over.set()
        if self._told is not None:
            await self._told(error)
        else:
            level = logging.WARNING if self.is_over else logging.INFO
            _LOG.log(level, "%s: %s", self._where, connection_reason(error))

    @property
    def _where(self) -> str:
        return ", ".join(map(str, self.addresses))

    @property
    def last(self) -> Exception:
        """The latest failure."""
        return self._failures[-1]

    async def failure(self, error: Exception) -> ClientError:
        """Return why there is no connection; `error` is what nats-py raised in the end."""
        found = self._failures[-1] if self._failures else error
        said = _refusal(found)
        if said is None and isinstance(found, ConnectionResetError | BrokenPipeError):
            said = await _refusal_of(self.addresses[0], self.options)
        if said is not None:
            return self._refused(said)
        if isinstance(found, ConnectionResetError | BrokenPipeError):
            reason = "it closed the connection during the login; check the credentials, and TLS"
        elif _NO_GREETING in str(found):
            reason = "it does not speak NATS; check the port"
        elif isinstance(found, NoServersError):
            reason = "no server answered; check the address"
        elif isinstance(found, NatsError) and not isinstance(found, OSError):
            reason = str(found).removeprefix("nats: ")
        else:
            reason = connection_reason(found)
        return ServerUnavailable(f"cannot connect to {self._where}: {reason}")

    def _refused(self, said: str) -> CredentialsRefused:
        given = any(self.options.get(name) for name in _LOGINS) or any(each.user for each in self.addresses)
        if not given:
            return CredentialsRefused(f"{self._where} asks for credentials, and none were given: {said}")
        return CredentialsRefused(
            f"{self._where} refused the credentials: {said}; check the user, password, token or key"
        )


def _refusal(error: Exception) -> str | None:
    """Return what the server said if it did not let us in, else None."""
    if isinstance(error, AuthorizationError):
        return "Authorization Violation"
    said = str(error).removeprefix("nats: ").strip("'")
    return said if isinstance(error, NatsError) and said.lower().startswith(_REFUSALS) else None


async def _refusal_of(address: Address, options: dict[str, Any]) -> str | None:
    """Ask the server again, by our own means, and return what it says if it does not let us in."""
    if any(options.get(name) for name in _CALLBACKS):
        return None
    context = options.get("tls")
    credentials = options.get("user_credentials")
    nkey = options.get("nkeys_seed")
    try:
        login = LinkOptions(
            servers=(_of_wire(address),),
            user=options.get("user") or "",
            password=options.get("password") or "",
            token=options.get("token") or "",
            nkey_seed=_read(nkey) if nkey else options.get("nkeys_seed_str") or "",
            creds_text=str(credentials) if isinstance(credentials, UserString) else "",
            creds_file=str(credentials) if isinstance(credentials, str | Path) else "",
            tls=None if context is None else TlsOptions(first=bool(options.get("tls_handshake_first"))),
        )
        await check_login(login, context)
    except AuthorizationViolation as error:
        return error.said
    except MillstreamError:
        return None
    return None


def _of_wire(address: Address) -> ServerAddress:
    return ServerAddress(address.host, address.port, address.scheme == "tls", address.user, address.password)


def _parsed(url: str) -> Address:
    try:
        return parse_address(url, _SCHEMES)
    except BadAddress as error:
        raise BadOptions(str(error)) from None


# -- what nats-py would find out too late ---------------------------------------------------------------


def _check_logins(options: dict[str, Any]) -> None:
    """BadOptions if a file of credentials is missing or is something else."""
    credentials = options.get("user_credentials")
    if isinstance(credentials, UserString):
        _check_seed("the credentials", str(credentials), whole=True)
    elif isinstance(credentials, str | Path):
        _check_seed(f"the credentials file {credentials}", _read(credentials), whole=True)
    elif isinstance(credentials, tuple):
        for file in credentials:
            _read(file)
    if options.get("nkeys_seed"):
        file = options["nkeys_seed"]
        _check_seed(f"the nkey file {file}", _read(file), whole=False)
    if options.get("nkeys_seed_str"):
        _check_seed("the nkey seed", options["nkeys_seed_str"], whole=False)


def _check_seed(what: str, text: str, *, whole: bool) -> None:
    from millstream.base.seeds import Signer, read_credentials  # only here: cryptography takes its time

    try:
        Signer(read_credentials(text)[1] if whole else text)
    except MillstreamError as error:
        raise BadOptions(f"{what} cannot be used: {error}") from None


def _read(file: str | Path) -> str:
    try:
        return Path(file).read_text()
    except OSError as error:
        raise BadOptions(f"cannot read the credentials in {file}: {file_reason(error)}") from None
    except UnicodeDecodeError:
        raise BadOptions(f"the credentials file {file} cannot be used: it is no text") from None


async def _check_tls(addresses: Sequence[Address], options: dict[str, Any]) -> None:
    """ServerUnavailable if TLS is asked for and a server does not ask for it, too.

    nats-py would send the credentials in the clear.  Servers that do not answer are left to it.
    """
    if options.get("tls_handshake_first"):
        return
    for each in addresses:
        if each.scheme == "tls" or (each.scheme == "nats" and options.get("tls") is not None):
            requires = await _requires_tls(each)
            if requires is False:
                raise ServerUnavailable(
                    f"cannot connect to {each}: TLS was asked for, and the server does not require it; "
                    "switch TLS on there, or connect without"
                )


async def _requires_tls(address: Address) -> bool | None:
    """Return what the server says about it, None if it says nothing."""
    try:
        async with asyncio.timeout(_LOOK_S):
            reader, writer = await asyncio.open_connection(address.host, address.port, limit=_LONGEST_INFO)
            try:
                word, _, body = (await reader.readline()).partition(b" ")
                told = msgspec.json.decode(body, type=dict[str, Any]) if word.upper() == b"INFO" else None
            finally:
                writer.close()
    except (OSError, ValueError, *UNREADABLE_JSON):
        return None
    return None if told is None else bool(told.get("tls_required"))
