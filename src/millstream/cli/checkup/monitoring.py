"""Checks over a server's monitoring port: its health, its load, its store."""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import urlopen

from millstream.cli.checkup.findings import Findings
from millstream.cli.output.texts import count_text, size_text

_WAIT_S: Final = 5.0
_MOST_BYTES: Final = 16 * 1024 * 1024
_FULL: Final = 0.8


def check_monitoring(url: str, found: Findings) -> str:
    """Check a server by its monitoring port; return the folder of the store, if it is reported."""
    base = url.rstrip("/")
    try:
        health = _get(f"{base}/healthz")
        load = _get(f"{base}/varz")
        store = _get(f"{base}/jsz")
    except (OSError, ValueError) as error:
        found.fail("monitoring", f"{base}: {error}", "Start the server with -m PORT, and check the address.")
        return ""
    status = str(health.get("status"))
    if status == "ok":
        found.ok("health", "ok")
    else:
        found.fail(
            "health",
            f"{status}: {health.get('error') or health.get('errors') or '?'}",
            "See the server's log.",
        )
    _check_load(load, found)
    return str((store.get("config") or {}).get("store_dir") or "")


def _check_load(load: dict[str, Any], found: Findings) -> None:
    now, most = int(load.get("connections") or 0), int(load.get("max_connections") or 0)
    advice = "Raise max_connections, and the limit of open files with it."
    text = f"{count_text(now)} connections of at most {count_text(most)}"
    found.judge(not most or now < _FULL * most, "load", text, advice)
    slow = int(load.get("slow_consumers") or 0)
    advice = "Clients were cut off because they did not keep up; see the log for their names."
    found.judge(not slow, "slow consumers", f"{count_text(slow)} since the start", advice)
    found.ok("memory", f"{size_text(int(load.get('mem') or 0))}, up for {load.get('uptime', '?')}")


def _get(url: str) -> dict[str, Any]:
    if not url.startswith(("http://", "https://")):
        raise ValueError("an address begins with http:// or https://")
    try:
        with urlopen(url, timeout=_WAIT_S) as answer:
            data = answer.read(_MOST_BYTES)
    except HTTPError as error:  # a failed health check has a body, too
        with error:
            data = error.read(_MOST_BYTES)
    fields = json.loads(data)
    if not isinstance(fields, dict):
        raise ValueError("the answer is no JSON object")
    return fields
