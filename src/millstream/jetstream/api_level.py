"""Check the API level that a request requires; a higher one than ours is refused."""

import re
from typing import Final

from millstream.jsapi import headers as names
from millstream.jsapi.limits import API_LEVEL
from millstream.protocol import headers

_HEADER: Final = names.REQUIRED_API_LEVEL.encode()
_NUMBER: Final = re.compile(rb"([+-]?)0*([0-9]{1,19})")
_SMALLEST: Final = -(2**63)


def beyond_ours(block: bytes) -> bool:
    """Return True if the headers require an API level that this server lacks, or an invalid one."""
    wanted = headers.find(block, _HEADER) if block else None
    if not wanted:
        return False
    number = _NUMBER.fullmatch(wanted)
    return number is None or not _SMALLEST <= int(number[1] + number[2]) <= API_LEVEL
