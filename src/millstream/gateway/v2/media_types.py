"""The content types of answers that are passed on: those that a browser neither runs nor renders as a page.

The responder on NATS chooses the type.  A page or script of a responder would run with the gateway's origin,
and act for the user who opens it.
"""

from __future__ import annotations

import re
from typing import Final

from millstream.gateway.v2.operations import BYTES

_TYPE: Final = re.compile(r"([a-z]+)/([a-z0-9!#$&^_.+-]+)[ \t]*(?:;[ \t!-~]*)?", re.IGNORECASE | re.ASCII)
_TEXT: Final = frozenset({"plain", "csv", "markdown", "tab-separated-values", "vnd.yaml"})
_ACTIVE: Final = (
    "html",
    "xml",
    "svg",
    "script",
    "xsl",
    "pdf",
    "flash",
    "wasm",
    "java",
    "xul",
    "mixed",
    "css",
)
_KINDS: Final = frozenset({"application", "image", "audio", "video", "font"})


def passive_type(text: str) -> str:
    """Return `text` if browsers neither run nor render the type, otherwise `application/octet-stream`."""
    found = _TYPE.fullmatch(text.strip())
    if found is None:
        return BYTES
    kind, name = found[1].lower(), found[2].lower()
    if kind == "text":
        return text if name in _TEXT else BYTES
    if kind not in _KINDS or any(word in name for word in _ACTIVE):
        return BYTES
    return text
