"""A link on a real cluster: its members tell each other's addresses, and the link uses them."""

from collections.abc import Iterator

import pytest

from millstream.link.link import Link
from millstream.link.options import LinkOptions, parse_servers
from millstream.link.servers import Reconnect
from tests.kits.cluster import Cluster
from tests.kits.link import eventually

pytestmark = [pytest.mark.oracle, pytest.mark.xdist_group("cluster"), pytest.mark.timeout(120)]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


async def test_a_member_that_was_only_told_of_takes_the_place_of_one_that_dies(cluster: Cluster) -> None:
    options = LinkOptions(servers=parse_servers(cluster.urls[0]))
    link = Link(options, reconnect=Reconnect(first_s=0.01, longest_s=0.05))
    await link.connect()
    await eventually(lambda: len(link.dialogue.pool.known()) == 3)  # members join one after the other
    for number in (0, 1):
        cluster.servers[number].kill()
        dead = tuple(f":{server.port}" for server in cluster.servers[: number + 1])
        await eventually(lambda dead=dead: link.is_up and not link.where.endswith(dead))
        await link.flush()
    assert link.where.endswith(f":{cluster.servers[2].port}")
    await link.close()
