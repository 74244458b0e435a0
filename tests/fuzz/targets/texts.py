"""Small languages: JSON, durations, times, schedules, keys, numbers, configuration files."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

from millstream.base import nkeys, seeds
from millstream.config.assemble import assemble
from millstream.config.errors import ConfigError, Notes
from millstream.config.options import Overrides
from millstream.config.parser import parse_text
from millstream.config.schema import read_settings
from millstream.golang.duration import format_duration, parse_duration
from millstream.golang.json import JsonKind, Value, read_each, read_one, syntax_error
from millstream.golang.time import format_time, parse_time
from millstream.jetstream.publish.cron import next_due, zone_of
from millstream.jetstream.publish.ttl import parse_ttl
from millstream.jsapi import (
    account_types,
    advisory_types,
    consumer_types,
    publish_types,
    requests,
    responses,
    stream_types,
)
from millstream.jsapi.codec import JsonError, decode_lenient, decode_strict, encode
from millstream.jsapi.go_types import Struct
from millstream.link.contexts import read_context
from millstream.link.fields import is_sendable
from millstream.link.layers import together
from millstream.protocol.ack_subject import read_ack_subject
from tests.kits.paths import GOLDEN

_STRUCTS: tuple[type[Struct], ...] = tuple(
    {
        kind: None
        for module in (
            requests,
            responses,
            stream_types,
            consumer_types,
            account_types,
            advisory_types,
            publish_types,
        )
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Struct) and kind is not Struct
    }
)
JSON_WORDS = (
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b":",
    b",",
    b"null",
    b"true",
    b"\\u0000",
    b"\\ud800",
    b"\\",
    b"-",
    b"1e9",
    b"0.5",
    b"\xff",
    b"{}",
)


def json_seeds() -> Iterator[bytes]:
    for path in sorted((GOLDEN / "jsapi").glob("*.json")):
        yield path.read_bytes()
    yield b'[1,-2.5e3,"\\u00e9\\ud83d\\ude00",null,true,{"a":[[[]]]}] {}'


def _plain(value: Value) -> Any:
    if value.kind is JsonKind.OBJECT:
        return {name: _plain(each) for name, each in value.members}
    if value.kind is JsonKind.ARRAY:
        return [_plain(each) for each in value.items]
    return value.text if value.kind is JsonKind.STRING else json.loads(value.raw)


def check_json(data: bytes) -> Hashable:
    """A text that both Python's reader and ours accept has the same value in both."""
    complaint = syntax_error(data)
    value = read_one(data)
    assert not complaint
    assert [each.raw for each in read_each(data)] == [value.raw]
    if len(data) < 4000:
        try:
            expected = json.loads(data.decode())
        except (ValueError, RecursionError):  # digits beyond Python's limit, bytes that are no UTF-8
            return value.kind, "ours alone"
        if "\\ud" not in data.decode().lower():
            assert _plain(value) == expected
    return value.kind, len(value.items), len(value.members)


def check_structs(data: bytes) -> Hashable:
    """A struct that was read can be written, and reading that gives the same struct."""
    read = []
    kind = _STRUCTS[crc32(data) % len(_STRUCTS)]
    for decode in (decode_strict, decode_lenient):
        try:
            struct: Any = decode(data, kind)
        except JsonError as error:
            read.append(str(error)[:30])
            continue
        again: Any = decode_lenient(encode(struct), kind)
        assert encode(again) == encode(struct), kind
    return kind, *read


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def duration_seeds() -> Iterator[bytes]:
    yield from (
        b"1h30m",
        b"500ms",
        b"1.5s",
        b"-1m",
        b"0",
        b"1h0m0s",
        b"30",
        b"never",
        b"2562047h47m16.854775807s",
        "1µs".encode(),
    )


def check_duration(data: bytes) -> Hashable:
    text = _text(data)
    try:
        parse_ttl(text)
    finally:
        nanoseconds = parse_duration(text)
    assert parse_duration(format_duration(nanoseconds)) == nanoseconds
    return len(format_duration(nanoseconds)), nanoseconds < 0


def time_seeds() -> Iterator[bytes]:
    yield from (
        b"2024-02-29T23:59:59.123456789Z",
        b"0001-01-01T00:00:00Z",
        b"2024-01-01T00:00:00+14:00",
        b"9999-12-31T23:59:59-12:30",
    )


def check_time(data: bytes) -> Hashable:
    moment = parse_time(_text(data))
    assert parse_time(format_time(moment)) == moment
    return len(format_time(moment))


_PATTERNS = (
    "@every 1h", "@at 2024-01-01T00:00:00Z", "0 */5 1-3 * jan mon-fri", "@daily", "* * * * * *",
    "0 0 0 29 2 ?", "@yearly",
)  # fmt: skip


def schedule_seeds() -> Iterator[bytes]:
    for pattern in _PATTERNS:
        for zone in ("", "Europe/Berlin", "UTC"):
            yield f"{pattern}\n{zone}".encode()


def check_schedule(data: bytes) -> Hashable:
    """A schedule is never due in the past."""
    pattern, _, zone = _text(data).partition("\n")
    place = zone_of(zone) if zone else None
    now = 1_700_000_000_000_000_000
    due = next_due(pattern, place, now, now)
    assert due.time > now or not due.repeats
    return pattern[:6] if pattern.startswith("@") else "", place is None, due.repeats


SCHEDULE_WORDS = (
    b"@every ",
    b"@at ",
    b"@hourly",
    b"*",
    b"/",
    b"-",
    b",",
    b"?",
    b"mon",
    b"dec",
    b"59",
    b"\n",
    b"Etc/../UTC",
    b"Europe/",
    b"0 0 0 31 2 *",
)


def key_seeds() -> Iterator[bytes]:
    for kind in nkeys.KeyKind:
        seed = seeds.make_seed(kind, bytes(range(32)))
        yield seed.encode()
        yield seeds.Signer(seed).public_key.encode()
    jwt = "-----BEGIN NATS USER JWT-----\neyJ0.eyJq.c2ln\n------END NATS USER JWT------\n"
    yield f"{jwt}\n-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n".encode()


def check_key(data: bytes) -> Hashable:
    text = _text(data)
    done: list[str] = []
    actions: tuple[Callable[[], object], ...] = (
        lambda: nkeys.encode(*nkeys.decode(text)) == text,
        lambda: nkeys.verify(text, data[:64], b"nonce"),
        lambda: nkeys.check_user_key(text),
        lambda: seeds.Signer(text).sign(data),
        lambda: seeds.read_credentials(text),
    )
    for action in actions:
        try:
            answer = action()
            done.append(str(answer) if isinstance(answer, bool) else "")
        except nkeys.NkeyError as error:
            done.append(str(error)[:30])
    return tuple(done)


def ack_seeds() -> Iterator[bytes]:
    yield b"$JS.ACK.S.C.1.2.3.1700000000000000000.0"
    yield b"$JS.ACK.hub.ABCDEFGH.S.C.1.2.3.1700000000000000000.0.x"


def check_ack(data: bytes) -> Hashable:
    found = read_ack_subject(_text(data))
    return found is None, found is not None and len(found.short_form)


def config_seeds() -> Iterator[bytes]:
    for path in sorted((GOLDEN / "config").glob("*.conf")):
        yield path.read_bytes()
    yield (
        b'port: 4222\nhttp: "127.0.0.1:8222"\nmax_payload: 1MB\nmax_pending = 64mb\nwrite_deadline: "2s"\n'
        b"authorization { users = [ {user: a, password: $PASS, permissions: {publish: [a.>],"
        b" subscribe: {deny: b}}} ] }\n"
        b"jetstream { store_dir: /tmp/x, max_mem: 1G, max_file: 10G, domain: hub }\n"
        b"accounts { A { users: [{user: x, password: y}], exports: [{stream: s.>}] },"
        b" B { imports: [{stream: {account: A, subject: s.>}}] } }\n"
        b"mappings { a.*: [{destination: b.$1, weight: 50%}] }\nwebsocket { port: 8080, no_tls: true }\n"
    )


CONFIG_WORDS = (
    b"{", b"}", b"[", b"]", b"=", b":", b"#", b"//", b"include ", b"'", b'"', b"\\x", b"(", b")", b"$PASS",
    b"$", b"users", b"tls", b"true",
    b"1k", b"1Gi", b"2024-01-01T00:00:00Z", b"127.0.0.1:80", b"accounts", b"jetstream", b"max_payload: ",
    b"\n",
)  # fmt: skip


def check_config(data: bytes) -> Hashable:
    """A text becomes options, or an error that names the place."""
    notes = Notes()
    try:
        root = parse_text(_text(data), "fuzz.conf", {"PASS": "secret", "LOOP": "$LOOP"})
        settings = read_settings(root, notes)
        notes.check()
        assemble(settings, Overrides(), notes)
        notes.check()
    except ConfigError as error:
        return len(notes.errors), error.reason[:24]
    return len(notes.warnings), tuple(sorted(root))


def context_seeds() -> Iterator[bytes]:
    yield b'{"url": "nats://a:1, tls://u:p@b", "user": "u", "password": "env://PASS", "tls_first": true}'
    yield b'{"creds": "data:;base64,LS0t", "ca": "~/ca", "inbox_prefix": "_IN.", "jetstream_domain": "hub"}'
    yield b'{"user_jwt": "j", "user_seed": "s", "nkey": "", "nsc": "", "socks_proxy": "", "key": "$PASS/k"}'


CONTEXT_WORDS = (
    b'"url"', b'"user"', b'"password"', b'"token"', b'"creds"', b'"nkey"', b'"cert"', b'"key"',
    b'"tls_first"', b"env://PASS", b"env://", b"data:;base64,", b"op://", b"nsc://", b"${PASS}", b"~",
    b"true", b"null",
    b"{}", b"\\ud800", b"nats://", b",",
)  # fmt: skip


def check_context(data: bytes) -> Hashable:
    """A NATS context becomes options whose texts can be sent, or an error."""
    layer = read_context(data.replace(b"file:", b"fi1e:"), Path("fuzz.json"), {"PASS": "secret"})
    options = together([layer])
    connect_fields = [options.user, options.password, options.token, options.jwt, str(options), repr(options)]
    assert all(is_sendable(text) for text in connect_fields)
    return tuple(layer.values)
