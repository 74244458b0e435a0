"""A server with a system account in this process, for the tests of what it says there."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import nats
from nats.aio.client import Client

from millstream.server.server import Server
from tests.kits.patience import PATIENCE_S

CONFIG = """
host: 127.0.0.1
port: -1
server_name: probe
server_tags: ["a:b"]
system_account: SYS
authorization { timeout: 30 }
accounts {
  SYS { users: [ { user: sys, password: p } ] }
  A { users: [
    { user: a, password: p }
    { user: limited, password: p, permissions: {
        publish: { allow: ["$SYS.>"], deny: "y" }, subscribe: ["z q", "_INBOX.>"]
        allow_responses: { max: 3, expires: "1m" } } }
  ] }
  B { users: [ { user: b, password: p } ] }
}
"""


class System:
    """A running server and the clients of a test."""

    def __init__(self, server: Server, config: Path, stack: AsyncExitStack) -> None:
        self.server = server
        self.config = config
        self._stack = stack

    async def join(self, user: str, **options: Any) -> Client:
        async def ignore(error: Exception) -> None:
            """Ignore errors: some tests are about closed connections."""

        client = await nats.connect(
            self.server.client_url,
            user=user,
            password="p",
            error_cb=ignore,
            **{"allow_reconnect": False, "connect_timeout": PATIENCE_S, **options},
        )
        self._stack.push_async_callback(client.close)
        return client

    def subject(self, name: str) -> str:
        """The subject of a request to this very server."""
        return f"$SYS.REQ.SERVER.{self.server.broker.identity.server_id}.{name}"


async def ask(client: Client, subject: str, body: Any = None) -> Any:
    payload = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    return json.loads((await client.request(subject, payload, timeout=PATIENCE_S)).data)


@asynccontextmanager
async def running(folder: Path, config: str = CONFIG) -> AsyncIterator[System]:
    path = folder / "server.conf"
    path.write_text(config)
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(Server(config=str(path)))
        yield System(server, path, stack)
