"""`[nats]` becomes options of the data source; secrets come from files and variables."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from millstream.spark.jobs.settings import Nats
from millstream.spark.option_table import OPTIONS
from millstream.spark.pipeline.connection import ConnectionSettingsError, connection_options


def table(**keys: Any) -> Any:
    return msgspec.convert(keys, Nats)


SERVERS = ["nats://a:4222", "nats://b:4222"]


def test_every_key_becomes_an_option_that_the_source_knows(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("s3cret\n")
    nats = table(
        servers=SERVERS,
        user="spark",
        password_file=str(secret),
        tls={"ca": "ca.pem", "cert": "c.pem", "key": "k.pem", "first": True},
        api_prefix="JS.hub",
        inbox_prefix="_IN",
        connect_timeout="2s",
    )
    options = connection_options(nats, {})
    assert options is not None
    assert options == {
        "nats.servers": "nats://a:4222,nats://b:4222",
        "nats.user": "spark",
        "nats.password": "s3cret",
        "nats.tls.ca": "ca.pem",
        "nats.tls.cert": "c.pem",
        "nats.tls.key": "k.pem",
        "nats.tls.first": "true",
        "nats.apiPrefix": "JS.hub",
        "nats.inboxPrefix": "_IN",
        "nats.connectTimeout": "2s",
    }
    assert set(options) <= {option.name for option in OPTIONS}


def test_what_the_file_leaves_out_comes_from_the_environment() -> None:
    environment = {"NATS_URL": "nats://e:1, nats://f:2", "NATS_USER": "u", "NATS_PASSWORD": "p"}
    assert connection_options(table(), environment) == {
        "nats.servers": "nats://e:1,nats://f:2",
        "nats.user": "u",
        "nats.password": "p",
    }


def test_credentials_of_the_file_are_not_mixed_with_the_environment() -> None:
    options = connection_options(
        table(servers=SERVERS, token_env="MY_TOKEN"),
        {"MY_TOKEN": "t", "NATS_USER": "u", "NATS_PASSWORD": "p"},
    )
    assert options == {"nats.servers": ",".join(SERVERS), "nats.token": "t"}


@pytest.mark.parametrize(
    ("nats", "text"),
    [
        (
            table(servers=SERVERS, user="u", token_env="T"),
            r'\[nats\] give one way to log in, not key "user" and key "token_env"',
        ),
        (table(servers=SERVERS, password_env="P"), 'key "password_env" needs a user'),
        (
            table(servers=SERVERS, user="u", password_env="P"),
            'key "password_env": P is not in the environment',
        ),
        (
            table(servers=SERVERS, user="u", password_env="P", password_file="f"),
            'once, not as key "password_file" and key "password_env"',
        ),
        (table(servers=SERVERS, token_file="/none"), 'key "token_file": cannot read /none: No such file'),
        (table(servers=SERVERS, creds="/none"), "cannot read the credentials in /none: No such file"),
    ],
)
def test_a_connection_that_cannot_be_is_explained(nats: Any, text: str) -> None:
    with pytest.raises(ConnectionSettingsError, match=text):
        connection_options(nats, {"T": "t"} | ({"P": "p"} if "P is not" not in text else {}))


def test_nobody_says_where() -> None:
    assert connection_options(table(), {"NATS_USER": "u"}) is None


def test_a_context_is_spelt_out(tmp_path: Path) -> None:
    folder = tmp_path / "nats" / "context"
    folder.mkdir(parents=True)
    (folder / "ours.json").write_text('{"url": "nats://c:1", "token": "t"}')
    environment = {"XDG_CONFIG_HOME": str(tmp_path)}
    expected = {"nats.servers": "nats://c:1", "nats.token": "t"}
    assert connection_options(table(context="ours"), environment) == expected
    assert connection_options(table(), environment | {"NATS_CONTEXT": "ours"}) == expected


def test_the_seed_takes_the_place_of_its_file(tmp_path: Path) -> None:
    seed = "SUAAAAICAMCAKBQHBAEQUCYMBUHA6EARCIJRIFIWC4MBSGQ3DQOR4H776Y"
    (tmp_path / "user.nk").write_text(f"{seed}\n")
    options = connection_options(table(servers="a", nkey_file=str(tmp_path / "user.nk")), {})
    assert options == {"nats.servers": "nats://a:4222", "nats.nkey.secret": seed}
