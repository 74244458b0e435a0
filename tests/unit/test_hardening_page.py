"""docs/hardening.md: every configuration on the page is read without a warning, and starts."""

import re
from pathlib import Path

import bcrypt
import pytest

from millstream.config import read_config
from millstream.gateway.config_file import load_settings
from millstream.testing.certs import CertificateAuthority
from millstream.testing.reference import ServerKind, ServerProcess

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "hardening.md"
TEXT = PAGE.read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


CONFIGURATIONS = blocks("conf")


@pytest.fixture
def placed(tmp_path: Path) -> "Placed":
    return Placed(tmp_path)


class Placed:
    """Configurations whose files lie in a folder of the test, and whose ports are free ones."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        authority = CertificateAuthority(folder)
        issued = authority.issue_for_loopback()
        (folder / "server.pem").write_bytes(Path(issued.cert_file).read_bytes())
        (folder / "server-key.pem").write_bytes(Path(issued.key_file).read_bytes())
        (folder / "ca.pem").write_bytes(Path(authority.cert_file).read_bytes())

    def __call__(self, text: str) -> str:
        text = text.replace("/etc/millstream", str(self.folder))
        text = text.replace("/var/lib/millstream", str(self.folder / "store"))
        return re.sub(r"127\.0\.0\.1:[0-9]+", "127.0.0.1:-1", text)


def test_there_are_configurations_on_the_page() -> None:
    assert len(CONFIGURATIONS) == 6
    assert len(blocks("yaml")) == len(blocks("ini")) == 1


@pytest.mark.parametrize("number", range(len(CONFIGURATIONS)))
def test_a_server_starts_with_a_configuration_of_the_page(number: int, placed: Placed) -> None:
    text = placed(CONFIGURATIONS[number])
    path = placed.folder / "server.conf"
    path.write_text(text)
    assert read_config(path, environment={}).warnings == ()
    with ServerProcess(ServerKind.MILLSTREAM, config=text) as server:
        assert server.client_url


def test_the_gateway_takes_the_settings_of_the_page(tmp_path: Path) -> None:
    (text,) = blocks("yaml")
    path = tmp_path / "gateway.yaml"
    path.write_text(text)
    settings = load_settings(path)
    assert settings.auth.required


def test_the_hash_on_the_page_is_a_bcrypt_hash() -> None:
    (found,) = set(re.findall(r'"(\$2b\$[^"]+)"', TEXT))
    assert bcrypt.checkpw(b"secret", found.encode())


@pytest.mark.parametrize("page", ["SECURITY.md", "docs/hardening.md"])
def test_a_page_is_linked_and_its_links_lead_somewhere(page: str) -> None:
    assert page in (ROOT / "README.md").read_text()
    for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text()):
        assert ((ROOT / page).parent / target).exists(), target
