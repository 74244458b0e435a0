"""The devices: a bucket with their names, and the readings that they publish.

Readings have times of their own, ten seconds apart, so that an hour of them is there at once.
"""

import json
import math
from datetime import UTC, datetime, timedelta
from typing import Final

import nats
from nats.js import api

STREAM: Final = "TELEMETRY"
BUCKET: Final = "devices"
DEVICES: Final = {
    "d1": {"name": "boiler", "room": "cellar"},
    "d2": {"name": "freezer", "room": "kitchen"},
    "d3": {"name": "oven", "room": "kitchen"},
}
BEGIN: Final = datetime(2026, 1, 1, 8, 0, tzinfo=UTC)
EVERY: Final = timedelta(seconds=10)
_USUAL: Final = {"d1": (60.0, 8.0), "d2": (-18.0, 2.0), "d3": (120.0, 90.0)}  # degrees, and how far from them


def reading(device: str, number: int) -> bytes:
    """Return the reading of a device with this number."""
    usual, swing = _USUAL[device]
    celsius = usual + swing * math.sin(number / 20)
    moment = (BEGIN + number * EVERY).isoformat().replace("+00:00", "Z")
    return json.dumps({"at": moment, "celsius": round(celsius, 2)}).encode()


async def publish(url: str, count: int) -> None:
    """Make the stream and the bucket, and publish so many readings of each device."""
    async with await nats.connect(url) as connection:
        jetstream = connection.jetstream()
        await jetstream.add_stream(api.StreamConfig(name=STREAM, subjects=["telemetry.*"]))
        names = await jetstream.create_key_value(api.KeyValueConfig(bucket=BUCKET))
        for device, described in DEVICES.items():
            await names.put(device, json.dumps(described).encode())
        for number in range(count):
            for device in DEVICES:
                await jetstream.publish(f"telemetry.{device}", reading(device, number))
