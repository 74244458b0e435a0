"""Two servers with a leaf link between them, of either kind each."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final, NamedTuple
from urllib.request import urlopen

from tests.kits.ports import free_ports
from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.server.monitor import eventually
from tests.kits.wire import WireClient

OURS: Final = ServerKind.MILLSTREAM
THEIRS: Final = ServerKind.NATS_SERVER
PAIRS: Final = [(OURS, OURS), (OURS, THEIRS), (THEIRS, OURS), (THEIRS, THEIRS)]  # hub and spoke
PAIR_NAMES: Final = [f"{hub}-hub-{spoke}-spoke" for hub, spoke in PAIRS]


class Linked(NamedTuple):
    """The hub and its spoke."""

    hub: ServerProcess
    spoke: ServerProcess
    leaf_port: int

    def until_ready(self, links: int = 1) -> None:
        eventually(lambda: len(leafz(self.spoke)["leafs"]) == links == len(leafz(self.hub)["leafs"]))

    def until_asked(self, server: ServerProcess, *subjects: str) -> None:
        """Wait until the other server has asked this one for the subjects."""
        eventually(lambda: set(subjects) <= asked(server))

    def until_not_asked(self, server: ServerProcess, subject: str) -> None:
        eventually(lambda: subject not in asked(server))


def leafz(server: ServerProcess) -> dict[str, Any]:
    """Return the document of a server; `leafs` is a list even if it is empty."""
    with urlopen(f"{server.monitor_url}/leafz?subs=1") as answer:
        document: dict[str, Any] = json.load(answer)
    return document | {"leafs": document["leafs"] or []}


def asked(server: ServerProcess) -> set[str]:
    """Return the subjects that other servers have asked this one for."""
    return {subject for leaf in leafz(server)["leafs"] for subject in leaf.get("subscriptions_list") or ()}


@contextmanager
def linked(
    kinds: tuple[ServerKind, ServerKind],
    *,
    hub: str = "",
    hub_leaf: str = "",
    spoke: str = "",
    remote: str = "",
    leaf: str = "",
    user: str = "",
    leaf_port: int = 0,
    port: int = 0,
    scheme: str = "nats-leaf",
    path: str = "",
    jetstream: bool = False,
    links: int = 1,
) -> Iterator[Linked]:
    """Start a hub and a spoke, and wait for the link.

    `hub` and `spoke` are more of their configurations, `hub_leaf` and `leaf` of their `leafnodes`, and
    `remote` of the remote of the spoke.  With `port` the spoke connects there instead, such as to a proxy.
    `user`, `scheme` and `path` are other parts of the URL.
    """
    hub_kind, spoke_kind = kinds
    leaf_port = leaf_port or free_ports(1)[0]
    where = f"{scheme}://{user}127.0.0.1:{port or leaf_port}{path}"
    with ExitStack() as stack:
        first = ServerProcess(
            hub_kind,
            monitor=True,
            jetstream=jetstream,
            config=f'server_name: hub\n{hub}\nleafnodes {{ listen: "127.0.0.1:{leaf_port}"\n{hub_leaf} }}',
        )
        stack.enter_context(first)
        second = ServerProcess(
            spoke_kind,
            monitor=True,
            jetstream=jetstream,
            config=(
                f"server_name: spoke\n{spoke}\nleafnodes {{ reconnect: 100ms\n"
                f'{leaf}\nremotes [ {{ url: "{where}"\n{remote} }} ] }}'
            ),
        )
        stack.enter_context(second)
        pair = Linked(first, second, leaf_port)
        if links:
            pair.until_ready(links)
        yield pair


def client(server: ServerProcess, **options: Any) -> WireClient:
    """Return a client that is logged in."""
    wire = WireClient.connect(server.port)
    wire.handshake(**options)
    return wire
