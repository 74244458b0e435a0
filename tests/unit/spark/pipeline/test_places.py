"""Lines of a pipeline file that problems are reported for."""

import pytest

from millstream.spark.pipeline.load import PipelineError
from millstream.spark.pipeline.places import line_of

TEXT = """\
checkpoint = "c"
[nats]
servers = ["nats://127.0.0.1:4222"]
password = "x"

[[job]]
kind = "archive"
name = "orders"
streams = ["ORDERS"]
table = "/data/orders"

[[job]]
kind = "transfrm"
name = 'large'
sql = "select 1"
input.a = { streams = ["A"], json = "x int" }
[job.output]
subject = "large"
[job.input.b]
json = "y int"
[job.input.c]
json = "z int"
"""


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        ('job "orders": there is no stream ORDERS on nats://x; create it', 6),
        ('job "orders": key "table": wrong', 10),
        ('job "large": key "sql": Syntax error', 15),
        ('job "large": key "subject": no stream takes it', 18),
        ('job "large": input "b": key "json": two of them', 12),
        ('job "large": unknown kind "transfrm"; did you mean "transform"?', 13),
        ('[nats] "password" may not be written into the file; use password_file', 4),
        ('[nats] key "servers" is wrong', 3),
        ("[progress] is not there", None),
        ('job "none": what', None),
        ("cannot connect to 127.0.0.1:1", None),
    ],
)
def test_problems_have_lines(problem: str, line: int | None) -> None:
    assert line_of(TEXT, problem) == line
    place = "p.toml" if line is None else f"p.toml:{line}"
    assert str(PipelineError("p.toml", [problem], TEXT)) == f"{place}: {problem}"


def test_a_file_that_is_written_in_another_way_has_no_lines() -> None:
    assert line_of('job = [{ kind = "archive", name = "a" }]', 'job "a": key "kind": x') is None
