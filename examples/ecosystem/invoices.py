"""taskiq: background jobs on a stream, and their results in an object store.

taskiq worker examples.ecosystem.invoices:broker
"""

import os

from taskiq_nats import NATSObjectStoreResultBackend, PullBasedJetStreamBroker

SERVER = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")

jobs = PullBasedJetStreamBroker([SERVER], stream_name="JOBS", subject="jobs", durable="workers")
broker = jobs.with_result_backend(NATSObjectStoreResultBackend(servers=SERVER))


@broker.task
async def total(prices: list[float]) -> float:
    return round(sum(prices), 2)
