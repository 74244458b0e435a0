"""Convert the table ``[nats]`` to options of the data source; secrets come from files and the environment.

The environment is a parameter: only the command reads the real one.  No message contains a secret.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import UNSET

from millstream.base.errors import MillstreamError
from millstream.spark.jobs.settings import Nats

# Variables that NATS's own tools also use.
_SERVERS: Final = "NATS_URL"
_USER: Final = "NATS_USER"
_PASSWORD: Final = "NATS_PASSWORD"
_TOKEN: Final = "NATS_TOKEN"
_NKEY: Final = "NATS_NKEY"
_CREDS: Final = "NATS_CREDS"


class ConnectionSettingsError(MillstreamError):
    """``[nats]`` and the environment do not describe a connection."""


def connection_options(nats: Nats, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the options `nats.*` of the data source; raise ConnectionSettingsError."""
    servers = nats.servers or [
        part.strip() for part in environment.get(_SERVERS, "").split(",") if part.strip()
    ]
    if not servers:
        raise ConnectionSettingsError(f'[nats] key "servers" is missing, and so is {_SERVERS}')
    tls = None if nats.tls is UNSET else nats.tls
    options = {
        "nats.servers": ",".join(servers),
        **_credentials(nats, environment),
        "nats.tls.ca": tls.ca if tls else "",
        "nats.tls.cert": tls.cert if tls else "",
        "nats.tls.key": tls.key if tls else "",
        "nats.tls.first": "true" if tls and tls.first else "",
        "nats.jsDomain": nats.domain,
        "nats.apiPrefix": nats.api_prefix,
        "nats.inboxPrefix": nats.inbox_prefix,
        "nats.connectTimeout": nats.connect_timeout,
    }
    return {name: value for name, value in options.items() if value}


def _credentials(nats: Nats, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the credentials: those of the file, or those of the environment, never a mix."""
    named = any((nats.user, nats.password_file, nats.password_env, nats.token_file, nats.token_env))
    if named or nats.nkey_file or nats.creds:
        kinds = {
            "a user": bool(nats.user or nats.password_file or nats.password_env),
            "a token": bool(nats.token_file or nats.token_env),
            "an nkey": bool(nats.nkey_file),
            "creds": bool(nats.creds),
        }
        given = [name for name, present in kinds.items() if present]
        if len(given) > 1:
            raise ConnectionSettingsError(f"[nats] names {' and '.join(given)}; one is enough")
        if kinds["a user"] and not nats.user:
            raise ConnectionSettingsError('[nats] has a password, but the key "user" is missing')
        return {
            "nats.user": nats.user,
            "nats.password": _secret("password", nats.password_file, nats.password_env, environment),
            "nats.token": _secret("token", nats.token_file, nats.token_env, environment),
            "nats.nkey.secret": _secret("nkey", nats.nkey_file, "", environment),
            "nats.creds": _existing("creds", nats.creds),
        }
    return {
        "nats.user": environment.get(_USER, ""),
        "nats.password": environment.get(_PASSWORD, ""),
        "nats.token": environment.get(_TOKEN, ""),
        "nats.nkey.secret": _secret(_NKEY, environment.get(_NKEY, ""), "", environment),
        "nats.creds": _existing(_CREDS, environment.get(_CREDS, "")),
    }


def _secret(key: str, file: str, variable: str, environment: Mapping[str, str]) -> str:
    if file and variable:
        raise ConnectionSettingsError(f'[nats] has both "{key}_file" and "{key}_env"; one is enough')
    if variable:
        if variable not in environment:
            raise ConnectionSettingsError(f'[nats] key "{key}_env": {variable} is not in the environment')
        return environment[variable]
    if not file:
        return ""
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConnectionSettingsError(f'[nats] key "{key}_file": {file}: {error.strerror}') from None


def _existing(key: str, file: str) -> str:
    if file and not Path(file).is_file():
        raise ConnectionSettingsError(f'[nats] key "{key}": {file}: no such file')
    return file
