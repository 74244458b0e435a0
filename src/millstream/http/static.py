"""Static files of a folder, read once and served from memory.

A path is looked up among the files that were found, so nothing outside the folder can be requested.  Each
file has an ETag of its content, and the content security policy lets a page load from its own origin only.
Files are compressed once, when they are read, for callers that take gzip.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
from pathlib import Path
from typing import Final, NamedTuple

from millstream.base.errors import MillstreamError
from millstream.http.asgi import Pair

_INDEX: Final = "index.html"
_MOST_BYTES: Final = 32 * 1024 * 1024
_TYPES: Final = {
    ".css": b"text/css; charset=utf-8",
    ".html": b"text/html; charset=utf-8",
    ".ico": b"image/x-icon",
    ".js": b"text/javascript; charset=utf-8",
    ".json": b"application/json",
    ".mjs": b"text/javascript; charset=utf-8",
    ".png": b"image/png",
    ".svg": b"image/svg+xml",
    ".txt": b"text/plain; charset=utf-8",
    ".webmanifest": b"application/manifest+json",
    ".woff2": b"font/woff2",
}
_POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    b"base-uri 'none'; frame-ancestors 'none'; form-action 'none'"
)
_ALWAYS: Final[tuple[Pair, ...]] = (
    (b"content-security-policy", _POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"vary", b"accept-encoding"),
)
_ASK: Final = (b"cache-control", b"no-cache")  # revalidate with the ETag
_FOR_EVER: Final = (b"cache-control", b"public, max-age=31536000, immutable")
_LEAST_PACKED: Final = 512  # bytes: below, gzip saves nothing


class NotServable(MillstreamError):
    """Raised for a folder that contains something that cannot be served."""


class StaticFile(NamedTuple):
    """One file with its headers."""

    body: bytes
    etag: bytes
    content_type: bytes
    packed: bytes = b""  # with gzip; empty if that is no shorter


class StaticFiles:
    """The files of `folder` by their path below it; the path of a folder serves its `index.html`."""

    def __init__(self, folder: Path) -> None:
        self._files: dict[str, StaticFile] = {}
        size = 0
        for path in sorted(folder.rglob("*")):
            if not path.is_file() or path.is_symlink():
                continue
            kind = _TYPES.get(path.suffix)
            if kind is None:
                raise NotServable(f"{path}: files with this ending are not served")
            body = path.read_bytes()
            size += len(body)
            if size > _MOST_BYTES:
                raise NotServable(f"{folder}: more than {_MOST_BYTES} bytes are not kept in memory")
            name = path.relative_to(folder).as_posix()
            self._files[name] = file_of(body, kind)
            if path.name == _INDEX:
                self._files[name.removesuffix(_INDEX)] = self._files[name]

    def __len__(self) -> int:
        return len(self._files)

    @property
    def version(self) -> str:
        """A digest of all files and their names, which is another one as soon as one of them changes."""
        digest = hashlib.sha256()
        for name, file in sorted(self._files.items()):
            digest.update(b"%b\0%b\0" % (name.encode(), file.etag))
        return base64.urlsafe_b64encode(digest.digest()[:9]).decode()

    def find(self, path: str) -> StaticFile | None:
        """Return the file at a decoded path below the folder."""
        return self._files.get(path.removeprefix("/"))


def file_of(body: bytes, content_type: bytes) -> StaticFile:
    """Return a file with this content."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(body).digest()[:18])
    packed = gzip.compress(body, mtime=0) if len(body) >= _LEAST_PACKED else body
    return StaticFile(body, b'"%b"' % digest, content_type, packed if len(packed) < len(body) else b"")


def answer(
    file: StaticFile, if_none_match: bytes, *, accept_encoding: bytes = b"", is_immutable: bool = False
) -> tuple[int, list[Pair], bytes]:
    """Return status, headers and body for a GET; a HEAD has the same without the body.

    `is_immutable` says that the address of the file changes with its content.
    """
    headers = [(b"etag", file.etag), _FOR_EVER if is_immutable else _ASK, *_ALWAYS]
    tags = {tag.strip().removeprefix(b"W/") for tag in if_none_match.split(b",")}
    if file.etag in tags or b"*" in tags:
        return 304, headers, b""
    body = file.body
    if file.packed and _takes_gzip(accept_encoding):
        body = file.packed
        headers.append((b"content-encoding", b"gzip"))
    return 200, [(b"content-type", file.content_type), (b"content-length", b"%d" % len(body)), *headers], body


def _takes_gzip(accept_encoding: bytes) -> bool:
    for part in accept_encoding.lower().split(b","):
        coding, _, weight = part.strip().partition(b";")
        if coding.strip() == b"gzip":
            return weight.replace(b" ", b"").rstrip(b"0.") != b"q="
    return False
