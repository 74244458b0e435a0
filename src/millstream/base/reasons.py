"""Explain errors of the operating system or a peer, and say what a person can do about them.

Each function returns the end of a sentence whose beginning names the thing::

    raise ConfigError(f"cannot read {path}: {file_reason(error)}")
    cannot read orders.conf: No such file or directory; check the path

Not here: errors that a NATS server reports once it is connected (`link.login`).
"""

import errno
import os
import ssl
from typing import Final

from millstream.base.errors import MillstreamError

_FILE_ADVICE: Final = {
    errno.ENOENT: "check the path",
    errno.EACCES: "check the owner and the mode of the file and of its folder",
    errno.EPERM: "check the owner and the mode of the file and of its folder",
    errno.EISDIR: "give the path of a file",
    errno.ENOTDIR: "a file stands where a folder is needed",
    errno.ENOSPC: "free some space",
    errno.EROFS: "choose a folder that can be written to",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
}
_CONNECTION_ADVICE: Final = {
    errno.ECONNREFUSED: "start the server, or check the address",
    errno.EHOSTUNREACH: "check the address",
    errno.ENETUNREACH: "check the address",
}
_OTHER_NAME: Final = (62, 64)  # OpenSSL's codes: the certificate is for another host name or address
_OUT_OF_DATE: Final = (9, 10)  # not valid yet, expired
_PRIVILEGED: Final = 1024  # lower ports need a privilege


def file_reason(error: OSError) -> str:
    """Return why a file or folder cannot be used, and what to do."""
    return _advised(_text(error), _FILE_ADVICE.get(error.errno or 0))


def system_reason(error: OSError) -> str:
    """Return the sentence for an unexpected OSError, with its file if it has one."""
    place = f"{error.filename}: " if error.filename else ""
    return f"{place}{file_reason(error)}"


def connection_reason(error: BaseException) -> str:
    """Return why there is no connection, without the address, and what to do."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _certificate_reason(error)
    if isinstance(error, ssl.SSLError):
        if error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"):
            return "it does not answer with TLS; connect without TLS, or check the port"
        return f"TLS failed: {(error.reason or str(error)).lower().replace('_', ' ')}"
    if isinstance(error, TimeoutError):
        return "no answer in time; check the address, and that a NATS server listens there"
    if isinstance(error, OSError):
        is_resolver = error.errno is not None and error.errno < 0  # `socket.gaierror`
        advice = "check the name of the host" if is_resolver else _CONNECTION_ADVICE.get(error.errno or 0)
        return _advised(_text(error), advice)
    return str(error) or type(error).__name__


def _certificate_reason(error: ssl.SSLCertVerificationError) -> str:
    said = error.verify_message.rstrip(".")
    if error.verify_code in _OTHER_NAME:
        return f"its certificate is for another name: {said}; connect by a name that it has"
    if error.verify_code in _OUT_OF_DATE:
        return f"its certificate is out of date: {said}; renew it, or check the clock"
    return f"its certificate is not trusted: {said}; give the certificate of the authority that signed it"


class CannotListen(MillstreamError, OSError):
    """An address cannot be listened on.

    `purpose` names the users of the port, `change` the setting that selects it.
    """

    def __init__(self, error: OSError, purpose: str, host: str, port: int, change: str) -> None:
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        reason = _advised(_text(error), _listening_advice(error, port, change))
        super().__init__(error.errno, f"cannot listen for {purpose} on {place}: {reason}")

    def __str__(self) -> str:
        return str(self.strerror)


def _listening_advice(error: OSError, port: int, change: str) -> str | None:
    if error.errno == errno.EADDRINUSE:
        return f"stop the program that uses the port, or choose another one ({change})"
    if error.errno == errno.EACCES and port < _PRIVILEGED:
        return f"ports below {_PRIVILEGED} need a privilege: choose another one ({change})"
    if error.errno == errno.EADDRNOTAVAIL:
        return "this machine has no such address"
    if error.errno is not None and error.errno < 0:
        return "check the name of the host"
    return None


def _text(error: OSError) -> str:
    """Return the system's own text; libraries wrap it in theirs."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error) or type(error).__name__


def _advised(text: str, advice: str | None) -> str:
    return f"{text}; {advice}" if advice else text
