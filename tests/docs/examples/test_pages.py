"""Every block of code, console and configuration on every page works as a reader would paste it.

Pages share one server, as they do for a reader, and may come in any order.  `tests.kits.docs.blocks` says how
a page marks what cannot be run; a block that is neither run nor marked fails its page.
"""

import pytest

from tests.kits.docs.blocks import pages, read_page
from tests.kits.docs.room import Room, Visit

# One room, so one worker.
pytestmark = [pytest.mark.xdist_group("docs"), pytest.mark.timeout(1200)]


@pytest.mark.parametrize("page", pages())
def test_every_block_does_what_the_page_says(page: str, room: Room) -> None:
    with Visit(room, page) as visit:
        visit.run()
    room.check()


@pytest.mark.soak
@pytest.mark.parametrize(
    "page", [page for page in pages() if any("soak" in block.marks for block in read_page(page))]
)
def test_every_block_works_also_where_it_takes_long(page: str, fresh_room: Room) -> None:
    room = fresh_room
    if page == "examples/orders/README.md":
        room.archive()
    with Visit(room, page, whole=True) as visit:
        visit.run()
    room.check()
