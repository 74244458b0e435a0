"""FastAPI: take orders, and send each to browsers as server-sent events.

    uvicorn examples.ecosystem.live_orders:app

A browser that reconnects names the last event it has (`Last-Event-ID`), and continues behind it: the id of an
event is its sequence in the stream.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import FastAPI, Header, Request
from fastapi.responses import StreamingResponse

import millstream.client
from millstream.client import StartAt

SERVER = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")


@asynccontextmanager
async def connected(app: FastAPI) -> AsyncIterator[None]:
    async with await millstream.client.connect(SERVER) as client:
        await client.connection.api("STREAM.CREATE.LIVE", {"name": "LIVE", "subjects": ["live.>"]})
        app.state.client = client
        yield


app = FastAPI(lifespan=connected)


@app.post("/orders/{place}")
async def order(place: str, request: Request) -> dict[str, int]:
    """Answer when the order is on disk."""
    return {"stored": await request.app.state.client.publish(f"live.{place}", await request.body())}


@app.get("/orders")
async def follow(request: Request, last_event_id: Annotated[int, Header(ge=0)] = 0) -> StreamingResponse:
    """Send what comes after the last event, and go on with what is new."""

    async def events() -> AsyncIterator[bytes]:
        start = StartAt.by_sequence(last_event_id + 1)
        async with request.app.state.client.ordered("LIVE", start=start) as messages:
            async for message in messages:
                head = f"id: {message.stream_seq}\nevent: {message.subject}\n"
                yield b"%bdata: %b\n\n" % (head.encode(), message.data.replace(b"\n", b"\ndata: "))

    return StreamingResponse(events(), media_type="text/event-stream")
