"""Feature flags (ADR-53 of NATS): formats of later nats-servers that a configuration may choose or decline.

Names and defaults are those of nats-server 2.15.  Flags that change nothing on a single server are shown and
accepted like the others; unknown ones are reported and ignored, so that a file can serve several versions.
"""

from collections.abc import Mapping
from typing import Final

ACK_FC_V2: Final = "js_ack_fc_v2"  # acks and flow control name domain and account
API_REPLY_V2: Final = "js_api_reply_v2"  # so do the answers to requests of mirrors and sources

_DEFAULTS: Final = {
    ACK_FC_V2: False,
    API_REPLY_V2: False,
    "js_raft_delete_range": True,  # between the servers of a cluster
    "js_snapshot_sources": False,  # the same
}


def in_force(chosen: Mapping[str, bool]) -> dict[str, bool]:
    """Return all known flags with their values."""
    return {name: chosen.get(name, default) for name, default in _DEFAULTS.items()}


def unknown(chosen: Mapping[str, bool]) -> list[str]:
    """Return the chosen flags that this version does not know, sorted."""
    return sorted(chosen.keys() - _DEFAULTS.keys())
