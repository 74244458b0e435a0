"""Configurations on pages, read and started by what they are for."""

import configparser
import contextlib
import json
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import yaml

from millstream.config import read_config
from millstream.gateway.auth import Authenticator
from millstream.gateway.config_file import load_settings
from millstream.gateway.settings import Auth
from millstream.spark.pipeline.check import check_pipeline
from millstream.spark.pipeline.load import load_pipeline
from tests.kits.certs import CertificateAuthority
from tests.kits.reference import ServerKind, ServerProcess

Check = Callable[[str, Path], None]


def make_etc(folder: Path) -> None:
    """Make the folder that configurations call /etc/millstream, with the certificates that they name."""
    folder.mkdir()
    authority = CertificateAuthority(folder)
    issued = authority.issue_for_loopback()
    (folder / "server.pem").write_bytes(Path(issued.cert_file).read_bytes())
    (folder / "server-key.pem").write_bytes(Path(issued.key_file).read_bytes())
    (folder / "ca.pem").write_bytes(Path(authority.cert_file).read_bytes())


def start_server(text: str, path: Path) -> None:
    """A configuration file of the broker: it is read without a warning, and a server starts with it."""
    text = re.sub(r"\b(127\.0\.0\.1|0\.0\.0\.0):[0-9]+", "127.0.0.1:-1", text)  # on any port of this machine
    path.write_text(text)
    assert read_config(path, environment={}).warnings == ()
    # relative folders are made beside the file
    with contextlib.chdir(path.parent), ServerProcess(ServerKind.MILLSTREAM, config=text) as server:
        assert server.client_url


def load_yaml(text: str, path: Path) -> None:
    """Settings of the gateway, or its file of tokens."""
    path.write_text(text)
    document = yaml.safe_load(text)
    if set(document) <= {"nats", "management", "dataplane", "gateway"}:
        load_settings(path)
    else:
        assert all("sha256" in entry for entry in document.values()), "neither settings nor tokens"
        Authenticator(Auth(tokens_file=path))


def check_toml(text: str, path: Path) -> None:
    """A pipeline."""
    tomllib.loads(text)
    path.write_text(text)
    assert check_pipeline(load_pipeline(path)) == []


def parse_json(text: str, path: Path) -> None:
    json.loads(text)


def parse_unit(text: str, path: Path) -> None:
    """A unit of systemd, which is not here to start it."""
    unit = configparser.ConfigParser(strict=False)
    unit.read_string(text)
    assert unit["Service"]["ExecStart"]


CHECKS: Final[Mapping[str, Check]] = {
    "conf": start_server,
    "yaml": load_yaml,
    "toml": check_toml,
    "json": parse_json,
    "ini": parse_unit,
}
