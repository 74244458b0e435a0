"""What is over is forgotten, and nothing that a caller chooses is kept without end."""

import gc
import weakref

from millrace.gateway.link import Link
from millrace.gateway.settings import Nats
from millrace.gateway.v1.subscribe import board_of


async def test_a_link_that_nobody_uses_is_gone_with_its_board() -> None:
    link = Link(Nats())
    assert board_of(link) is board_of(link)
    await link.close()
    gone = weakref.ref(link)
    del link
    gc.collect()
    assert gone() is None
