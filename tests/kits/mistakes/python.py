"""Mistakes in programs: what is called, and what is raised.

Each program is run with `site`, whose ports and paths have the names of the other table.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import millstream
import millstream.client
from tests.kits.mistakes.site import Site
from tests.kits.mistakes.table import _OFF, _OFF_ADVICE, _REFUSED, _START_ONE, _WRONG_LOGIN

PYTHON = "Programs in Python"


@dataclass(frozen=True)
class Program:
    """One row of the page, and how to make it; the row begins with the name of the exception."""

    run: Callable[[Site], Awaitable[object]]
    line: str
    advice: str
    section: str = PYTHON

    def __str__(self) -> str:
        return self.run.__name__


def url(site: Site, server: str, login: str = "") -> str:
    return f"nats://{login}127.0.0.1:{site.names[server]}"


async def connects_to_nobody(site: Site) -> None:
    await millstream.client.connect(url(site, "free"), timeout_s=0.5)


async def gives_a_wrong_password(site: Site) -> None:
    await millstream.client.connect(url(site, "locked", "ops:wr0ng@"))


async def reads_without_jetstream(site: Site) -> None:
    async with await millstream.client.connect(url(site, "plain")) as client:
        await client.ordered("ORDERS").open()


async def reads_a_missing_stream(site: Site) -> None:
    async with await millstream.client.connect(url(site, "js")) as client:
        await client.ordered("ORDRES").open()


async def reads_a_subject_with_a_blank(site: Site) -> None:
    async with await millstream.client.connect(url(site, "js")) as client:
        client.ordered("ORDERS", subjects="orders new")


async def publishes_where_nobody_stores(site: Site) -> None:
    async with await millstream.client.connect(url(site, "js")) as client:
        await client.publish("nobody.here", b"")


async def publishes_to_a_subject_with_a_blank(site: Site) -> None:
    async with await millstream.client.connect(url(site, "js")) as client:
        await client.publish("orders new", b"")


async def starts_a_server_twice(site: Site) -> None:
    async with millstream.Server() as server:
        await server.start()


async def starts_a_server_on_a_port_in_use(site: Site) -> None:
    await millstream.Server(port=int(site.names["taken"])).start()


async def starts_a_server_on_a_store_in_use(site: Site) -> None:
    await millstream.Server(store_dir=site.names["store_in_use"]).start()


async def reads_a_missing_configuration(site: Site) -> None:
    millstream.Server(config=str(Path(site.names["folder"]) / "none.conf"))


async def asks_for_a_port_too_early(site: Site) -> None:
    _ = millstream.Server().client_url


async def asks_for_monitoring_that_is_not_there(site: Site) -> None:
    async with millstream.Server() as server:
        _ = server.monitor_url


async def asks_for_arrow_without_jetstream(site: Site) -> None:
    async with millstream.Server() as server:
        _ = server.arrow_url


PROGRAMS = (
    Program(connects_to_nobody, f"ServerUnavailable: cannot connect to SERVER: {_REFUSED}", _START_ONE),
    Program(
        gives_a_wrong_password,
        f"CredentialsRefused: SERVER {_WRONG_LOGIN}",
        "The server's log names the user that was refused.",
    ),
    Program(reads_without_jetstream, f"ServerUnavailable: {_OFF}", _OFF_ADVICE),
    Program(
        reads_a_missing_stream,
        "StreamNotFound: there is no stream STREAM on HOST:PORT; create it, or check the name (10059)",
        "Names of streams are case-sensitive.",
    ),
    Program(
        reads_a_subject_with_a_blank,
        "OrderedConfigError: subjects: 'orders new' is no subject",
        "Subjects are words between dots, such as `orders.new`; `*` and `>` stand for any.",
    ),
    Program(
        publishes_where_nobody_stores,
        "NoStream: no stream on HOST:PORT takes the subject SUBJECT; create one, and start the server with "
        "-js if JetStream is off",
        "A stream takes the subjects of its configuration.",
    ),
    Program(
        publishes_to_a_subject_with_a_blank,
        "ValueError: 'orders new' is no subject to publish to",
        "Messages go to a subject without wildcards.",
    ),
    Program(
        starts_a_server_twice,
        "MillstreamError: this server runs already; stop it before it is started again",
        "`async with` starts it.",
    ),
    Program(
        starts_a_server_on_a_port_in_use,
        "CannotListen: cannot listen for clients on HOST:PORT: Address already in use; stop the program that "
        "uses the port, or choose another one (-p, or port in the configuration)",
        "Without `port`, a free one is picked.",
    ),
    Program(
        starts_a_server_on_a_store_in_use,
        "StoreError: cannot open FOLDER: another server uses this store; stop it, or choose another "
        "store_dir",
        "Each server has a store of its own.",
    ),
    Program(
        reads_a_missing_configuration,
        "ConfigError: cannot read FILE: No such file or directory; check the path",
        "Paths are relative to the folder that the program is run in.",
    ),
    Program(
        asks_for_a_port_too_early,
        "MillstreamError: this server has no port yet: start it, or enter it with `async with`",
        "Addresses are known when the server has been started.",
    ),
    Program(
        asks_for_monitoring_that_is_not_there,
        "LookupError: this server has no monitoring endpoint; ask for one with `monitor=True`",
        "`millstream.Server(monitor=True)`.",
    ),
    Program(
        asks_for_arrow_without_jetstream,
        "LookupError: this server has no Arrow endpoint; it comes with JetStream: give `store_dir`",
        "`millstream.Server(store_dir=…)`.",
    ),
)
