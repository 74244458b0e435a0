"""Places where the tokens of accounts are: in memory, in a folder, or behind a URL.

A folder has a file `<account>.jwt` for each account, as nats-server's folders have.  Files are replaced as a
whole and synced before anybody is told that a token was stored, and nothing is removed but what an operator
deletes and what a cache has no room or time for.  Other files are left alone.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from millstream.base.errors import MillstreamError
from millstream.base.nkeys import KeyKind
from millstream.broker.options import ResolverKind
from millstream.claims.token import MAX_TOKEN_BYTES, ClaimsError, is_key, read_token
from millstream.store.errors import StoreError
from millstream.store.fs import RealFileSystem

if TYPE_CHECKING:
    import ssl

    from millstream.broker.options import ResolverOptions

_SUFFIX: Final = ".jwt"
_DELETED: Final = ".deleted"
_CACHED: Final = 1000  # tokens in a cache, unless the options say otherwise


class TokenError(MillstreamError):
    """A token cannot be fetched, stored or deleted."""


class Tokens:
    """Tokens in memory, and the interface of all places.  Methods may run in any thread, one at a time."""

    slow = False  # fetching may wait for others
    folder = ""

    def __init__(self) -> None:
        self._tokens: dict[str, str] = {}

    def fetch(self, account: str) -> str:
        """Return the token of an account, empty if there is none; raise TokenError if it cannot be read."""
        return self._tokens.get(account, "")

    def store(self, account: str, text: str) -> None:
        """Keep a token; raise TokenError if that is not possible."""
        self._tokens[account] = text

    def preload(self, tokens: dict[str, str]) -> None:
        """Take the tokens of the configuration, in place of those that it had before."""
        self._tokens = dict(tokens)

    def names(self) -> list[str]:
        return list(self._tokens)


class _Entry(msgspec.Struct):
    digest: bytes
    used: float  # monotonic


class FolderTokens(Tokens):
    """Tokens in the files of a folder."""

    def __init__(self, options: ResolverOptions) -> None:
        super().__init__()
        self.folder = options.folder
        self._cache = options.kind is ResolverKind.CACHE
        self._limit = options.limit or (_CACHED if self._cache else 0)
        self._ttl_s = options.ttl_s
        self._options = options
        self._fs = RealFileSystem()
        self._known: OrderedDict[str, _Entry] = OrderedDict()  # the least recently used first
        try:
            os.makedirs(self.folder, exist_ok=True)
            self.reload()
        except OSError as error:
            raise TokenError(f"resolver: {self.folder}: {error.strerror}") from None

    def reload(self) -> list[str]:
        """Look at the folder again; return the accounts whose files are other ones."""
        before, self._known = self._known, OrderedDict()
        for name in sorted(os.listdir(self.folder)):
            account = name.removesuffix(_SUFFIX)
            if name.endswith(_SUFFIX) and is_key(account, KeyKind.ACCOUNT) and (text := self._read(account)):
                self._known[account] = _Entry(_digest(text), time.monotonic())
        return [
            account
            for account, entry in self._known.items()
            if account not in before or before[account].digest != entry.digest
        ]

    def fetch(self, account: str) -> str:
        if not is_key(account, KeyKind.ACCOUNT):
            return ""
        text = self._read(account)
        entry = self._known.get(account)
        if entry is not None:
            entry.used = time.monotonic()
            self._known.move_to_end(account)
        return text

    def store(self, account: str, text: str) -> None:
        if not is_key(account, KeyKind.ACCOUNT):
            raise TokenError("invalid public key")
        digest = _digest(text)
        entry = self._known.get(account)
        if entry is not None and entry.digest == digest:
            return
        if entry is None:
            self._make_room()
        try:
            self._fs.replace(self._path(account), text.encode())
        except StoreError as error:
            raise TokenError(str(error)) from None
        self._known[account] = _Entry(digest, time.monotonic())
        self._known.move_to_end(account)

    def preload(self, tokens: dict[str, str]) -> None:
        """Store the tokens of the configuration that are newer than those in the folder."""
        for account, text in tokens.items():
            with suppress(ClaimsError):
                new = read_token(text)
                there = self._read(account)
                if there and read_token(there).issued_at > new.issued_at:
                    continue
            self.store(account, text)

    def delete(self, account: str) -> None:
        """Remove the file of an account, or rename it, as the options say."""
        if not self._options.allow_delete and not self._cache:
            raise TokenError("store is not set up to for delete")
        path = self._path(account)
        try:
            if self._cache or self._options.hard_delete:
                os.remove(path)
            else:
                os.replace(path, path + _DELETED)
            self._fs.sync_folder(self.folder)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise TokenError(f"{path}: {error.strerror}") from None
        self._known.pop(account, None)

    def drop_old(self) -> None:
        """Remove cached tokens that were not used for the configured time."""
        while self._cache and self._ttl_s and self._known:
            account, entry = next(iter(self._known.items()))
            if time.monotonic() - entry.used < self._ttl_s:
                return
            self.delete(account)

    def names(self) -> list[str]:
        return list(self._known)

    def pack(self) -> Iterator[str]:
        """Yield `account|token` for every token that has not expired."""
        now = time.time()
        for account in list(self._known):
            text = self._read(account)
            with suppress(ClaimsError):
                if text and not 0 < read_token(text).expires < now:
                    yield f"{account}|{text}"

    def digest(self) -> bytes:
        """Return what two servers compare to know that they have the same tokens."""
        total = 0
        for entry in self._known.values():
            total ^= int.from_bytes(entry.digest)
        return total.to_bytes(32)

    def _make_room(self) -> None:
        while self._limit and len(self._known) >= self._limit:
            if not self._cache:
                raise TokenError("jwt store is full")
            self.delete(next(iter(self._known)))

    def _read(self, account: str) -> str:
        try:
            with open(self._path(account), "rb") as file:
                return file.read(MAX_TOKEN_BYTES + 1).decode().strip()
        except FileNotFoundError:
            return ""
        except (OSError, UnicodeDecodeError) as error:
            raise TokenError(f"{self._path(account)}: {error}") from None

    def _path(self, account: str) -> str:
        return os.path.join(self.folder, account + _SUFFIX)


class UrlTokens(Tokens):
    """Tokens behind a URL, one request for each."""

    slow = True

    def __init__(self, options: ResolverOptions) -> None:
        super().__init__()
        self._options = options
        self._url = options.url if options.url.endswith("/") else f"{options.url}/"
        self.fetch("")  # is anybody there?

    def fetch(self, account: str) -> str:
        import http.client
        import urllib.error
        import urllib.parse
        import urllib.request

        from millstream.base.tls_files import TlsFileError

        parts = urllib.parse.urlsplit(self._url + account)
        shown = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        try:
            with urllib.request.urlopen(
                urllib.parse.urlunsplit(parts), timeout=self._options.timeout_s, context=self._context()
            ) as response:
                body = response.read(MAX_TOKEN_BYTES + 1)
        except urllib.error.HTTPError as error:
            error.close()
            raise TokenError(f'could not fetch <"{shown}">: {error.code} {error.reason}') from None
        except (OSError, http.client.HTTPException, TlsFileError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise TokenError(f'could not fetch <"{shown}">: {reason}') from None
        return str(body.decode(errors="replace").strip())

    def store(self, account: str, text: str) -> None:
        """Do nothing: the URL has the token."""

    def preload(self, tokens: dict[str, str]) -> None:
        if tokens:
            raise TokenError(
                "resolver preloads only available for writeable resolver types MEM/DIR/CACHE_DIR"
            )

    def _context(self) -> ssl.SSLContext | None:
        options = self._options
        if not options.url.startswith("https:"):
            return None
        from millstream.base.tls_files import client_context

        return client_context(options.ca_file, options.cert_file, options.key_file)


def open_tokens(options: ResolverOptions) -> Tokens:
    """Return the place that the configuration names; raise TokenError if it cannot be used."""
    match options.kind:
        case ResolverKind.MEMORY:
            return Tokens()
        case ResolverKind.URL:
            return UrlTokens(options)
        case _:
            return FolderTokens(options)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
