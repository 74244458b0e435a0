"""Every operation of the API, in the order of the description."""

from typing import Final

from millstream.gateway.v2 import (
    about,
    batch,
    connections,
    consume_routes,
    consumers,
    iceberg_routes,
    kv_routes,
    kv_watch,
    letter_routes,
    live,
    messages,
    object_routes,
    overview,
    pipeline_routes,
    publish_routes,
    socket,
    sql_routes,
    state_live,
    streams,
    whoami,
)
from millstream.gateway.v2.operations import Section

SECTIONS: Final[tuple[Section, ...]] = (
    publish_routes.section,
    batch.section,
    messages.section,
    sql_routes.section,
    iceberg_routes.section,
    consume_routes.section,
    live.section,
    socket.section,
    streams.section,
    consumers.section,
    state_live.section,
    letter_routes.section,
    kv_routes.section,
    kv_watch.section,
    object_routes.section,
    whoami.section,
    overview.section,
    connections.section,
    pipeline_routes.section,
    about.section,
)
