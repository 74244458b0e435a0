"""The metadata of a stream: two copies in one file, or in the two files of earlier versions."""

from __future__ import annotations

import json
import logging
from random import Random

import pytest

from millstream.base.checksum import crc32c
from millstream.golang.time import Time
from millstream.jetstream.stream import meta
from millstream.jetstream.stream.meta import StreamMeta
from millstream.jsapi.codec import encode
from millstream.jsapi.stream_types import StreamConfig
from millstream.store.errors import StoreError
from millstream.store.fs import MemoryFileSystem

FOLDER = "streams/S"
FILE, COPY = f"{FOLDER}/meta.json", f"{FOLDER}/meta.copy"
SECTOR = 512
# With texts that look like the beginnings of the copies.
LOOKALIKES = {"a": "b", "proof": "12345678", "x, ": 'y, "proof":"12345678"'}
META = StreamMeta(
    config=StreamConfig(name="S", subjects=["s.>"], description="d, ", metadata=LOOKALIKES),
    created=Time(1_700_000_000_123_456_789),
    id="ID",
)
LONG = StreamMeta(config=StreamConfig(name="S", subjects=[f"s.{each}" for each in range(1500)]))


def created(found: StreamMeta = META) -> MemoryFileSystem:
    fs = MemoryFileSystem()
    meta.create(fs, FOLDER, found)
    return fs


def of_two_files() -> MemoryFileSystem:
    """Return the files that earlier versions wrote."""
    fs = MemoryFileSystem()
    text = encode(META)
    for path in (FILE, COPY):
        fs.replace(path, b"%08x %b" % (crc32c(text), text))
    return fs


@pytest.mark.parametrize("found", [META, LONG, StreamMeta()], ids=["short", "long", "empty"])
def test_what_was_written_is_read(found: StreamMeta, caplog: pytest.LogCaptureFixture) -> None:
    fs = created(found)
    assert meta.read(fs, FOLDER) == found
    meta.write(fs, FOLDER, META)
    assert meta.read(fs, FOLDER) == META
    assert meta.identity(fs, FOLDER) == "ID"
    assert meta.is_sound(fs, FOLDER)
    assert fs.list(FOLDER) == ["meta.json"]
    assert caplog.text == ""


def test_each_flipped_byte_is_put_right() -> None:
    fs = created()
    whole = fs.read_all(FILE)
    caught = logging.getLogger("millstream.jetstream")
    caught.disabled = True
    try:
        for at in range(len(whole)):
            damaged = bytearray(whole)
            damaged[at] ^= 1 << Random(at).randrange(8)
            fs.replace(FILE, bytes(damaged))
            assert meta.identity(fs, FOLDER) == "ID"
            assert meta.read(fs, FOLDER) == META
            assert fs.read_all(FILE) == whole
    finally:
        caught.disabled = False


@pytest.mark.parametrize("found", [META, LONG], ids=["short", "long"])
@pytest.mark.parametrize("lost", [bytes(SECTOR), b"\xff" * SECTOR])
def test_each_lost_sector_is_put_right(
    found: StreamMeta, lost: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    fs = created(found)
    whole = fs.read_all(FILE)
    for at in range(0, len(whole), SECTOR):
        fs.replace(FILE, (whole[:at] + lost + whole[at + SECTOR :])[: len(whole)])
        assert meta.read(fs, FOLDER) == found
        assert fs.read_all(FILE) == whole
    assert "meta.json is damaged" in caplog.text


def test_the_first_copy_suffices_without_the_rest() -> None:
    fs = created()
    whole = fs.read_all(FILE)
    end = whole.index(b'"', whole.index(b', "proof":"') + len(b', "proof":"'))
    for size in (end, end + 1, 4096, 4097, len(whole) - 1):
        fs.replace(FILE, whole[:size])
        assert meta.read(fs, FOLDER) == META
        assert fs.read_all(FILE) == whole


def test_metadata_whose_copies_are_both_damaged_are_refused() -> None:
    fs = created()
    whole = fs.read_all(FILE)
    fs.replace(FILE, whole[:20] + b"??" + whole[22:-20] + b"??" + whole[-18:])
    for ask in (meta.read, meta.identity):
        with pytest.raises(StoreError, match="and so is its copy"):
            ask(fs, FOLDER)
    assert not meta.is_sound(fs, FOLDER)


def test_earlier_versions_can_read_the_file() -> None:
    data = created().read_all(FILE)
    assert data[:9] == b"%08x " % crc32c(data[9:])
    assert b"\n" not in data
    found = json.loads(data[9:])
    assert {name: found[name] for name in ("config", "created", "id")} == json.loads(encode(META))


def test_two_files_of_an_earlier_version_stay_until_the_configuration_changes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fs = of_two_files()
    before = fs.read_all(FILE)
    assert meta.read(fs, FOLDER) == META
    assert fs.read_all(FILE) == fs.read_all(COPY) == before
    assert caplog.text == ""
    meta.write(fs, FOLDER, META)
    assert meta.read(fs, FOLDER) == META
    assert fs.list(FOLDER) == ["meta.json"]


@pytest.mark.parametrize("path", [FILE, COPY])
@pytest.mark.parametrize("left", [b"", b"damaged", None], ids=["empty", "damaged", "a byte"])
def test_damage_in_one_of_two_files_is_put_right(path: str, left: bytes | None) -> None:
    fs = of_two_files()
    whole = fs.read_all(path)
    fs.replace(path, whole[:50] + b"?" + whole[51:] if left is None else left)
    assert meta.read(fs, FOLDER) == META
    assert fs.list(FOLDER) == ["meta.json"]
    assert fs.read_all(FILE) == created().read_all(FILE)


@pytest.mark.parametrize("at", [0, 4, 8, 9, 100, -1])
def test_a_damaged_byte_of_the_only_file_of_an_earlier_version_costs_nothing(at: int) -> None:
    """A power loss could leave one copy of a new stream's metadata."""
    fs = of_two_files()
    damaged = bytearray(fs.read_all(FILE))
    damaged[at] ^= 1
    fs.replace(FILE, bytes(damaged))
    fs.remove(COPY)
    assert meta.read(fs, FOLDER) == META


def test_a_copy_that_cannot_be_written_again_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fs = created()
    fs.replace(FILE, fs.read_all(FILE)[:4096])

    def refuse(path: str, data: bytes, *, sync: bool = True) -> None:
        raise StoreError("replace", path, "no space")

    monkeypatch.setattr(fs, "replace", refuse)
    assert meta.read(fs, FOLDER) == META
    assert "no space" in caplog.text
