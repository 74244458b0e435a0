"""Numbers that are part of the JetStream API: clients see them in answers or run into them."""

from typing import Final

API_LEVEL: Final = 5  # what nats-server 2.15 implements

NAMES_PER_PAGE: Final = 1024  # of STREAM.NAMES and CONSUMER.NAMES
INFOS_PER_PAGE: Final = 256  # of STREAM.LIST and CONSUMER.LIST
SUBJECTS_PER_PAGE: Final = 100_000  # of STREAM.INFO
DELETED_LISTED: Final = 100_000  # sequences that STREAM.INFO tells, of all that are gone

# No request, archive or origin moves a stream beyond it; from there on every message finds a sequence.
LARGEST_SEQ: Final = 2**63

MAX_NAME_BYTES: Final = 255
MAX_DESCRIPTION_BYTES: Final = 4 * 1024
MAX_METADATA_BYTES: Final = 128 * 1024  # keys and values together
MAX_HEADER_BYTES: Final = 64 * 1024 - 1
MAX_BATCH_ID_BYTES: Final = 64
MAX_REPLICAS: Final = 5
