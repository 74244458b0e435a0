"""Options of a connection: declared once, taken from layers, never shown when they are secret."""

import dataclasses
import pickle
from collections.abc import Mapping

import msgspec
import pytest

from millstream.link.errors import BadLinkOptions
from millstream.link.layers import Layer
from millstream.link.options import (
    FIELDS,
    LinkOptions,
    LinkTlsOptions,
    ServerAddress,
    parse_servers,
    replace_values,
    value_of,
)
from millstream.link.sections import section_keys, section_layer, section_struct
from millstream.link.sources import environment_layer, link_options, spark_layer, spark_options

HIDDEN = "hidden-value"
SURFACES = ("flags", "variable", "spark", "key", "context")


def from_spark(*layers: Mapping[str, str]) -> LinkOptions:
    return link_options(*map(spark_layer, layers), environment={})


def test_no_name_is_given_twice() -> None:
    for surface in SURFACES:
        names = [getattr(each.names, surface) for each in FIELDS]
        flat = [name for one in names for name in ([one] if isinstance(one, str) else one) if name]
        assert len(flat) == len(set(flat))
    keys = [key for key, _ in section_keys(secrets=True)]
    assert len(keys) == len(set(keys))


def test_every_option_can_be_given_somewhere_and_says_what_it_is() -> None:
    for each in FIELDS:
        assert each.names.help
        assert not each.names.help.endswith(".")
        assert any(getattr(each.names, surface) for surface in SURFACES)


def test_secrets_are_shown_nowhere() -> None:
    for each in FIELDS:
        if each.names.secret:
            given = {"user": "u"} if each.path == "password" else {}
            given[each.path] = HIDDEN
            options = replace_values(LinkOptions(), given)
            layer = Layer({each.path: HIDDEN})
            assert HIDDEN not in repr(options) + str(options) + repr(layer)
    address = LinkOptions(servers=parse_servers(f"nats://u:{HIDDEN}@h:1, tls://{HIDDEN}@h"))
    assert HIDDEN not in repr(address) + str(address)
    assert str(address) == "nats://h:1, tls://h:4222"


def test_secrets_have_names_that_spark_hides() -> None:
    """Spark redacts keys by this expression, see `spark.redaction.regex`."""
    for each in FIELDS:
        if each.names.secret:
            assert any(word in each.names.spark for word in ("secret", "password", "token"))


def test_options_are_pickled_compared_and_used_as_keys() -> None:
    options = LinkOptions(user="u", password="p", tls=LinkTlsOptions(ca_file="c"))
    copy = pickle.loads(pickle.dumps(options))
    assert copy == options
    assert hash(copy) == hash(options)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"nats.user": "u", "nats.token": "t"}, "one way to log in, not option nats.user and option "),
        ({"nats.creds": "f", "nats.nkey": "g"}, "one way to log in, not option nats.creds and option "),
        ({"nats.password": "p"}, "option nats.password needs a user"),
        ({"nats.tls.key": "k"}, "option nats.tls.key needs the certificate"),
        ({"nats.jsDomain": "d", "nats.apiPrefix": "p"}, "give one name of the JetStream API, not option "),
        ({"nats.inboxPrefix": "a b"}, "option nats.inboxPrefix is no plain subject"),
        ({"nats.servers": "ws://h"}, "begins with nats:// or tls://"),
        ({"nats.connectTimeout": "3 fortnights"}, "nats.connectTimeout has a unit of time that is not known"),
        ({"nats.connectTimeout": "-1s"}, "option nats.connectTimeout is a time of at most a day"),
        ({"nats.tls.first": "maybe"}, "option nats.tls.first is true or false, not 'maybe'"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_said_in_the_words_of_whoever_gave_it(
    given: dict[str, str], text: str
) -> None:
    with pytest.raises(BadLinkOptions, match=text):
        from_spark(given)


def test_the_same_contradiction_has_the_same_words_in_a_program() -> None:
    with pytest.raises(BadLinkOptions, match=r"^give one way to log in, not user and token$"):
        LinkOptions(user="u", token="t")


@pytest.mark.parametrize("text", ["a, b:1", " a ,b:1,", "a,b:1"])
def test_blanks_between_addresses_are_left_out(text: str) -> None:
    expected = (ServerAddress("a"), ServerAddress("b", 1))
    assert link_options(environment_layer({"NATS_URL": text}), environment={}).servers == expected


def test_bytes_that_are_no_text_are_refused_before_a_server_sees_them() -> None:
    environment = {"NATS_USER": "u", "NATS_PASSWORD": "\udcff", "NATS_CA": "/\udcff"}
    with pytest.raises(BadLinkOptions, match=r"^NATS_PASSWORD cannot be read$"):
        environment_layer(environment)
    del environment["NATS_PASSWORD"]
    tls = link_options(environment_layer(environment), environment={}).tls
    assert tls == LinkTlsOptions(ca_file="/\udcff")


def test_zero_seconds_are_no_limit() -> None:
    assert from_spark({"nats.connectTimeout": "0"}).connect_timeout_s == 86_400


# -- layers ---------------------------------------------------------------------------------------------


def test_the_strongest_layer_counts_for_each_option() -> None:
    options = from_spark({"nats.servers": "a"}, {"nats.servers": "b", "nats.inboxPrefix": "_IN."}, {})
    assert (str(options), options.inbox_prefix) == ("nats://a:4222", "_IN")


def test_defaults_of_a_program_are_weaker_than_everything() -> None:
    defaults = {"connect_timeout_s": 30.0, "request_timeout_s": 5.0}
    options = link_options(spark_layer({"nats.requestTimeout": "1m"}), environment={}, defaults=defaults)
    assert (options.connect_timeout_s, options.request_timeout_s) == (30, 60)


@pytest.mark.parametrize(
    ("strong", "weak", "expected"),
    [
        ({"nats.token": "t"}, {"nats.user": "u", "nats.password": "p"}, {"token": "t"}),
        ({"nats.user": "u"}, {"nats.password": "p"}, {"user": "u", "password": "p"}),
        ({"nats.user": "u"}, {"nats.user": "u", "nats.password": "p"}, {"user": "u", "password": "p"}),
        ({"nats.user": "u"}, {"nats.user": "other", "nats.password": "p"}, {"user": "u"}),
        ({"nats.servers": "nats://u:p@h"}, {"nats.token": "t"}, {}),
        ({"nats.servers": "h"}, {"nats.token": "t"}, {"token": "t"}),
        ({"nats.jsDomain": "d"}, {"nats.apiPrefix": "p"}, {"domain": "d"}),
    ],
)
def test_ways_that_exclude_each_other_come_from_one_layer(
    strong: dict[str, str], weak: dict[str, str], expected: dict[str, str]
) -> None:
    found = from_spark(strong, weak)
    paths = ("user", "password", "token", "domain", "api_prefix")
    assert {path: value_of(found, path) for path in paths if value_of(found, path)} == expected


def test_options_survive_the_way_through_options_of_spark() -> None:
    options = LinkOptions(
        servers=parse_servers("nats://a:1,tls://jo%2Fe:p%40ss@b"),
        jwt="j",
        nkey_seed="s",
        tls=LinkTlsOptions(ca_file="ca", first=True),
        api_prefix="x",
        connect_timeout_s=1.5,
    )
    assert from_spark(spark_options(options)) == options
    encrypted = from_spark(spark_options(LinkOptions(tls=LinkTlsOptions())))
    assert encrypted.servers == (ServerAddress("127.0.0.1", tls=True),)


def test_files_can_be_looked_for_elsewhere() -> None:
    options = LinkOptions(creds_file="a", tls=LinkTlsOptions(ca_file="b"))
    moved = options.with_files(lambda path: f"/there/{path}")
    assert (moved.creds_file, moved.tls) == ("/there/a", LinkTlsOptions(ca_file="/there/b"))
    assert LinkOptions().with_files(str.upper) == LinkOptions()


# -- tables of files ------------------------------------------------------------------------------------


def section(document: Mapping[str, object], *, secrets: bool = True) -> LinkOptions:
    table = msgspec.convert(document, section_struct("Nats", secrets=secrets))
    return link_options(section_layer(table, {"WORD": "w"}), environment={})


def test_keys_old_and_new_mean_the_same() -> None:
    new = {"servers": ["a", "b"], "creds": "f", "tls": {"ca": "c"}, "connect_timeout": "3s"}
    old = {
        "server_uri": "a, b",
        "credentials_file": "f",
        "tls": {"authorities": "c"},
        "connect_timeout_sec": 3,
    }
    assert section(new) == section(old)
    with pytest.raises(BadLinkOptions, match=r'give .* once, not as key "servers" and key "server_uri"'):
        section({"servers": "a", "server_uri": "b"})


def test_a_table_of_tls_switches_it_on() -> None:
    assert section({"tls": {}}).tls == LinkTlsOptions()
    assert section({}).tls is None


def test_secrets_are_in_files_and_variables() -> None:
    assert section({"user": "u", "password_env": "WORD"}, secrets=False).password == "w"
    with pytest.raises(msgspec.ValidationError, match="password"):
        section({"user": "u", "password": "w"}, secrets=False)
    with pytest.raises(BadLinkOptions, match='key "token_env": NONE is not in the environment'):
        section({"token_env": "NONE"})
    with pytest.raises(BadLinkOptions, match='key "token_file": cannot read /none: '):
        section({"token_file": "/none"})


def test_every_field_that_is_declared_is_a_field() -> None:
    for each in FIELDS:
        assert value_of(dataclasses.replace(LinkOptions(), tls=LinkTlsOptions()), each.path) == each.default
