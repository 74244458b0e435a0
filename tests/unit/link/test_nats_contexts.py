"""Contexts as the `nats` tool writes them: what they say, which one counts, and what is wrong with them."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from millstream.link.errors import BadLinkOptions
from millstream.link.layers import Layer
from millstream.link.options import LinkOptions, LinkTlsOptions
from millstream.link.sources import link_options, spark_layer

# What `nats context save` writes: every key, most of them empty.
TEXTS = (
    "description url socks_proxy token user password creds nkey cert key ca nsc jetstream_domain "
    "jetstream_api_prefix jetstream_event_prefix inbox_prefix user_jwt user_seed color_scheme "
    "windows_cert_store windows_cert_match_by windows_cert_match"
)
EMPTY = {**dict.fromkeys(TEXTS.split(), ""), "tls_first": False, "windows_ca_certs_match": None}


class Contexts:
    """A folder of contexts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "nats"
        (self.folder / "context").mkdir(parents=True)
        self.environment = {"XDG_CONFIG_HOME": str(folder), "HOME": "/nowhere"}

    def save(self, name: str, **keys: Any) -> Path:
        path = self.folder / "context" / f"{name}.json"
        path.write_text(json.dumps({**EMPTY, **keys}, indent=2))
        return path

    def select(self, name: str) -> None:
        (self.folder / "context.txt").write_text(f"{name}\n")

    def options(self, *layers: dict[str, str], selected: bool = False) -> LinkOptions:
        return link_options(*map(spark_layer, layers), selected=selected, environment=self.environment)


@pytest.fixture
def contexts(tmp_path: Path) -> Contexts:
    return Contexts(tmp_path)


def test_every_key_that_says_how_to_connect_counts(contexts: Contexts) -> None:
    contexts.save(
        "all",
        description="ours", url="nats://a:1, nats://b:2", user="u", password="p", ca="/ca", cert="/cert",
        key="/key", tls_first=True, inbox_prefix="_IN", jetstream_domain="hub", color_scheme="red",
    )  # fmt: skip
    found = contexts.options({"nats.context": "all"})
    assert str(found) == "nats://a:1, nats://b:2"
    assert (found.user, found.password, found.inbox_prefix, found.domain) == ("u", "p", "_IN", "hub")
    assert found.tls == LinkTlsOptions("/ca", "/cert", "/key", first=True)
    assert found.context == "all"


@pytest.mark.parametrize(
    ("key", "value", "path"),
    [
        ("token", "t", "token"),
        ("creds", "/c", "creds_file"),
        ("nkey", "/n", "nkey_file"),
        ("user_seed", "s", "nkey_seed"),
        ("user_jwt", "j", "jwt"),
        ("jetstream_api_prefix", "x", "api_prefix"),
    ],
)
def test_single_keys(contexts: Contexts, key: str, value: str, path: str) -> None:
    contexts.save("one", **{key: value})
    assert getattr(contexts.options({"nats.context": "one"}), path) == value


def test_options_that_are_given_are_stronger(contexts: Contexts) -> None:
    contexts.save("one", url="nats://a:1", user="u", password="p", inbox_prefix="_IN")
    found = contexts.options({"nats.servers": "b"}, {"nats.context": "one", "nats.token": "t"})
    assert (str(found), found.token, found.user, found.inbox_prefix) == ("nats://b:4222", "t", "", "_IN")


def test_the_selected_context_counts_where_nothing_else_says_where(contexts: Contexts) -> None:
    contexts.save("one", url="nats://a:1", token="t")
    contexts.save("two", url="nats://b:1")
    contexts.select("one")
    assert str(contexts.options()) == "nats://127.0.0.1:4222"
    assert str(contexts.options(selected=True)) == "nats://a:1"
    assert str(contexts.options({"nats.context": "two"}, selected=True)) == "nats://b:1"
    elsewhere = contexts.options({"nats.servers": "c"}, selected=True)
    assert (str(elsewhere), elsewhere.token) == ("nats://c:4222", "")


def test_nothing_is_selected(contexts: Contexts, tmp_path: Path) -> None:
    assert contexts.options(selected=True) == LinkOptions()
    contexts.select("")
    assert contexts.options(selected=True) == LinkOptions()
    assert link_options(selected=True, environment={"HOME": str(tmp_path / "none")}) == LinkOptions()


def test_without_the_variable_the_folder_is_in_the_home(tmp_path: Path) -> None:
    contexts = Contexts(tmp_path / ".config")
    contexts.save("one", url="nats://a:1")
    environment = {"HOME": str(tmp_path)}
    assert str(link_options(spark_layer({"nats.context": "one"}), environment=environment)) == "nats://a:1"


def test_a_context_may_be_the_path_of_a_file(contexts: Contexts) -> None:
    path = contexts.save("one", url="nats://a:1")
    assert str(contexts.options({"nats.context": str(path)})) == "nats://a:1"


def test_references_are_followed(contexts: Contexts, tmp_path: Path) -> None:
    contexts.environment |= {"WORD": "secret", "FOLDER": "/keys"}
    (tmp_path / "token").write_text("from-file\n")
    text = base64.b64encode(b"-----BEGIN\n").decode()
    for keys, path, expected in (
        ({"user": "u", "password": "env://WORD"}, "password", "secret"),
        ({"token": f"file://{tmp_path / 'token'}"}, "token", "from-file"),
        ({"creds": f"data:;base64,{text}"}, "creds_text", "-----BEGIN"),
        ({"creds": "file:///c"}, "creds_file", "/c"),
        ({"nkey": "${FOLDER}/$WORD.nk"}, "nkey_file", "/keys/secret.nk"),
        ({"token": "a:b"}, "token", "a:b"),
    ):
        contexts.save("one", **keys)
        assert getattr(contexts.options({"nats.context": "one"}), path) == expected


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"url": 5}, r'key "url" of .*one\.json is a text'),
        ({"tls_first": "yes"}, r'key "tls_first" of .*one\.json is true or false'),
        ({"url": "http://h"}, "begins with nats:// or tls://"),
        ({"user": "u", "creds": "c"}, r'one way to log in, not key "user" of .*one\.json and key "creds"'),
        ({"password": "p"}, r'key "password" of .*one\.json needs a user'),
        ({"socks_proxy": "h:1"}, r'one\.json: key "socks_proxy" is not supported'),
        ({"nsc": "nsc://o/a/u"}, r'one\.json: key "nsc" is not supported'),
        ({"creds": "nsc://o/a/u"}, r'key "creds" of .*one\.json: nsc:// takes another program'),
        ({"token": "op://a/b"}, r'key "token" of .*one\.json: op:// takes another program'),
        ({"token": "env://NONE"}, r'key "token" of .*one\.json: env://NONE is not in the environment'),
        ({"token": "file:///none"}, r'key "token" of .*one\.json: cannot read /none'),
        ({"creds": "data:,plain"}, r'key "creds" of .*one\.json: the data is no text in base64'),
        ({"ca": "env://NONE"}, r'key "ca" of .*one\.json is a path'),
    ],
)
def test_what_cannot_be_used_is_named_with_file_and_key(
    contexts: Contexts, keys: dict[str, Any], text: str
) -> None:
    contexts.save("one", **keys)
    with pytest.raises(BadLinkOptions, match=text):
        contexts.options({"nats.context": "one"})


@pytest.mark.parametrize(
    ("data", "text"),
    [(b"{", "not JSON"), (b"[]", "is an object"), (b"\xff", "not JSON"), (b"[" * 100_000, "not JSON")],
)  # fmt: skip
def test_files_that_are_no_contexts_are_named(contexts: Contexts, data: bytes, text: str) -> None:
    contexts.save("bad").write_bytes(data)
    with pytest.raises(BadLinkOptions, match=rf"bad\.json.*{text}"):
        contexts.options({"nats.context": "bad"})


def test_a_context_that_is_not_there_is_named(contexts: Contexts) -> None:
    contexts.save("orders")
    with pytest.raises(
        BadLinkOptions, match=r'no NATS context "order": .*order\.json; did you mean "orders"'
    ):
        contexts.options({"nats.context": "order"})
    for name in ("../x", "a/b", "..", "a\\b"):
        with pytest.raises(BadLinkOptions, match="no NATS context can have the name"):
            contexts.options({"nats.context": name})


def test_a_selected_context_that_is_gone_is_an_error(contexts: Contexts) -> None:
    contexts.select("gone")
    with pytest.raises(BadLinkOptions, match='no NATS context "gone"'):
        contexts.options(selected=True)


def test_an_empty_layer_says_nothing() -> None:
    assert link_options(Layer(), environment={}) == LinkOptions()
