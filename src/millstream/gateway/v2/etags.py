"""The ETag of a configuration, and the conditions that requests put on it.

It covers what a configuration says, without what the server itself notes in its metadata, so it changes when
somebody changes the configuration, and at no other time.
"""

import hashlib
from typing import Any, Final

import msgspec

from millstream.gateway.errors import PreconditionFailed
from millstream.jsapi.names import METADATA_PREFIX

_encoder: Final = msgspec.json.Encoder(order="sorted")


def etag(config: dict[str, Any]) -> str:
    """A strong validator, with its quotes."""
    said = dict(config)
    metadata = {
        key: value
        for key, value in (config.get("metadata") or {}).items()
        if not key.startswith(METADATA_PREFIX)
    }
    said.pop("metadata", None)
    if metadata:
        said["metadata"] = metadata
    return f'"{hashlib.sha256(_encoder.encode(said)).hexdigest()[:20]}"'


def check_match(condition: str, config: dict[str, Any]) -> None:
    """If-Match: 412 unless it names the configuration that is there; no condition asks for nothing."""
    if condition and condition != "*" and etag(config) not in _listed(condition):
        raise PreconditionFailed("the configuration is not the one that If-Match names")


def is_known(condition: str, config: dict[str, Any]) -> bool:
    """If-None-Match: whether the caller has this configuration already."""
    return condition == "*" or etag(config) in [tag.removeprefix("W/") for tag in _listed(condition)]


def _listed(condition: str) -> list[str]:
    return [tag.strip() for tag in condition.split(",")]
