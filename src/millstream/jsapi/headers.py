"""The headers that JetStream reads and writes, and their predefined values.

Not here: the format of a header block (protocol), the effect of the headers (jetstream).
"""

from typing import Final

# Headers of API requests and responses.
REQUIRED_API_LEVEL: Final = "Nats-Required-Api-Level"
STREAM_IDENTITY: Final = "Nats-Stream-Identity"
REQUEST_INFO: Final = "Nats-Request-Info"  # the requesting client, on requests from another account
RESPONSE_TYPE: Final = "Nats-Response-Type"

# Headers of published messages.
MSG_ID: Final = "Nats-Msg-Id"
EXPECTED_PREFIX: Final = "Nats-Expected-"
EXPECTED_STREAM: Final = "Nats-Expected-Stream"
EXPECTED_LAST_SEQUENCE: Final = "Nats-Expected-Last-Sequence"
EXPECTED_LAST_SUBJECT_SEQUENCE: Final = "Nats-Expected-Last-Subject-Sequence"
EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT: Final = "Nats-Expected-Last-Subject-Sequence-Subject"
EXPECTED_LAST_MSG_ID: Final = "Nats-Expected-Last-Msg-Id"

ROLLUP: Final = "Nats-Rollup"
ROLLUP_SUBJECT: Final = "sub"
ROLLUP_ALL: Final = "all"

TTL: Final = "Nats-TTL"
TTL_NEVER: Final = "never"
MARKER_REASON: Final = "Nats-Marker-Reason"
MARKER_REASON_MAX_AGE: Final = "MaxAge"
MARKER_REASON_PURGE: Final = "Purge"
MARKER_REASON_REMOVE: Final = "Remove"

COUNTER_INCREMENT: Final = "Nats-Incr"
COUNTER_SOURCES: Final = "Nats-Counter-Sources"

BATCH_PREFIX: Final = "Nats-Batch-"
BATCH_ID: Final = "Nats-Batch-Id"
BATCH_SEQUENCE: Final = "Nats-Batch-Sequence"
BATCH_COMMIT: Final = "Nats-Batch-Commit"
BATCH_COMMIT_THIS: Final = "1"  # this message is the last of its batch
BATCH_COMMIT_END: Final = "eob"  # this message only ends the batch and is not stored

SCHEDULE_PREFIX: Final = "Nats-Schedule"  # also a prefix of SCHEDULER
SCHEDULE: Final = "Nats-Schedule"
SCHEDULE_TIME_ZONE: Final = "Nats-Schedule-Time-Zone"
SCHEDULE_TTL: Final = "Nats-Schedule-TTL"
SCHEDULE_ROLLUP: Final = "Nats-Schedule-Rollup"
SCHEDULE_TARGET: Final = "Nats-Schedule-Target"
SCHEDULE_SOURCE: Final = "Nats-Schedule-Source"
SCHEDULER: Final = "Nats-Scheduler"
SCHEDULE_NEXT: Final = "Nats-Schedule-Next"
SCHEDULE_NEXT_PURGE: Final = "purge"

STREAM_SOURCE: Final = "Nats-Stream-Source"

KV_OPERATION: Final = "KV-Operation"
KV_OPERATION_DELETE: Final = "DEL"
KV_OPERATION_PURGE: Final = "PURGE"

# Headers of republished messages and of responses to a direct get.
STREAM: Final = "Nats-Stream"
SUBJECT: Final = "Nats-Subject"
SEQUENCE: Final = "Nats-Sequence"
TIME_STAMP: Final = "Nats-Time-Stamp"
LAST_SEQUENCE: Final = "Nats-Last-Sequence"
MSG_SIZE: Final = "Nats-Msg-Size"
NUM_PENDING: Final = "Nats-Num-Pending"
UP_TO_SEQUENCE: Final = "Nats-UpTo-Sequence"

# Headers of status messages of consumers.
LAST_CONSUMER: Final = "Nats-Last-Consumer"
LAST_STREAM: Final = "Nats-Last-Stream"
CONSUMER_STALLED: Final = "Nats-Consumer-Stalled"
PENDING_MESSAGES: Final = "Nats-Pending-Messages"
PENDING_BYTES: Final = "Nats-Pending-Bytes"
PIN_ID: Final = "Nats-Pin-Id"
