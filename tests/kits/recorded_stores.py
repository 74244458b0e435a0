"""Archives of stores, and of what the server that wrote them said of their streams.

pack(Path("2.15.1-killed.tar.xz"), folder / "store", told)
store, told = unpack(archive, tmp_path)
"""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any


def pack(path: Path, store: Path, told: dict[str, Any]) -> None:
    """Write a store, and what its server said of it, to an archive."""
    text = json.dumps(told).encode()
    with tarfile.open(path, "w:xz") as archive:
        archive.add(store, "store", filter=anonymous)
        member = tarfile.TarInfo("told.json")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))


def unpack(path: Path, folder: Path) -> tuple[Path, dict[str, Any]]:
    """Return the store of an archive, unpacked in a folder, and what its server said of it."""
    with tarfile.open(path) as archive:
        archive.extractall(folder, filter="data")
    told: dict[str, Any] = json.loads((folder / "told.json").read_text())
    return folder / "store", told


def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return a file of an archive without the names of whoever recorded it."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
