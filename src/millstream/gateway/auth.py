"""Who calls: the `Authorization` header against the gateway's own tokens, or passed through to NATS.

The tokens file is YAML, one entry for each caller, and is read again when it changes::

    reporting:
      sha256: 9f86d0…          # of the token; `token:` with its text is taken too
    importer:
      sha256: 60303a…
      nats: {user: importer, password: secret}    # who this caller is to NATS; else the gateway itself
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
    """The file with the bearer tokens can not be read."""


class Caller(msgspec.Struct, frozen=True):
    """`name` is for logs and may be empty; without credentials the gateway's own link is used."""

    name: str = ""
    credentials: Credentials | None = None


ANYBODY: Final = Caller()


class Authenticator:
    """Says who sent an `Authorization` header, or that nobody may send that one."""

    def __init__(self, settings: Auth) -> None:
        self._settings = settings
        self._tokens = None if settings.tokens_file is None else _Tokens(settings.tokens_file)

    def caller_of(self, authorization: str) -> Caller:
        """Raise Unauthorized if credentials are missing or of no use; NATS may still refuse them later."""
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
        """For `WWW-Authenticate`."""
        schemes = ['Basic realm="NATS", charset="UTF-8"'] if self._settings.pass_through else []
        return ", ".join([*schemes, "Bearer"])


class _Tokens:
    """Callers by the digest of their tokens, as the file has them now."""

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
        for known, caller in self._callers.items():  # all of them, so the time taken says nothing
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
        except OSError as error:  # it was taken away
            reason = f"cannot read the tokens in {self._path}: {file_reason(error)}"
            self._shut(TokensFileError(reason))
        except TokensFileError as error:
            self._shut(error)

    def _shut(self, reason: TokensFileError) -> None:
        """Nobody has access until the file is good again, even if it is then the one that it was."""
        if self._stamp is None:
            raise reason
        if self._stamp != _NEVER:
            _LOG.error("no token is taken: %s", reason)
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
    """ValueError for what says nothing: such a caller would be let in as nobody."""
    if not isinstance(entry, dict) or not entry or set(entry) - set(Credentials.__struct_fields__):
        raise ValueError("credentials of NATS are expected")
    return msgspec.convert(entry, Credentials)
