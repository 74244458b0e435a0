"""Logins of every kind that NATS knows, and those refused before anything is sent."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from millstream.base.nkeys import verify
from millstream.link.errors import (
    AuthorizationViolation,
    BadLinkOptions,
    LinkApiError,
    NotConnected,
    ProtocolViolation,
)
from millstream.link.login import (
    ServerInfo,
    connect_frames,
    load_credentials,
    new_inbox,
    read_info,
    refusal,
    tls_context,
    wants_tls,
)
from millstream.link.options import LinkOptions, LinkTlsOptions, ServerAddress, parse_servers
from millstream.link.servers import ServerPool

SEED = "SUAAAAICAMCAKBQHBAEQUCYMBUHA6EARCIJRIFIWC4MBSGQ3DQOR4H776Y"
HERE = ServerAddress("127.0.0.1")
INFO = ServerInfo(nonce="abc")


def connect_fields(options: LinkOptions, server: ServerAddress = HERE) -> dict[str, Any]:
    frames = connect_frames(options, server, INFO)
    assert frames.startswith(b"CONNECT {")
    assert frames.endswith(b"}\r\nPING\r\n")
    fields: dict[str, Any] = json.loads(frames[len("CONNECT ") : -len("\r\nPING\r\n")])
    return fields


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nats://a:1", ServerAddress("a", 1)),
        ("a", ServerAddress("a", 4222)),
        ("a:99", ServerAddress("a", 99)),
        ("tls://a", ServerAddress("a", 4222, tls=True)),
        ("nats://[::1]:5", ServerAddress("::1", 5)),
        ("nats://joe:p%40ss@a", ServerAddress("a", 4222, user="joe", password="p@ss")),
        ("nats://tok@a", ServerAddress("a", 4222, user="tok")),
    ],
)
def test_addresses(text: str, expected: ServerAddress) -> None:
    assert ServerAddress.parse(text) == expected


@pytest.mark.parametrize("text", ["ws://a", "http://a", "nats://", "nats://a:port", "nats://secret:word@a:x"])
def test_what_is_no_address_is_refused_without_showing_secrets(text: str) -> None:
    with pytest.raises(BadLinkOptions) as caught:
        ServerAddress.parse(text)
    assert "word" not in str(caught.value)


def test_a_list_of_servers_may_be_a_text() -> None:
    assert [str(server) for server in parse_servers("nats://a, b:1,,")] == ["a:4222", "b:1"]
    assert [str(server) for server in parse_servers(["a", "nats://[::1]"])] == ["a:4222", "[::1]:4222"]


@pytest.mark.parametrize(
    "fields",
    [
        {"servers": ()},
        {"user": "a", "token": "b"},
        {"nkey_seed": SEED, "creds_file": "x"},
        {"password": "b"},
        {"creds_file": "x", "creds_text": "y"},
        {"domain": "a", "api_prefix": "b"},
        {"inbox_prefix": "a b"},
        {"inbox_prefix": "a.*"},
        {"api_prefix": ".a"},
    ],
)
def test_contradictions_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(BadLinkOptions):
        LinkOptions(**fields)


def test_a_key_without_a_certificate_is_refused() -> None:
    with pytest.raises(BadLinkOptions):
        LinkTlsOptions(key_file="k")


def test_options_never_show_a_secret_and_can_be_pickled() -> None:
    for options in (
        LinkOptions(user="joe", password="hush"),
        LinkOptions(token="hush"),
        LinkOptions(nkey_seed="hush"),
        LinkOptions(creds_text="hush"),
        LinkOptions(servers=parse_servers("nats://joe:hush@a")),
    ):
        assert "hush" not in repr(options)
        assert pickle.loads(pickle.dumps(options)) == options


def test_credentials_never_show_a_secret() -> None:
    assert "hush" not in repr(load_credentials(LinkOptions(token="hush"), HERE))


@pytest.mark.parametrize(
    ("options", "server", "expected"),
    [
        (LinkOptions(), HERE, {}),
        (LinkOptions(user="joe", password="x"), HERE, {"user": "joe", "pass": "x"}),
        (LinkOptions(token="t"), HERE, {"auth_token": "t"}),
        (LinkOptions(), ServerAddress("a", user="joe", password="x"), {"user": "joe", "pass": "x"}),
        (LinkOptions(), ServerAddress("a", user="t"), {"auth_token": "t"}),
        (LinkOptions(token="t"), ServerAddress("a", user="joe", password="x"), {"auth_token": "t"}),
    ],
)
def test_connect_says_who_we_are(
    options: LinkOptions, server: ServerAddress, expected: dict[str, str]
) -> None:
    fields = connect_fields(options, server)
    assert {name: fields.get(name) for name in ("user", "pass", "auth_token", "nkey", "jwt", "sig")} == {
        **dict.fromkeys(("user", "pass", "auth_token", "nkey", "jwt", "sig")),
        **expected,
    }
    assert fields["headers"] is fields["no_responders"] is True


def test_a_seed_signs_the_nonce() -> None:
    import base64

    fields = connect_fields(LinkOptions(nkey_seed=SEED))
    assert verify(fields["nkey"], base64.urlsafe_b64decode(fields["sig"] + "=="), b"abc")


def test_credentials_send_the_token_of_the_file_and_sign(tmp_path: Path) -> None:
    file = tmp_path / "user.creds"
    file.write_text(
        "-----BEGIN NATS USER JWT-----\na.b.c\n------END NATS USER JWT------\n"
        f"-----BEGIN USER NKEY SEED-----\n{SEED}\n------END USER NKEY SEED------\n"
    )
    fields = connect_fields(LinkOptions(creds_file=str(file)))
    assert fields["jwt"] == "a.b.c"
    assert "sig" in fields
    assert "nkey" not in fields
    assert connect_fields(LinkOptions(creds_text=file.read_text()))["jwt"] == "a.b.c"


def test_bad_credentials_name_the_file_and_not_its_content(tmp_path: Path) -> None:
    file = tmp_path / "user.creds"
    with pytest.raises(BadLinkOptions, match=r"user\.creds: No such file or directory; check the path"):
        connect_fields(LinkOptions(creds_file=str(file)))
    file.write_text("hush")
    with pytest.raises(BadLinkOptions, match=r"user\.creds cannot be used: there is no user seed") as caught:
        connect_fields(LinkOptions(creds_file=str(file)))
    assert "hush" not in str(caught.value)
    with pytest.raises(BadLinkOptions, match="nkey seed cannot be used") as caught:
        connect_fields(LinkOptions(nkey_seed="SUhush"))
    assert "hush" not in str(caught.value)


def test_tls_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadLinkOptions, match="cannot read the authorities in '/nowhere': No such file"):
        tls_context(LinkOptions(tls=LinkTlsOptions(ca_file="/nowhere")))
    (tmp_path / "ca.pem").write_text("x")
    with pytest.raises(BadLinkOptions, match="holds no certificate in PEM"):
        tls_context(LinkOptions(tls=LinkTlsOptions(ca_file=str(tmp_path / "ca.pem"))))


def test_tls_is_used_when_either_side_wants_it_and_asked_for_in_vain_is_an_error() -> None:
    plain, asking = LinkOptions(), LinkOptions(tls=LinkTlsOptions())
    assert not wants_tls(plain, HERE, ServerInfo())
    assert not wants_tls(plain, HERE, ServerInfo(tls_available=True))
    assert wants_tls(plain, HERE, ServerInfo(tls_required=True))
    assert wants_tls(asking, HERE, ServerInfo(tls_available=True))
    assert wants_tls(plain, ServerAddress("a", tls=True), ServerInfo(tls_required=True))
    with pytest.raises(NotConnected, match="does not offer"):
        wants_tls(asking, HERE, ServerInfo())


def test_an_info_that_is_no_json_is_a_violation() -> None:
    assert read_info(b'{"max_payload":5,"unknown":1}').max_payload == 5
    for bad in (b"", b"[]", b"{", b'{"max_payload":"x"}'):
        with pytest.raises(ProtocolViolation):
            read_info(bad)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b"'Authorization Violation'", AuthorizationViolation),
        (b"'User Authentication Expired'", AuthorizationViolation),
        (b"'Authentication Timeout'", AuthorizationViolation),
        (b"'Maximum Connections Exceeded'", NotConnected),
    ],
)
def test_refusals_name_the_server_and_the_cause(line: bytes, kind: type[NotConnected]) -> None:
    error = refusal(HERE, line, LinkOptions(user="joe"))
    assert type(error) is kind
    assert "127.0.0.1:4222" in str(error)
    assert line.strip(b"'").decode() in str(error)


def test_who_gave_no_credentials_is_told_that_they_are_wanted() -> None:
    line = b"'Authorization Violation'"
    assert "none were given" in str(refusal(HERE, line, LinkOptions()))
    assert "refused the credentials" in str(refusal(ServerAddress("a", user="joe"), line, LinkOptions()))


def test_servers_of_the_cluster_follow_our_own_and_get_their_credentials() -> None:
    options = LinkOptions(servers=parse_servers("tls://joe:x@a:1,b:2"))
    told = ServerInfo(connect_urls=["b:2", "c:3", "[::1]:4", "ws://no"])
    pool = ServerPool(options)
    assert pool.known() == list(options.servers)
    pool.learn(told)
    assert [str(server) for server in pool.known()] == ["a:1", "b:2", "c:3", "[::1]:4"]
    assert pool.known()[2] == ServerAddress("c", 3, True, "joe", "x")
    pool.learn(ServerInfo(connect_urls=["d:5"]))
    assert [str(server) for server in pool.known()] == ["a:1", "b:2", "d:5"]
    pool.learn(ServerInfo())  # says nothing
    assert len(pool.known()) == 3


def test_inboxes_differ() -> None:
    options = LinkOptions(inbox_prefix="_MINE")
    assert new_inbox(options) != new_inbox(options)
    assert new_inbox(options).startswith("_MINE.")


@pytest.mark.parametrize(
    ("fields", "api"), [({}, "$JS.API"), ({"domain": "hub"}, "$JS.hub.API"), ({"api_prefix": "js"}, "js")]
)
def test_the_prefix_of_the_api(fields: dict[str, str], api: str) -> None:
    assert LinkOptions(**fields).api == api  # type: ignore[arg-type]


def test_refusals_of_the_api_survive_pickling() -> None:
    error = pickle.loads(pickle.dumps(LinkApiError(503, 10008, "later", "STREAM.INFO.A")))
    assert (error.code, error.err_code, error.may_pass) == (503, 10008, True)
    assert str(error) == "STREAM.INFO.A: later (10008)"
