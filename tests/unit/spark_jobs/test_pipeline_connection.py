"""`[nats]` becomes options of the data source; secrets come from files and variables."""

from pathlib import Path

import pytest

from millstream.spark.jobs.settings import Nats, Tls
from millstream.spark.option_table import OPTIONS
from millstream.spark.pipeline.connection import ConnectionSettingsError, connection_options

SERVERS = ["nats://a:4222", "nats://b:4222"]


def test_every_key_becomes_an_option_that_the_source_knows(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("s3cret\n")
    nats = Nats(
        servers=SERVERS,
        user="spark",
        password_file=str(secret),
        tls=Tls(ca="ca.pem", cert="c.pem", key="k.pem", first=True),
        domain="hub",
        api_prefix="JS.hub",
        inbox_prefix="_IN",
        connect_timeout="2s",
    )
    options = connection_options(nats, {})
    assert options == {
        "nats.servers": "nats://a:4222,nats://b:4222",
        "nats.user": "spark",
        "nats.password": "s3cret",
        "nats.tls.ca": "ca.pem",
        "nats.tls.cert": "c.pem",
        "nats.tls.key": "k.pem",
        "nats.tls.first": "true",
        "nats.jsDomain": "hub",
        "nats.apiPrefix": "JS.hub",
        "nats.inboxPrefix": "_IN",
        "nats.connectTimeout": "2s",
    }
    assert set(options) <= {option.name for option in OPTIONS}


def test_what_the_file_leaves_out_comes_from_the_environment() -> None:
    environment = {"NATS_URL": "nats://e:1, nats://f:2", "NATS_USER": "u", "NATS_PASSWORD": "p"}
    assert connection_options(Nats(), environment) == {
        "nats.servers": "nats://e:1,nats://f:2",
        "nats.user": "u",
        "nats.password": "p",
    }


def test_credentials_of_the_file_are_not_mixed_with_the_environment() -> None:
    options = connection_options(
        Nats(servers=SERVERS, token_env="MY_TOKEN"), {"MY_TOKEN": "t", "NATS_USER": "u", "NATS_PASSWORD": "p"}
    )
    assert options == {"nats.servers": ",".join(SERVERS), "nats.token": "t"}


@pytest.mark.parametrize(
    ("nats", "text"),
    [
        (Nats(), r"\"servers\" is missing, and so is NATS_URL"),
        (Nats(servers=SERVERS, user="u", token_env="T"), "a user and a token; one is enough"),
        (Nats(servers=SERVERS, password_env="P"), 'the key "user" is missing'),
        (Nats(servers=SERVERS, user="u", password_env="P"), "P is not in the environment"),
        (Nats(servers=SERVERS, user="u", password_env="P", password_file="f"), '"password_file" and'),
        (Nats(servers=SERVERS, token_file="/none"), '"token_file": /none: No such file'),
        (Nats(servers=SERVERS, creds="/none"), '"creds": /none: no such file'),
    ],
)
def test_a_connection_that_cannot_be_is_explained(nats: Nats, text: str) -> None:
    with pytest.raises(ConnectionSettingsError, match=text):
        connection_options(nats, {})
