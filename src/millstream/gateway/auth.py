"""Identification of callers: by the gateway's own tokens, or by credentials that are passed through to NATS.

The tokens file is YAML with one entry for each caller, and is reloaded when it changes::

    reporting:
      sha256: 9f86d0…          # of the token; or `token:` with its text
    importer:
      sha256: 60303a…
      nats: {user: importer, password: secret}    # the caller's NATS user; default: the gateway's own
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import time
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from millstream.base.errors import MillstreamError
from millstream.base.reasons import file_reason
from millstream.gateway.credentials import Credentials, parse_authorization
from millstream.gateway.errors import Unauthorized
from millstream.gateway.settings import Auth

_LOG: Final = logging.getLogger("millstream.gateway")
_LOOK_AGAIN_S: Final = 1.0
_NEVER: Final = (-1, -1)  # no file has this stamp


class TokensFileError(MillstreamError):
    """Raised if the file with the bearer tokens cannot be read."""


class Caller(msgspec.Struct, frozen=True):
    """A caller; `name` is for logs and may be empty.  Without credentials the gateway's own link is used."""

    name: str = ""
    credentials: Credentials | None = None


ANYBODY: Final = Caller()


class Authenticator:
    """Identifies the caller of an `Authorization` header, or refuses the header."""

    def __init__(self, settings: Auth) -> None:
        self._settings = settings
        self._tokens = None if settings.tokens_file is None else _Tokens(settings.tokens_file)

    def caller_of(self, authorization: str) -> Caller:
        """Return the caller, whom NATS may still refuse; raises Unauthorized if credentials are missing."""
        if not authorization:
            if self._settings.required or (self._tokens is not None and not self._settings.pass_through):
                raise Unauthorized("credentials are required")
            return ANYBODY
        credentials = parse_authorization(authorization)
        if self._tokens is not None and credentials.token:
            known = self._tokens.find(credentials.token)
            if known is not None:
                return known
        if not self._settings.pass_through:
            if self._tokens is None and not self._settings.required:
                return ANYBODY
            raise Unauthorized("the credentials are not known")
        return Caller(credentials.user, credentials)

    @property
    def challenge(self) -> str:
        """Return the value of `WWW-Authenticate`."""
        schemes = ['Basic realm="NATS", charset="UTF-8"'] if self._settings.pass_through else []
        return ", ".join([*schemes, "Bearer"])


class _Tokens:
    """The callers of the current tokens file, by the digest of their token."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._looked = 0.0
        self._callers: dict[bytes, Caller] = {}
        self._load()

    def find(self, token: str) -> Caller | None:
        now = time.monotonic()
        if now - self._looked > _LOOK_AGAIN_S:
            self._looked = now
            self._load()
        digest = hashlib.sha256(token.encode()).digest()
        found = None
        for known, caller in self._callers.items():  # compare with all, so that the time reveals nothing
            if hmac.compare_digest(known, digest):
                found = caller
        return found

    def _load(self) -> None:
        try:
            status = os.stat(self._path)
            stamp = (status.st_mtime_ns, status.st_size)
            if stamp == self._stamp:
                return
            self._callers = _read_tokens(self._path)
            self._stamp = stamp
        except OSError as error:  # the file was removed
            reason = f"cannot read the tokens in {self._path}: {file_reason(error)}"
            self._shut(TokensFileError(reason))
        except TokensFileError as error:
            self._shut(error)

    def _shut(self, reason: TokensFileError) -> None:
        """Refuse every token until the file can be read again, even if it is then unchanged."""
        if self._stamp is None:
            raise reason
        if self._stamp != _NEVER:
            _LOG.error("all tokens are refused: %s", reason)
        self._stamp = _NEVER
        self._callers = {}


def _read_tokens(path: Path) -> dict[bytes, Caller]:
    try:
        document: Any = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise TokensFileError(f"{path}: not YAML") from error  # the error's text might quote a token
    if not isinstance(document, dict):
        raise TokensFileError(f"{path}: a map of callers is expected")
    callers: dict[bytes, Caller] = {}
    for name, entry in document.items():
        if not isinstance(entry, dict) or ("token" in entry) == ("sha256" in entry):
            raise TokensFileError(f"{path}: {name}: either `sha256` or `token` is expected")
        unknown = set(entry) - {"token", "sha256", "nats"}
        if unknown:
            raise TokensFileError(f"{path}: {name}: unknown: {', '.join(sorted(map(str, unknown)))}")
        try:
            digest = (
                bytes.fromhex(str(entry["sha256"]))
                if "sha256" in entry
                else hashlib.sha256(str(entry["token"]).encode()).digest()
            )
            credentials = _who_to_nats(entry["nats"]) if "nats" in entry else None
        except (ValueError, msgspec.ValidationError) as error:
            raise TokensFileError(f"{path}: {name}: not understood") from error
        if len(digest) != hashlib.sha256().digest_size:
            raise TokensFileError(f"{path}: {name}: `sha256` is not 64 hexadecimal digits")
        callers[digest] = Caller(str(name), credentials)
    return callers


def _who_to_nats(entry: Any) -> Credentials:
    """Return the NATS credentials of an entry; raises ValueError if there are none in it."""
    if not isinstance(entry, dict) or not entry or set(entry) - set(Credentials.__struct_fields__):
        raise ValueError("credentials of NATS are expected")
    return msgspec.convert(entry, Credentials)
