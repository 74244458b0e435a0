"""Which level of the API a request asks for; a request that asks for more than ours is refused everywhere."""

import re
from typing import Final

from millstream.jsapi import headers as names
from millstream.jsapi.limits import API_LEVEL
from millstream.protocol import headers

_HEADER: Final = names.REQUIRED_API_LEVEL.encode()
_NUMBER: Final = re.compile(rb"([+-]?)0*([0-9]{1,19})")
_SMALLEST: Final = -(2**63)


def beyond_ours(block: bytes) -> bool:
    """Whether a block of headers asks for a level that this server has not, or for no number at all."""
    wanted = headers.find(block, _HEADER) if block else None
    if not wanted:
        return False
    number = _NUMBER.fullmatch(wanted)
    return number is None or not _SMALLEST <= int(number[1] + number[2]) <= API_LEVEL
