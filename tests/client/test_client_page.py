"""The examples of docs/client.md: each is run, and prints what the page says."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from millstream.testing.reference import ServerProcess

PAGE = Path(__file__).parents[2] / "docs" / "client.md"
EXAMPLE = re.compile(r"```python\n(.*?)```\n```text\n(.*?)```", re.DOTALL)


def test_the_examples_print_what_the_page_says(
    own_server: Callable[..., ServerProcess], capsys: pytest.CaptureFixture[str]
) -> None:
    server = own_server(jetstream=True)
    text = PAGE.read_text()
    examples = EXAMPLE.findall(text)
    assert len(examples) == text.count("```python")
    for program, output in examples:
        program = program.replace("nats://127.0.0.1:4222", server.client_url)
        exec(compile(program, PAGE.name, "exec"), {"__name__": "__main__"})
        assert capsys.readouterr().out == output
