"""OpenTelemetry of a server: what it measures, and the spans of its streams."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import TYPE_CHECKING

from millstream import __version__
from millstream.base.slices import Pieces
from millstream.otel.options import with_environment
from millstream.otel.sender import Sender
from millstream.server.monitor.metrics import ServerMetrics

if TYPE_CHECKING:
    from millstream.otel.options import OtelOptions
    from millstream.server.server import Server


def start_sender(server: Server, options: OtelOptions) -> Sender | None:
    """Start sending for a server; None if the environment switches it off."""
    chosen = with_environment(options, os.environ)
    if chosen is None:
        return None
    identity = server.broker.identity
    resource = {
        "service.version": __version__,
        "service.instance.id": identity.server_id,
        "millstream.server.name": identity.server_name,
    }
    sender = Sender(chosen, resource, partial(_written, server))
    sender.start()
    return sender


async def _written(server: Server) -> bytes:
    """Write the metrics in slices, as `/metrics` does."""
    metrics = ServerMetrics(server, {} if server.monitor is None else server.monitor.request_counts)
    process = await asyncio.to_thread(metrics.of_process)
    ended: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def write() -> Pieces[None]:
        try:
            parts = yield from metrics.render(process)
            ended.set_result(b"".join(parts))
        finally:
            ended.cancel()  # it was not written to its end

    server.broker.turns.in_slices("metrics for OpenTelemetry", write())
    return await ended
