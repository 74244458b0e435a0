"""Options of Spark's Kafka source and sink that have no meaning here, each with what to use instead."""

from typing import Final

_INSTEAD: Final = {
    "kafka.bootstrap.servers": "nats.servers",
    "kafka.group.id": "commitMode=consumer with durable",
    "groupidprefix": "commitMode=consumer with durable",
    "assign": "subscribe; a stream has no partitions",
    "topic": "subject",
    "kafkaconsumer.polltimeoutms": "fetchTimeout",
    "fetchoffset.numretries": "fetch.numRetries",
    "fetchoffset.retryintervalms": "fetch.numRetries",
    "kafka.max.poll.records": "fetch.batch",
    "kafka.fetch.max.bytes": "fetch.maxBytes",
    "kafka.isolation.level": "nothing: only complete batches are ever visible",
    "kafka.security.protocol": "nats.tls.ca and the other options nats.tls.*",
    "kafka.sasl.jaas.config": "nats.user and nats.password, or nats.creds",
    "kafka.sasl.mechanism": "nats.user and nats.password, or nats.creds",
    "kafka.ssl.truststore.location": "nats.tls.ca",
    "kafka.ssl.keystore.location": "nats.tls.cert and nats.tls.key",
    "kafka.acks": "deliveryGuarantee",
    "kafka.enable.idempotence": "deliveryGuarantee",
    "kafka.transactional.id": "deliveryGuarantee=fenced",
    "kafka.client.id": "nothing: connections are named after the query",
}


def instead_of(name: str) -> str | None:
    """Return what to use instead of an option of Kafka's; None if it is not one."""
    key = name.lower()
    if key in _INSTEAD:
        return _INSTEAD[key]
    if key.startswith(("kafka.", "kafkaconsumer.", "fetchoffset.")):
        return "options of the table in docs/spark.md: settings of Kafka's client have no meaning here"
    return None
