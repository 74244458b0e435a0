"""Numbers that are part of the JetStream API: clients see them in responses or reach them as limits."""

from typing import Final

API_LEVEL: Final = 5  # the API level of nats-server 2.15

NAMES_PER_PAGE: Final = 1024  # in STREAM.NAMES and CONSUMER.NAMES
INFOS_PER_PAGE: Final = 256  # in STREAM.LIST and CONSUMER.LIST
SUBJECTS_PER_PAGE: Final = 100_000  # in STREAM.INFO
DELETED_LISTED: Final = 100_000  # the most deleted sequences in STREAM.INFO

# No request, archive or source sets a stream's sequence above this, so that every later message gets one.
LARGEST_SEQ: Final = 2**63

MAX_NAME_BYTES: Final = 255
MAX_DESCRIPTION_BYTES: Final = 4 * 1024
MAX_METADATA_BYTES: Final = 128 * 1024  # sum of keys and values
MAX_HEADER_BYTES: Final = 64 * 1024 - 1
MAX_BATCH_ID_BYTES: Final = 64
MAX_REPLICAS: Final = 5
