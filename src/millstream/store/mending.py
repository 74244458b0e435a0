"""Write again what a checksum proves: a segment's header, or the length of a record, with one damaged part.

Nothing is lost then, so nothing is reported but a warning in the log.
"""

from __future__ import annotations

import logging

from millstream.store.block_file import BlockFile
from millstream.store.damaged_end import last_mark, length_for, start_for
from millstream.store.errors import StoreError
from millstream.store.fs import File
from millstream.store.scan import Scan
from millstream.store.segment import file_header

_log = logging.getLogger("millstream.store")


def mend_header(file: File, path: str, data: bytes, *, least: int) -> int | None:
    """Return the first sequence in a damaged header, and write it again; None if it is not known.

    It is `least` or more: the files before used all sequences below.
    """
    if isinstance(file, BlockFile):
        return None  # a block has a checksum of its own
    start_seq = start_for(data)
    if start_seq is None or start_seq < least:
        return None
    try:
        file.overwrite(0, file_header(start_seq))
        _log.warning("%s: the damaged header is mended", path)
    except StoreError as error:
        _log.error("a damaged header cannot be mended: %s", error)
    return start_seq


def mend_length(file: File, path: str, data: bytes, found: Scan) -> bool:
    """Write the length of a record again if nothing else of it is damaged; return False if none was."""
    if isinstance(file, BlockFile):
        return False
    places = [(gap.offset, gap.offset + gap.size) for gap in found.gaps]
    if found.end < len(data) and not found.marked:
        mark = last_mark(data, found.end)
        places.append((found.end, len(data) if mark < 0 else mark))
    for at, end in places:
        length = length_for(data, at, end)
        if length and length != data[at : at + 4]:
            try:
                file.overwrite(at, length)
            except StoreError as error:
                _log.error("a damaged length cannot be mended: %s", error)
                return False
            _log.warning("%s: the damaged length of a record at %d is mended", path, at)
            return True
    return False
