"""Certificates for the tests of TLS and of secure WebSockets."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.kits.certs import CertificateAuthority, IssuedCertificate


@dataclass(frozen=True)
class Papers:
    """An authority and what it signed, one that nobody trusts, and the block of configuration for both."""

    authority: CertificateAuthority
    stranger_authority: CertificateAuthority
    server: IssuedCertificate
    client: IssuedCertificate
    stranger: IssuedCertificate

    @classmethod
    def issue(cls, folder: Path) -> Self:
        authority = CertificateAuthority(folder)
        stranger_authority = CertificateAuthority(folder, "stranger")
        return cls(
            authority,
            stranger_authority,
            authority.issue_for_loopback(),
            authority.issue("client", dns=["client.example.com"], emails=["client@example.com"]),
            stranger_authority.issue("client"),
        )

    def tls(self, extra: str = "") -> str:
        """Patient with a busy machine, unless a test is about the time."""
        patience = "" if "timeout" in extra else "timeout: 30, "
        return (
            f'tls {{ cert_file: "{self.server.cert_file}", key_file: "{self.server.key_file}", '
            f'ca_file: "{self.authority.cert_file}", {patience}{extra} }}\n'
        )

    def context(self, certificate: IssuedCertificate | None = None) -> ssl.SSLContext:
        return self.authority.client_context(certificate)
