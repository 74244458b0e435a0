"""How archives of streams are read and written: the broker's own modules, handed to `millstream.transfer`.

That package knows nothing but the wire, so it can not import them itself.
"""

from typing import Final

from millstream.archive.entries import MAGIC, EntryBuffer, EntryReader
from millstream.archive.errors import ArchiveError
from millstream.archive.frames import BLOCK_SIZE, START, FrameReader, frame
from millstream.transfer.archive import ArchiveForm

FORM: Final = ArchiveForm(
    frames=FrameReader,
    entries=EntryReader,
    writer=EntryBuffer,
    frame=frame,
    start=START,
    magic=MAGIC,
    block_size=BLOCK_SIZE,
    problem=ArchiveError,
)
