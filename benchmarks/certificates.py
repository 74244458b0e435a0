"""The certificates of the rows with TLS, made once for each run."""

import tempfile
from functools import cache
from pathlib import Path

from tests.kits.certs import CertificateAuthority


@cache
def certificates() -> tuple[tempfile.TemporaryDirectory[str], CertificateAuthority, str]:
    """Return their folder, the authority that clients trust, and the settings of a server."""
    folder = tempfile.TemporaryDirectory(prefix="millstream-paths-")
    authority = CertificateAuthority(Path(folder.name))
    issued = authority.issue_for_loopback()
    return folder, authority, f'cert_file: "{issued.cert_file}", key_file: "{issued.key_file}"'
