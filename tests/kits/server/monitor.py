"""Helpers of the tests of monitoring: a server in a thread, and requests to it."""

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from millstream.server.blocking_server import BlockingServer
from tests.kits.patience import PATIENCE_S


def get(url: str, context: ssl.SSLContext | None = None) -> tuple[int, dict[str, str], bytes]:
    """Status, headers with lower-case names, and body."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S, context=context) as response:
            return response.status, _lower(response.headers), response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, _lower(error.headers), error.read()


def _lower(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def document(server: BlockingServer, path: str) -> Any:
    status, _, body = get(server.monitor_url + path)
    assert status == 200, body
    return json.loads(body)


def eventually(condition: Callable[[], Any], timeout_s: float = 60.0) -> Any:
    """Ask until the answer is yes; what happens between two threads cannot be waited for otherwise."""
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline, "it never became true"
        time.sleep(0.005)
    return found
