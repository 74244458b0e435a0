"""Checks over a connection, possible for any user: the server, the login, the clock, JetStream, streams."""

from __future__ import annotations

import time
from typing import Any, Final

import msgspec

from millstream.base.errors import UNREADABLE_JSON
from millstream.cli.checkup.findings import Findings
from millstream.cli.output.texts import count_text, list_text, size_text
from millstream.golang.time import TimeError, parse_time
from millstream.link.errors import LinkError
from millstream.link.link import Link
from millstream.link.options import LinkOptions
from millstream.transfer.api import JetStreamApi

USER_INFO: Final = "$SYS.REQ.USER.INFO"
CONNECTIONS: Final = "$SYS.REQ.ACCOUNT.PING.CONNZ"
ARROW_INFO: Final = "$MILLSTREAM.ARROW.INFO"
_OLDEST: Final = (2, 10)
_SLOW_TRIP_S: Final = 0.1
_CLOCK_S: Final = 1.0
_FULL: Final = 0.8
_TRIPS: Final = 5
_ASK_S: Final = 2.0
_LOCAL: Final = ("127.", "localhost", "::1")


async def check_server(api: JetStreamApi, options: LinkOptions, found: Findings) -> None:
    """Make all checks over this connection."""
    await _check_connection(api.link, options, found)
    user = await _check_user(api.link, found)
    _check_clock(user, found)
    await _check_connections(api.link, found)
    if await _check_account(api, found):
        await _check_streams(api, found)


def is_local(options: LinkOptions) -> bool:
    """Return whether the server is on this machine, by its address."""
    return all(server.host.startswith(_LOCAL) for server in options.servers)


async def ask(link: Link, subject: str, body: bytes = b"") -> dict[str, Any] | None:
    """Return the answer of the server; None if there is no readable one."""
    try:
        answer = await link.request(subject, body, timeout_s=_ASK_S)
        fields = msgspec.json.decode(answer.payload)
    except LinkError:
        return None
    except UNREADABLE_JSON:
        return None
    return fields if isinstance(fields, dict) else None


async def _check_connection(link: Link, options: LinkOptions, found: Findings) -> None:
    info = link.dialogue.info
    ours = await ask(link, ARROW_INFO) is not None
    name = "Millstream, as nats-server" if ours else "nats-server"
    cluster = f", cluster {info.cluster}" if info.cluster else ""
    found.ok("server", f"{link.where}: {name} {info.version}{cluster}")
    version = tuple(int(part) for part in info.version.split("-")[0].split(".")[:2] if part.isdigit())
    found.judge(
        version >= _OLDEST or not version,
        "version",
        f"the server speaks the protocol of nats-server {info.version}",
        "Update the server: before 2.10, consumers with several filters and much of this tool do not work.",
    )
    trips = []
    for _ in range(_TRIPS):
        began = time.perf_counter()
        await link.flush()
        trips.append(time.perf_counter() - began)
    trip = sorted(trips)[_TRIPS // 2]
    found.judge(
        trip < _SLOW_TRIP_S,
        "round trip",
        f"{trip * 1000:.2f} ms",
        "Run clients nearer to the server, or publish many messages at once (millstream pub --count).",
    )
    encrypted = info.tls_required or options.tls is not None or any(each.tls for each in options.servers)
    if not is_local(options):
        advice = (
            "Switch TLS on in the server's configuration: passwords and messages cross the network readable."
        )
        found.judge(encrypted, "TLS", "on" if encrypted else "off, to another machine", advice)
        advice = "Give the server users (authorization): whoever reaches its port may do everything."
        found.judge(info.auth_required, "login", "required" if info.auth_required else "not required", advice)


async def _check_user(link: Link, found: Findings) -> dict[str, Any] | None:
    fields = await ask(link, USER_INFO)
    if fields is None:
        advice = f"Let this user publish to {USER_INFO}, or use a server of 2.10 or later."
        found.skip("user", "the server does not say who we are", advice)
        return None
    data = fields.get("data") or {}
    name, account = data.get("user") or "nobody", data.get("account_name") or data.get("account") or "?"
    rules = data.get("permissions")
    if not rules:
        found.ok("user", f"{name} of account {account}, without restrictions")
        return fields
    text = "; ".join(
        f"{verb} {kind} {list_text(subjects, 5)}"
        for verb, lists in rules.items()
        if isinstance(lists, dict)
        for kind, subjects in lists.items()
        if subjects
    )
    found.ok("user", f"{name} of account {account}: {text or 'no rules'}")
    return fields


def _check_clock(user: dict[str, Any] | None, found: Findings) -> None:
    try:
        told = parse_time(str(((user or {}).get("server") or {}).get("time") or "")) / 1e9
    except TimeError:
        found.skip("clock", "the server does not say what time it is")
        return
    apart = abs(time.time() - told)
    advice = "Synchronise both clocks (chrony, systemd-timesyncd): ages, TTLs and JWTs depend on them."
    found.judge(apart < _CLOCK_S, "clock", f"{apart:.3f} s apart from the server's", advice)


async def _check_connections(link: Link, found: Findings) -> None:
    fields = await ask(link, CONNECTIONS, b'{"limit": 1024, "sort": "pending"}')
    data = (fields or {}).get("data")
    if not isinstance(data, dict):
        found.skip("connections", f"this user may not ask for them ({CONNECTIONS})")
        return
    rows = [each for each in data.get("connections") or [] if isinstance(each, dict)]
    slow = [each for each in rows if int(each.get("pending_bytes") or 0) > 1 << 20]
    names = list_text([f"{each.get('cid')} {each.get('name') or ''}".strip() for each in slow], 3)
    text = f"{count_text(int(data.get('total') or len(rows)))} of this account"
    if slow:
        text += f", {len(slow)} do not take what is sent to them: {names}"
    found.judge(not slow, "connections", text, "Look at these clients: the server cuts off slow consumers.")


async def _check_account(api: JetStreamApi, found: Findings) -> bool:
    """Check the limits of the account; return whether it has JetStream."""
    try:
        fields = await api.ask("INFO")
    except LinkError as error:
        found.fail("JetStream", str(error), "Start the server with -js, and give this account JetStream.")
        return False
    limits = fields.get("limits") or {}
    used = f"{size_text(fields.get('storage', 0))} in files, {size_text(fields.get('memory', 0))} in memory"
    streams, consumers = count_text(fields.get("streams", 0)), count_text(fields.get("consumers", 0))
    text = f"{streams} streams, {consumers} consumers, {used}"
    full = [
        f"{name}: {value} of {limits[limit]}"
        for name, limit in (
            ("storage", "max_storage"), ("memory", "max_memory"), ("streams", "max_streams"),
            ("consumers", "max_consumers"),
        )
        if limits.get(limit, -1) > 0 and (value := fields.get(name, 0)) > _FULL * limits[limit]
    ]  # fmt: skip
    if full:
        text += f"; nearly full: {', '.join(full)}"
    found.judge(not full, "JetStream", text, "Raise the limits of the account, or remove what is not needed.")
    return True


async def _check_streams(api: JetStreamApi, found: Findings) -> None:
    """Check every stream, page by page."""
    count = 0
    async for info in api.pages("STREAM.LIST", "streams"):
        count += 1
        _check_stream(info, found)
    found.ok("streams", f"{count_text(count)} looked at")


def _check_stream(info: dict[str, Any], found: Findings) -> None:
    config, state = info.get("config") or {}, info.get("state") or {}
    topic = f"stream {config.get('name')}"
    lost = (state.get("lost") or {}).get("msgs") or []
    if lost:
        found.fail(
            topic, f"{count_text(len(lost))} messages are lost: its files are damaged", "Restore a backup."
        )
    cluster = info.get("cluster") or {}
    if cluster.get("name") and not cluster.get("leader"):
        found.fail(topic, "it has no leader", "Start the servers of its replicas.")
    behind = [str(each.get("name")) for each in cluster.get("replicas") or [] if not each.get("current")]
    if behind:
        found.warn(
            topic, f"replicas are behind: {', '.join(behind)}", "Look at the disks and logs of these servers."
        )
    for origin in [info["mirror"]] if info.get("mirror") else info.get("sources") or []:
        if origin.get("error"):
            text = f"it cannot copy from {origin.get('name')}: {origin['error'].get('description')}"
            found.fail(topic, text, "Check the name, the domain and the imports of the origin.")
    for field, limit in (("messages", "max_msgs"), ("bytes", "max_bytes")):
        most = config.get(limit, -1)
        if config.get("discard") == "new" and most > 0 and state.get(field, 0) > _FULL * most:
            text = f"it has {state[field]:,} of {most:,} {field} and will refuse new messages"
            found.warn(
                topic, text, f"Raise --{limit.replace('_', '-')}, purge it, or find out who does not consume."
            )
