"""Changes of the `leafnodes` block in a reload, on servers of both kinds."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.kits.leaf import leafz
from tests.kits.ports import free_ports
from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.server.monitor import eventually


class Site:
    """Two hubs, and a spoke whose configuration changes."""

    def __init__(self, kind: ServerKind, stack: ExitStack) -> None:
        self.ports = free_ports(3)
        self.hubs = [
            stack.enter_context(ServerProcess(kind, monitor=True, config=self.hub(number)))
            for number in range(2)
        ]
        self.spoke = stack.enter_context(ServerProcess(kind, monitor=True, config=self.config("")))

    def hub(self, number: int, compression: str = "s2_fast") -> str:
        return (
            f'server_name: hub{number}\nleafnodes {{ listen: "127.0.0.1:{self.ports[number]}"\n'
            f"compression: {compression} }}"
        )

    def remote(self, number: int, more: str = "") -> str:
        return f'{{ url: "nats-leaf://127.0.0.1:{self.ports[number]}"\n{more} }}'

    def config(self, *remotes: str, reconnect: str = "100ms") -> str:
        listed = ", ".join(each for each in remotes if each)
        return (
            f'server_name: spoke\nleafnodes {{ listen: "127.0.0.1:{self.ports[2]}"\n'
            f"reconnect: {reconnect}\nremotes: [ {listed} ] }}"
        )

    def reload(self, *remotes: str) -> bool:
        return self.spoke.reload(self.config(*remotes))

    def links(self) -> dict[str, int]:
        """Return the numbers of the links by the name of the hub."""
        return {each["name"]: each["id"] for each in leafz(self.spoke)["leafs"]}

    def until_linked(self, *names: str) -> dict[str, int]:
        eventually(lambda: set(self.links()) == set(names))
        return self.links()


@pytest.fixture
def site(server_kind: ServerKind) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(server_kind, stack)


def test_remotes_come_and_go(site: Site) -> None:
    assert site.reload(site.remote(0))
    first = site.until_linked("hub0")
    assert site.reload(site.remote(0), site.remote(1))
    both = site.until_linked("hub0", "hub1")
    assert both["hub0"] == first["hub0"]  # the same link
    assert site.reload(site.remote(1))
    assert site.until_linked("hub1") == {"hub1": both["hub1"]}
    assert site.reload()
    site.until_linked()


def test_a_remote_is_disabled_and_enabled(site: Site) -> None:
    assert site.reload(site.remote(0), site.remote(1, "disabled: true"))
    first = site.until_linked("hub0")
    assert site.reload(site.remote(0, "disabled: true"), site.remote(1))
    site.until_linked("hub1")
    assert site.reload(site.remote(0), site.remote(1))
    assert site.until_linked("hub0", "hub1")["hub0"] != first["hub0"]


def test_compression_changes_on_a_link_that_stays(site: Site) -> None:
    assert site.reload(site.remote(0, "compression: s2_fast"))
    first = site.until_linked("hub0")
    assert site.reload(site.remote(0, "compression: s2_best"))
    eventually(lambda: leafz(site.spoke)["leafs"][0]["compression"] == "s2_best")
    assert site.links() == first
    assert site.reload(site.remote(0, "compression: off"))
    eventually(lambda: [each["compression"] for each in leafz(site.spoke)["leafs"]] == ["off"])
    assert site.links() != first


def test_compression_of_the_hub_changes(site: Site) -> None:
    assert site.reload(site.remote(0, "compression: s2_fast"))
    site.until_linked("hub0")
    assert site.hubs[0].reload(site.hub(0, "s2_better"))
    eventually(lambda: [each["compression"] for each in leafz(site.hubs[0])["leafs"]] == ["s2_better"])


def test_other_changes_are_refused(site: Site) -> None:
    assert site.reload(site.remote(0))
    first = site.until_linked("hub0")
    assert not site.reload(site.remote(0, "deny_imports: a"))
    assert not site.spoke.reload(site.config(site.remote(0), reconnect="1s"))
    assert site.links() == first
