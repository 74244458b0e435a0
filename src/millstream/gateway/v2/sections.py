"""Every operation of the API, in the order in which they are described."""

from typing import Final

from millstream.gateway.v2 import (
    about,
    batch,
    consume_routes,
    consumers,
    live,
    messages,
    publish_routes,
    socket,
    streams,
)
from millstream.gateway.v2.operations import Section

SECTIONS: Final[tuple[Section, ...]] = (
    publish_routes.section,
    batch.section,
    messages.section,
    consume_routes.section,
    live.section,
    socket.section,
    streams.section,
    consumers.section,
    about.section,
)
