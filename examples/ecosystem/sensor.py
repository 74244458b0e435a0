"""A deferrable sensor as Airflow has them: wait for a message without a worker that is busy.

Airflow runs a trigger in an event loop that thousands of triggers share.  ``StreamTrigger`` has the two
methods that Airflow asks of one: `serialize`, to make it again elsewhere, and `run`, which yields the event.
In a DAG, derive it from Airflow's base class of triggers, too, and wrap its event:

    class Waiting(StreamTrigger, BaseTrigger):
        async def run(self):
            async for event in StreamTrigger.run(self):
                yield TriggerEvent(event)

    class OrderSensor(BaseSensorOperator):
        def execute(self, context):
            self.defer(trigger=Waiting("ORDERS", "orders.paid"), method_name="paid")

        def paid(self, context, event):
            return event["sequence"]

The event has the sequence of the message: a trigger that is made again begins at `after` + 1 and finds a
message that came meanwhile.
"""

import os
from collections.abc import AsyncIterator
from typing import Any

import millstream.client
from millstream.client import StartAt

SERVER = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")


class StreamTrigger:
    """Waits for the first message of a subject behind sequence `after`."""

    def __init__(self, stream: str, subject: str, after: int = 0, server: str = SERVER) -> None:
        self.stream = stream
        self.subject = subject
        self.after = after
        self.server = server

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments that make this trigger."""
        name = f"{type(self).__module__}.{type(self).__qualname__}"
        return name, {
            "stream": self.stream,
            "subject": self.subject,
            "after": self.after,
            "server": self.server,
        }

    async def run(self) -> AsyncIterator[dict[str, Any]]:
        """Yield one event, and end."""
        start = StartAt.by_sequence(self.after + 1)
        async with (
            await millstream.client.connect(self.server) as client,
            client.ordered(self.stream, subjects=self.subject, start=start) as messages,
        ):
            async for message in messages:
                yield {"sequence": message.stream_seq, "data": message.data.decode()}
                return
