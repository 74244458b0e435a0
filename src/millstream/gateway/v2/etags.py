"""The ETag of a configuration, and the conditions that requests put on it.

The ETag covers the configuration without the metadata that the server itself adds, so it changes only with
the configuration.
"""

import hashlib
from typing import Any, Final

import msgspec

from millstream.gateway.errors import PreconditionFailed
from millstream.jsapi.names import METADATA_PREFIX

_encoder: Final = msgspec.json.Encoder(order="sorted")


def etag(config: dict[str, Any]) -> str:
    """Return a strong validator, with its quotes."""
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
    """Raise 412 unless If-Match names the present configuration; an empty condition passes."""
    if condition and condition != "*" and etag(config) not in _listed(condition):
        raise PreconditionFailed("the configuration is not the one that If-Match names")


def is_known(condition: str, config: dict[str, Any]) -> bool:
    """Return whether If-None-Match names this configuration."""
    return condition == "*" or etag(config) in [tag.removeprefix("W/") for tag in _listed(condition)]


def _listed(condition: str) -> list[str]:
    return [tag.strip() for tag in condition.split(",")]
