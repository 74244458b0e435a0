"""Messages of every kind, for every subject that the example listens to."""

import nats

BODIES = [
    b"hello",
    b"",
    b"null",
    b"[1]",
    b'"lamp"',
    b"{}",
    b'{"order": "x"}',
    b'{"order": true}',
    b'{"order": 1e400}',
    b'{"order": -1}',
    b'{"order": ' + b"9" * 5000 + b"}",
    b"[" * 100_000,
    b"\xff\xfe\x00",
    b'{"order": 7, "item": "a b\\r\\n", "quantity": "many", "price": null}',
    b'{"order": 8, "item": ">"}',
    b'{"order": 9}',
    b"x" * 1_000_000,
]
NO_ORDERS = 14  # of these bodies
SUBJECTS = [
    "ORDERS.received",
    "ORDERS.processed",
    "ORDERS.completed",
    "ORDERS.lost",
    "monitor.ORDERS",
    "revenue.lamp",
    "dlq.ORDERS.NEW",
    "$JS.EVENT.METRIC.CONSUMER.ACK.ORDERS.NEW",
    "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.ORDERS.NEW",
    "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.ORDERS.NEW",
]


async def send_everything(url: str) -> None:
    """Publish every kind of body to every subject."""
    connection = await nats.connect(url)
    for subject in SUBJECTS:
        for body in BODIES:
            await connection.publish(subject, body, headers={"X-Junk": "1"} if len(body) % 2 else None)
        await connection.flush(60)
    await connection.close()
