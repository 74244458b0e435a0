"""The gateway's own TLS: who must show a certificate shows it at every connection."""

from pathlib import Path

import pytest

from millstream.base.tls_server import ServerContext
from millstream.gateway.server import _server_context
from millstream.gateway.settings import Tls
from tests.kits.certs import CertificateAuthority


@pytest.mark.parametrize("verifying", [True, False])
def test_its_context_is_one_that_resumes_nothing_where_clients_are_verified(
    tmp_path: Path, verifying: bool
) -> None:
    """The effects of such a context are tested in unit/base/test_tls_server.py."""
    authority = CertificateAuthority(tmp_path)
    issued = authority.issue_for_loopback()
    tls = Tls(
        certificate=issued.cert_file,
        key=issued.key_file,
        authorities=authority.cert_file if verifying else None,
    )
    context = _server_context(tls)
    assert isinstance(context, ServerContext)
    assert context.verifies is verifying
