"""Load certificates, keys and authorities from PEM files, with errors that name the file and the problem.

OpenSSL's own errors name no file and give little more than a number.
"""

import ssl
from typing import NoReturn

from millstream.base.errors import MillstreamError
from millstream.base.reasons import file_reason


class TlsFileError(MillstreamError):
    """A file with a certificate or key cannot be used."""


def load_certificate(context: ssl.SSLContext, cert_file: str, key_file: str = "") -> None:
    """Load our certificate and its key, which may be in the same file; raise TlsFileError."""
    key_file = key_file or cert_file
    _check_readable(cert_file, "certificate")
    _check_readable(key_file, "key")

    def no_password() -> NoReturn:
        # Without a callback OpenSSL would prompt at the terminal.
        raise TlsFileError(f"the key in {key_file!r} is encrypted, which is not supported")

    try:
        context.load_cert_chain(cert_file, key_file, password=no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            text = f"the key in {key_file!r} does not belong to the certificate in {cert_file!r}"
        elif not _holds(cert_file, "CERTIFICATE"):
            text = f"{cert_file!r} holds no certificate in PEM"
        elif not _holds(key_file, "PRIVATE KEY"):
            text = f"{key_file!r} holds no private key in PEM"
        else:
            text = f"the certificate in {cert_file!r} and the key in {key_file!r} cannot be used: {error}"
        raise TlsFileError(text) from None


def load_authorities(context: ssl.SSLContext, ca_file: str) -> None:
    """Trust the authorities in a file; raise TlsFileError."""
    _check_readable(ca_file, "authorities")
    try:
        context.load_verify_locations(ca_file)
    except ssl.SSLError:
        raise TlsFileError(f"{ca_file!r} holds no certificate in PEM") from None


def client_context(
    ca_file: str = "", cert_file: str = "", key_file: str = "", *, verify: bool = True
) -> ssl.SSLContext:
    """Return a context for a client; without `ca_file` it trusts the system's authorities.

    It accepts what it accepted before Python 3.13, and what nats-server and its clients accept: authorities
    need no extension that says what their key is for.
    """
    if ca_file:
        _check_readable(ca_file, "authorities")
    try:
        context = ssl.create_default_context(cafile=ca_file or None)
    except ssl.SSLError:
        raise TlsFileError(f"{ca_file!r} holds no certificate in PEM") from None
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if cert_file:
        load_certificate(context, cert_file, key_file)
    return context


def _check_readable(path: str, what: str) -> None:
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise TlsFileError(f"cannot read the {what} in {path!r}: {file_reason(error)}") from None


def _holds(path: str, kind: str) -> bool:
    with open(path, "rb") as file:
        return f"{kind}-----".encode() in file.read()
