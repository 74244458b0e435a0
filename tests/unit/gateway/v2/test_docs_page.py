"""The script of /v2/docs: the command that it shows can be pasted, and JSON is indented."""

import json
import shutil
import subprocess
from typing import Any

import pytest

from millstream.gateway.v2.docs_page import PAGE

NODE = shutil.which("node")
SCRIPT = PAGE.decode().partition("<script>")[2].partition("</script>")[0]

pytestmark = pytest.mark.skipif(NODE is None, reason="there is no node")


def run(call: str) -> Any:
    """Return what a call of one of the page's functions returns, without a page."""
    functions = SCRIPT.partition('fetch("openapi.json")')[0]
    assert NODE is not None
    ended = subprocess.run(
        [NODE, "-e", f"{functions};console.log(JSON.stringify({call}))"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return json.loads(ended.stdout)


def words_of(line: str) -> list[str]:
    """Return what a shell makes of a line."""
    told = subprocess.run(
        ["sh", "-c", f"curl() {{ printf '%s\\0' \"$@\"; }}; {line}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return told.stdout.split("\0")[:-1]


def test_the_command_can_be_pasted() -> None:
    url = "http://127.0.0.1:3000/v2/subjects/a?x=1&y='"
    options = {"method": "POST", "headers": {"Content-Type": "a/b"}, "body": "it's $HOME\n\"`x`"}
    line = run(f"curlLine({json.dumps(url)}, {json.dumps(options)})")
    assert words_of(line) == [
        *("-X", "POST", "-H", "Content-Type: a/b", "--data-binary", "it's $HOME\n\"`x`", url)
    ]
    plain = run(f'curlLine({json.dumps(url)}, {{"method": "GET", "headers": {{}}}})')
    assert words_of(plain) == [url]


@pytest.mark.parametrize(
    ("text", "kind", "shown"),
    [
        ('{"a":[1]}\n', "application/json", '{\n  "a": [\n    1\n  ]\n}'),
        ('{"a":1}', "application/problem+json; charset=utf-8", '{\n  "a": 1\n}'),
        ('{"a":1}\n{"a":2}\n', "application/x-ndjson", '{"a":1}\n{"a":2}\n'),
        ("no json", "application/json", "no json"),
    ],
)
def test_json_is_indented(text: str, kind: str, shown: str) -> None:
    assert run(f"indented({json.dumps(text)}, {json.dumps(kind)})") == shown
