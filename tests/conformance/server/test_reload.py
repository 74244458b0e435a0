"""Reloading the configuration on SIGHUP: what changes for those who are connected."""

import signal

import bcrypt
import pytest

from tests.kits.conformance.clients import (
    AUTHORIZATION_VIOLATION,
    Dial,
    ServerFactory,
    eventually,
    message,
    monitor,
    publish,
    publish_refused,
    subscribe_refused,
)
from tests.kits.reference import ServerProcess
from tests.kits.wire import WireClient


def users(*entries: str, extra: str = "") -> str:
    return f"authorization {{ users: [ {', '.join(entries)} ] }}\n{extra}"


ALICE = "{ user: alice, password: p }"
BOB = "{ user: bob, password: p }"


def login(join: Dial, server: ServerProcess, user: str) -> WireClient:
    return join(server, user=user, **{"pass": "p"})


def refused(dial: Dial, server: ServerProcess, user: str, password: str = "p") -> bool:
    client = dial(server)
    client.read_info()
    client.send_connect(user=user, **{"pass": password})
    return client.read_until_closed() == AUTHORIZATION_VIOLATION


def test_new_user_may_come_and_old_one_stays(own_server: ServerFactory, join: Dial, dial: Dial) -> None:
    server = own_server(config=users(ALICE))
    alice = login(join, server, "alice")
    assert refused(dial, server, "bob")
    assert server.reload(users(ALICE, BOB))
    assert login(join, server, "bob").round_trip() == b""
    assert alice.round_trip(b"SUB kept 1\r\n" + publish("kept")) == message("kept", 1)


def test_removed_user_is_closed(own_server: ServerFactory, join: Dial, dial: Dial) -> None:
    server = own_server(config=users(ALICE, BOB))
    alice, bob = login(join, server, "alice"), login(join, server, "bob")
    assert server.reload(users(ALICE))
    assert bob.read_until_closed() == b""  # unlike a changed password, this is not told
    assert alice.round_trip() == b""
    assert refused(dial, server, "bob")


def test_changed_password_closes_who_had_the_old(own_server: ServerFactory, join: Dial, dial: Dial) -> None:
    server = own_server(config=users(ALICE))
    alice = login(join, server, "alice")
    assert server.reload(users("{ user: alice, password: new }"))
    assert alice.read_until_closed() == AUTHORIZATION_VIOLATION
    assert refused(dial, server, "alice")
    assert join(server, user="alice", **{"pass": "new"}).round_trip() == b""


def test_permissions_change_for_the_connected(own_server: ServerFactory, join: Dial) -> None:
    server = own_server(config=users(ALICE, BOB))
    alice, bob = login(join, server, "alice"), login(join, server, "bob")
    alice.round_trip(b"SUB good 1\r\nSUB bad 2\r\nSUB bad.queue grp 3\r\n")
    limited = "{ user: alice, password: p, permissions: { publish: good, subscribe: good } }"
    assert server.reload(users(limited, BOB))
    assert sorted(alice.round_trip().split(b"\r\n")) == [
        b"",
        b'-ERR \'Permissions Violation for Subscription to "bad" (sid "2")\'',
        b'-ERR \'Permissions Violation for Subscription to "bad.queue" using queue "grp" (sid "3")\'',
    ]
    assert alice.round_trip(publish("bad") + publish("good")) == publish_refused("bad") + message("good", 1)
    assert alice.round_trip(b"SUB bad 4\r\n") == subscribe_refused("bad")
    assert bob.round_trip(publish("bad")) == b""
    assert alice.round_trip() == b""


def test_permissions_may_be_given_back(own_server: ServerFactory, join: Dial) -> None:
    server = own_server(config=users("{ user: alice, password: p, permissions: { publish: good } }"))
    alice = login(join, server, "alice")
    assert alice.round_trip(publish("bad")) == publish_refused("bad")
    assert server.reload(users(ALICE))
    assert alice.round_trip(publish("bad")) == b""


def test_new_payload_limit_holds_for_all(own_server: ServerFactory, join: Dial) -> None:
    server = own_server(config="max_payload: 2000")
    client = join(server)
    assert server.reload("max_payload: 1000")
    assert join(server).info["max_payload"] == 1000
    assert client.round_trip(publish("foo", b"x" * 1000)) == b""
    client.send(publish("foo", b"x" * 1001))
    assert client.read_until_closed() == b"-ERR 'Maximum Payload Violation'\r\n"


@pytest.mark.parametrize("broken", ["max_payload: {", "wombat: 1", "max_payload: many", "port: 'x'"])
def test_bad_file_changes_nothing(own_server: ServerFactory, join: Dial, dial: Dial, broken: str) -> None:
    server = own_server(config=users(ALICE, extra="max_payload: 2000"))
    alice = login(join, server, "alice")
    assert not server.reload(broken)
    assert alice.round_trip() == b""
    assert login(join, server, "alice").info["max_payload"] == 2000
    assert refused(dial, server, "bob")


def test_switching_authorization_on(own_server: ServerFactory, join: Dial, dial: Dial) -> None:
    server = own_server(config="max_payload: 2000")
    anonymous = join(server)
    assert server.reload("max_payload: 2000\nauthorization { token: secret }")
    assert anonymous.read_until_closed().endswith(AUTHORIZATION_VIOLATION)
    assert join(server, auth_token="secret").round_trip() == b""


def test_fewer_connections(own_server: ServerFactory, join: Dial, dial: Dial) -> None:
    server = own_server(config="max_connections: 5", monitor=True)
    first, second = join(server), join(server)
    assert server.reload("max_connections: 1")
    eventually(lambda: monitor(server, "/varz")["connections"] == 1)
    endings = []
    for client in (first, second):
        client.send(b"PING\r\n")
        endings.append(client.read_frame())
    assert sorted(endings) == [b"-ERR 'maximum connections exceeded'\r\n", b"PONG\r\n"]


def test_accounts_change(own_server: ServerFactory, join: Dial, dial: Dial) -> None:
    one = "accounts { A { users: [ { user: alice, password: p } ] } }"
    two = one.removesuffix("}") + ", B { users: [ { user: bob, password: p } ] } }"
    server = own_server(config=one)
    alice = login(join, server, "alice")
    assert server.reload(two)
    bob = login(join, server, "bob")
    bob.round_trip(b"SUB foo 1\r\n")
    assert alice.round_trip(b"SUB foo 1\r\n" + publish("foo")) == message("foo", 1)
    assert bob.round_trip() == b""
    assert server.reload(one)
    assert bob.read_until_closed() == b""
    assert alice.round_trip(publish("foo")) == message("foo", 1)


def test_mappings_change(own_server: ServerFactory, join: Dial) -> None:
    server = own_server(config="mappings { a: b }")
    client = join(server)
    assert client.round_trip(b"SUB > 1\r\n" + publish("a")) == message("b", 1)
    assert server.reload("mappings { a: c }")
    assert client.round_trip(publish("a")) == message("c", 1)


def test_what_cannot_change_is_refused(own_server: ServerFactory, join: Dial) -> None:
    server = own_server(config='max_payload: 2000, server_name: "one"')
    client = join(server)
    assert not server.reload('max_payload: 1000, server_name: "two"')
    assert client.round_trip() == b""
    assert join(server).info["max_payload"] == 2000


def test_reload_without_a_file_is_harmless(own_server: ServerFactory, join: Dial) -> None:
    server = own_server()
    client = join(server)
    position = server.log_position
    server.signal(signal.SIGHUP)
    server.wait_for_log(r"(?i)reload", after=position)
    assert client.round_trip() == b""


def test_digest_and_time_of_the_configuration(own_server: ServerFactory) -> None:
    server = own_server(config="max_payload: 2000", monitor=True)
    before = monitor(server, "/varz")
    assert server.reload("max_payload: 3000")
    eventually(lambda: monitor(server, "/varz")["max_payload"] == 3000)
    after = monitor(server, "/varz")
    assert after["config_load_time"] > before["config_load_time"]
    assert after["config_digest"] != before["config_digest"]


def bcrypt_users(password: str) -> str:
    secret = bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()
    return users(f'{{ user: alice, password: "{secret}" }}')


def test_changed_bcrypt_password_closes_who_had_the_old(own_server: ServerFactory, join: Dial) -> None:
    server = own_server(config=bcrypt_users("p"))
    alice = login(join, server, "alice")
    assert server.reload(bcrypt_users("new"))
    assert alice.read_until_closed() == AUTHORIZATION_VIOLATION


def test_other_hash_of_the_same_password_is_harmless(own_server: ServerFactory, join: Dial) -> None:
    server = own_server(config=bcrypt_users("p"))
    alice = login(join, server, "alice")
    assert server.reload(bcrypt_users("p"))
    assert alice.round_trip() == b""


@pytest.mark.parametrize("changed", ["password: new", "password: p, timeout: 3"])
def test_the_only_user_is_closed_by_any_change(own_server: ServerFactory, join: Dial, changed: str) -> None:
    server = own_server(config="authorization { user: alice, password: p }")
    alice = login(join, server, "alice")
    assert server.reload(f"authorization {{ user: alice, {changed} }}")
    assert alice.read_until_closed() == b""


def test_user_that_nobody_asked_for_is_closed_by_new_accounts(own_server: ServerFactory, join: Dial) -> None:
    server = own_server(config="mappings { a: b }")
    named, anonymous = login(join, server, "alice"), join(server)
    assert server.reload("mappings { a: c }")
    assert named.read_until_closed() == b""
    assert anonymous.round_trip() == b""
