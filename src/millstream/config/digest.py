"""The fingerprint of a parsed configuration, equal to the one nats-server prints for the same file.

It is the SHA-256 of the content as Go writes JSON: sorted keys, no spaces, ``<``, ``>`` and ``&`` escaped,
a line feed at the end.  Comments, order and layout do not change it.
"""

import hashlib
import json
import math
import re
from datetime import datetime
from decimal import Decimal

from millstream.config.tree import Block, Plain, plain

_HTML = re.compile("[<>&\u2028\u2029]")
_LONE_BYTE = re.compile("[\ud800-\udfff]")


def config_digest(root: Block) -> str:
    encoded = _encode(plain(root)) + "\n"
    return "sha256:" + hashlib.sha256(encoded.encode()).hexdigest()


def _encode(value: Plain) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _encode_float(value)
        case datetime():
            return _encode_text(value.strftime("%Y-%m-%dT%H:%M:%SZ"))
        case str():
            return _encode_text(value)
        case list():
            return "[" + ",".join(map(_encode, value)) + "]"
        case dict():
            pairs = (f"{_encode_text(key)}:{_encode(value[key])}" for key in sorted(value))
            return "{" + ",".join(pairs) + "}"


def _encode_text(text: str) -> str:
    encoded = _LONE_BYTE.sub("\ufffd", json.dumps(text, ensure_ascii=False))
    return _HTML.sub(lambda match: f"\\u{ord(match[0]):04x}", encoded)


def _encode_float(number: float) -> str:
    if number == 0 or 1e-6 <= math.fabs(number) < 1e21:
        text = format(Decimal(repr(number)), "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, _, exponent = repr(number).partition("e")
    return f"{mantissa.removesuffix('.0')}e{exponent[0]}{exponent[1:].lstrip('0')}"
