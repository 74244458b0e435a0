"""Helpers of the tests of the link: users with signed tokens, and rogue servers."""

import asyncio
import base64
import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from millstream.base.nkeys import KeyKind
from millstream.base.seeds import Signer, make_seed
from millstream.link.options import LinkOptions, parse_servers
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerProcess

ServerFactory = Callable[..., ServerProcess]


def options_for(server: ServerProcess, **fields: Any) -> LinkOptions:
    """Return options with time for a server on a busy machine, unless `fields` say otherwise."""
    patience = {"connect_timeout_s": 60.0, "request_timeout_s": 60.0}
    return LinkOptions(servers=parse_servers(server.client_url), **(patience | fields))


async def eventually(check: Callable[[], bool]) -> None:
    """Ask until it is so: for what happens elsewhere and is told to nobody."""
    deadline = time.monotonic() + PATIENCE_S
    while not check():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.01)


def _encoded(fields: dict[str, Any]) -> str:
    text = json.dumps(fields, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def _token(issuer: Signer, subject: str, name: str, claims: dict[str, Any]) -> str:
    body = {"jti": name, "iat": 1_700_000_000, "iss": issuer.public_key, "name": name, "sub": subject}
    text = f"{_encoded({'typ': 'JWT', 'alg': 'ed25519-nkey'})}.{_encoded({**body, 'nats': claims})}"
    return f"{text}.{issuer.sign(text.encode())}"


class Operator:
    """An operator with one account and one user: a configuration for nats-server, and credentials for us."""

    def __init__(self) -> None:
        operator = Signer(make_seed(KeyKind.OPERATOR, b"o" * 32))
        account = Signer(make_seed(KeyKind.ACCOUNT, b"a" * 32))
        user_seed = make_seed(KeyKind.USER, b"u" * 32)
        user = Signer(user_seed)
        unlimited = {
            "subs": -1,
            "conn": -1,
            "leaf": -1,
            "imports": -1,
            "exports": -1,
            "data": -1,
            "payload": -1,
        }
        operator_token = _token(operator, operator.public_key, "O", {"type": "operator", "version": 2})
        account_token = _token(
            operator, account.public_key, "A", {"type": "account", "version": 2, "limits": unlimited}
        )
        self.account = account.public_key
        user_claims = {"type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1}
        user_token = _token(account, user.public_key, "U", user_claims)
        self.config = (
            f"operator: {operator_token}\nresolver: MEMORY\n"
            f"resolver_preload: {{ {account.public_key}: {account_token} }}\n"
        )
        self.credentials = (
            f"-----BEGIN NATS USER JWT-----\n{user_token}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{user_seed}\n------END USER NKEY SEED------\n"
        )


class RogueServer:
    """Accepts one connection after the other and hands it to `play`, which is not a NATS server."""

    def __init__(self, play: Callable[[socket.socket], None]) -> None:
        self._play = play
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def options(self) -> LinkOptions:
        return LinkOptions(servers=parse_servers(f"127.0.0.1:{self.port}"), connect_timeout_s=5.0)

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                self._play(connection)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
