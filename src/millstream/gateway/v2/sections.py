"""Every operation of the API, in the order in which they are described."""

from typing import Final

from millstream.gateway.v2 import (
    about,
    batch,
    consumers,
    consuming,
    live,
    messages,
    publishing,
    socket,
    streams,
)
from millstream.gateway.v2.operations import Section

SECTIONS: Final[tuple[Section, ...]] = (
    publishing.section,
    batch.section,
    messages.section,
    consuming.section,
    live.section,
    socket.section,
    streams.section,
    consumers.section,
    about.section,
)
