"""The names of JetStream: subjects, the `type` strings of the messages on them, metadata keys.

A server subscribes to names with wildcards; `fill` turns one into the subject of a request::

    fill(STREAM_CREATE, "ORDERS")                     # $JS.API.STREAM.CREATE.ORDERS
    fill(CONSUMER_CREATE_FILTERED, "ORDERS", "c", "eu.>")   # $JS.API.CONSUMER.CREATE.ORDERS.c.eu.>

Not here: header names (jsapi.headers), the body and response of a subject (jsapi.requests,
jsapi.responses).
"""

from typing import Final

# -- requests ---------------------------------------------------------------------------------------

API_PREFIX: Final = "$JS.API"
API_ALL: Final = "$JS.API.>"

ACCOUNT_INFO: Final = "$JS.API.INFO"

STREAM_CREATE: Final = "$JS.API.STREAM.CREATE.*"
STREAM_UPDATE: Final = "$JS.API.STREAM.UPDATE.*"
STREAM_NAMES: Final = "$JS.API.STREAM.NAMES"
STREAM_LIST: Final = "$JS.API.STREAM.LIST"
STREAM_INFO: Final = "$JS.API.STREAM.INFO.*"
STREAM_DELETE: Final = "$JS.API.STREAM.DELETE.*"
STREAM_PURGE: Final = "$JS.API.STREAM.PURGE.*"
STREAM_MSG_GET: Final = "$JS.API.STREAM.MSG.GET.*"
STREAM_MSG_DELETE: Final = "$JS.API.STREAM.MSG.DELETE.*"
STREAM_SNAPSHOT: Final = "$JS.API.STREAM.SNAPSHOT.*"
STREAM_RESTORE: Final = "$JS.API.STREAM.RESTORE.*"

DIRECT_GET_PREFIX: Final = "$JS.API.DIRECT.GET"
DIRECT_GET: Final = "$JS.API.DIRECT.GET.*"
DIRECT_GET_LAST: Final = "$JS.API.DIRECT.GET.*.>"  # the last message of the subject in the final tokens

CONSUMER_CREATE: Final = "$JS.API.CONSUMER.CREATE.*"
CONSUMER_CREATE_FILTERED: Final = "$JS.API.CONSUMER.CREATE.*.>"  # a consumer name, then an optional filter
CONSUMER_DURABLE_CREATE: Final = "$JS.API.CONSUMER.DURABLE.CREATE.*.*"
CONSUMER_NAMES: Final = "$JS.API.CONSUMER.NAMES.*"
CONSUMER_LIST: Final = "$JS.API.CONSUMER.LIST.*"
CONSUMER_INFO: Final = "$JS.API.CONSUMER.INFO.*.*"
CONSUMER_DELETE: Final = "$JS.API.CONSUMER.DELETE.*.*"
CONSUMER_PAUSE: Final = "$JS.API.CONSUMER.PAUSE.*.*"
CONSUMER_RESET: Final = "$JS.API.CONSUMER.RESET.*.*"
CONSUMER_UNPIN: Final = "$JS.API.CONSUMER.UNPIN.*.*"
CONSUMER_MSG_NEXT: Final = "$JS.API.CONSUMER.MSG.NEXT.*.*"

# Requests that only a cluster can fulfil.
STREAM_LEADER_STEPDOWN: Final = "$JS.API.STREAM.LEADER.STEPDOWN.*"
STREAM_PEER_REMOVE: Final = "$JS.API.STREAM.PEER.REMOVE.*"
STREAM_PEER_EVACUATE: Final = "$JS.API.STREAM.PEER.EVACUATE.*"
STREAM_CANCEL_MOVE: Final = "$JS.API.STREAM.CANCEL_MOVE.*"
CONSUMER_LEADER_STEPDOWN: Final = "$JS.API.CONSUMER.LEADER.STEPDOWN.*.*"
CONSUMER_PEER_REMOVE: Final = "$JS.API.CONSUMER.PEER.REMOVE.*.*"
CONSUMER_PEER_EVACUATE: Final = "$JS.API.CONSUMER.PEER.EVACUATE.*.*"

# Requests that only the system account may send.
META_LEADER_STEPDOWN: Final = "$JS.API.META.LEADER.STEPDOWN"
META_RESCUE: Final = "$JS.API.META.RESCUE"
SERVER_REMOVE: Final = "$JS.API.SERVER.REMOVE"
SERVER_EVACUATE: Final = "$JS.API.SERVER.EVACUATE"
ACCOUNT_PURGE: Final = "$JS.API.ACCOUNT.PURGE.*"
ACCOUNT_STREAM_MOVE: Final = "$JS.API.ACCOUNT.STREAM.MOVE.*.*"
ACCOUNT_STREAM_CANCEL_MOVE: Final = "$JS.API.ACCOUNT.STREAM.CANCEL_MOVE.*.*"

# Suffixes of `$JS.<domain>.API.`, and the subject that each stands for.
_DOMAIN_MAPPINGS: Final = {
    "INFO": "$JS.API.INFO",
    "STREAM.>": "$JS.API.STREAM.>",
    "CONSUMER.>": "$JS.API.CONSUMER.>",
    "DIRECT.>": "$JS.API.DIRECT.>",
    "META.>": "$JS.API.META.>",
    "SERVER.>": "$JS.API.SERVER.>",
    "ACCOUNT.>": "$JS.API.ACCOUNT.>",
    "$KV.>": "$KV.>",
    "$OBJ.>": "$OBJ.>",
}

# -- messages to and from consumers, streams and archives -------------------------------------------

FLOW_CONTROL_PREFIX: Final = "$JS.FC."
SNAPSHOT_ACK_PREFIX: Final = "$JS.SNAPSHOT.ACK."
SNAPSHOT_RESTORE_PREFIX: Final = "$JS.SNAPSHOT.RESTORE."
MIRROR_DELIVER_PREFIX: Final = "$JS.M."
SOURCE_DELIVER_PREFIX: Final = "$JS.S."
SOURCE_REPLY_PREFIX: Final = "$JSC.R."
FAST_INGEST_SUFFIX: Final = ".$FI"  # ends the reply subject of a message in a fast batch

KV_STREAM_PREFIX: Final = "KV_"
KV_SUBJECT_PREFIX: Final = "$KV."
OBJECT_STREAM_PREFIX: Final = "OBJ_"
OBJECT_SUBJECT_PREFIX: Final = "$O."

# Metadata keys of streams and consumers that belong to the server.
METADATA_PREFIX: Final = "_nats."
METADATA_REQUIRED_LEVEL: Final = "_nats.req.level"
METADATA_SERVER_VERSION: Final = "_nats.ver"
METADATA_SERVER_LEVEL: Final = "_nats.level"
METADATA_DEAD_LETTER: Final = "millstream.dead_letter"  # of a consumer: the subject of its dead letters
METADATA_PER_KEY: Final = "millstream.max_ack_pending_per_subject"  # of a consumer: see ``key_order``
METADATA_KEY_TOKEN: Final = "millstream.key_token"

# -- events -----------------------------------------------------------------------------------------

EVENT_ALL: Final = "$JS.EVENT.>"

ADVISORY_API: Final = "$JS.EVENT.ADVISORY.API"
ADVISORY_API_LIMIT_REACHED: Final = "$JS.EVENT.ADVISORY.API.LIMIT_REACHED"
ADVISORY_SERVER_OUT_OF_STORAGE: Final = "$JS.EVENT.ADVISORY.SERVER.OUT_OF_STORAGE"
ADVISORY_STREAM_CREATED: Final = "$JS.EVENT.ADVISORY.STREAM.CREATED.*"
ADVISORY_STREAM_UPDATED: Final = "$JS.EVENT.ADVISORY.STREAM.UPDATED.*"
ADVISORY_STREAM_DELETED: Final = "$JS.EVENT.ADVISORY.STREAM.DELETED.*"
ADVISORY_STREAM_SNAPSHOT_CREATE: Final = "$JS.EVENT.ADVISORY.STREAM.SNAPSHOT_CREATE.*"
ADVISORY_STREAM_SNAPSHOT_COMPLETE: Final = "$JS.EVENT.ADVISORY.STREAM.SNAPSHOT_COMPLETE.*"
ADVISORY_STREAM_RESTORE_CREATE: Final = "$JS.EVENT.ADVISORY.STREAM.RESTORE_CREATE.*"
ADVISORY_STREAM_RESTORE_COMPLETE: Final = "$JS.EVENT.ADVISORY.STREAM.RESTORE_COMPLETE.*"
ADVISORY_STREAM_BATCH_ABANDONED: Final = "$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.*"
ADVISORY_CONSUMER_CREATED: Final = "$JS.EVENT.ADVISORY.CONSUMER.CREATED.*.*"
ADVISORY_CONSUMER_DELETED: Final = "$JS.EVENT.ADVISORY.CONSUMER.DELETED.*.*"
ADVISORY_CONSUMER_PAUSE: Final = "$JS.EVENT.ADVISORY.CONSUMER.PAUSE.*.*"
ADVISORY_CONSUMER_PINNED: Final = "$JS.EVENT.ADVISORY.CONSUMER.PINNED.*.*"
ADVISORY_CONSUMER_UNPINNED: Final = "$JS.EVENT.ADVISORY.CONSUMER.UNPINNED.*.*"
ADVISORY_CONSUMER_MAX_DELIVERIES: Final = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.*.*"
ADVISORY_CONSUMER_MSG_NAKED: Final = "$JS.EVENT.ADVISORY.CONSUMER.MSG_NAKED.*.*"
ADVISORY_CONSUMER_MSG_TERMINATED: Final = "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.*.*"
METRIC_CONSUMER_ACK: Final = "$JS.EVENT.METRIC.CONSUMER.ACK.*.*"

# -- type strings -----------------------------------------------------------------------------------

_TYPES: Final = "io.nats.jetstream."


def response_type(name: str) -> str:
    """Return the `type` of a response: ``response_type("stream_info")``."""
    return f"{_TYPES}api.v1.{name}_response"


def advisory_type(name: str) -> str:
    """Return the `type` of an advisory: ``advisory_type("stream_action")``."""
    return f"{_TYPES}advisory.v1.{name}"


def metric_type(name: str) -> str:
    """Return the `type` of a metric: ``metric_type("consumer_ack")``."""
    return f"{_TYPES}metric.v1.{name}"


def fill(pattern: str, *tokens: str) -> str:
    """Replace the wildcards of `pattern` by `tokens` in order; a final ``>`` takes all that are left.

    Raises ValueError if the numbers do not fit or a token is empty.
    """
    filled = []
    rest = list(tokens)
    for token in pattern.split("."):
        if token == "*":
            filled.append(rest.pop(0))
        elif token == ">":
            filled += rest
            rest = []
        else:
            filled.append(token)
    if rest or not all(filled):
        raise ValueError(f"{pattern} can not be filled with {tokens}")
    return ".".join(filled)


def domain_api_prefix(domain: str) -> str:
    """Return the prefix that replaces ``$JS.API`` in requests to `domain`."""
    return f"$JS.{domain}.API"


def domain_mappings(domain: str) -> dict[str, str]:
    """Return a map of the API subjects of `domain` to the subjects without a domain."""
    prefix = domain_api_prefix(domain)
    return {f"{prefix}.{suffix}": plain for suffix, plain in _DOMAIN_MAPPINGS.items()}
