"""A pipeline file is read or refused with the file, the job and the key in the text."""

from pathlib import Path

import pytest

from millstream.spark.jobs.settings import Archive, Transform
from millstream.spark.pipeline.check import check_pipeline, checkpoint_of
from millstream.spark.pipeline.load import PipelineError, load_pipeline

GOOD = """
checkpoint = "/data/checkpoints"

[nats]
servers = ["nats://127.0.0.1:4222"]

[spark.conf]
"spark.driver.memory" = "2g"

[[job]]
kind = "archive"
name = "orders"
streams = ["ORDERS"]
table = "/data/orders"

[[job]]
kind = "transform"
name = "large"
sql = "select subject, data from orders where value.price > 100"
dead_letters = "dead.orders"
input.orders = { streams = ["ORDERS"], json = "id string, price double" }
output = { subject = "large.orders" }
"""


def load(folder: Path, text: str) -> tuple[list[str], object]:
    """The problems of a file and the pipeline, whatever there is."""
    path = folder / "p.toml"
    path.write_text(text)
    try:
        pipeline = load_pipeline(path)
    except PipelineError as error:
        return list(error.problems), None
    return check_pipeline(pipeline), pipeline


def job(text: str, *, kind: str = "archive", head: str = 'checkpoint = "c"') -> str:
    return f'{head}\n[[job]]\nkind = "{kind}"\nname = "one"\n{text}'


def test_a_good_file_has_no_problems(tmp_path: Path) -> None:
    problems, pipeline = load(tmp_path, GOOD)
    assert problems == []
    first, second = pipeline.job  # type: ignore[attr-defined]
    assert isinstance(first, Archive)
    assert isinstance(second, Transform)
    assert second.input["orders"].json == "id string, price double"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (job('streams = ["A"]\ntabel = "t"'), 'job "one": unknown key "tabel"; did you mean "table"?'),
        (job('streams = ["A"]'), 'job "one": key "table" is missing'),
        (job('table = "t"\nstreams = "A"'), 'job "one": key "streams": expected array, got str'),
        (job('table = "t"\nstreams = []'), 'job "one": key "streams": expected array of length >= 1'),
        (job("", kind="archiv"), 'job "one": unknown kind "archiv"; did you mean "archive"?'),
        ('[[job]]\nname = "one"', 'job "one": key "kind" is missing'),
        ('[[job]]\nkind = "archive"', 'job number 1: key "name" is missing'),
        ('[nats]\npassword = "x"', '[nats] "password" may not be written into the file; '
         "use password_file or password_env"),
        ('[nats]\nserver = ["x"]', '[nats] unknown key "server"; did you mean "servers"?'),
        ("name = 'x'", 'key "job" is missing'),
        ("chekpoint = 'x'", 'unknown key "chekpoint"; did you mean "checkpoint"?'),
        (job('sql = "x"\noutput = { subject = "s" }\ninput.a = { streams = ["A"], jsn=1 }', kind="transform"),
         'job "one" input a: unknown key "jsn"; did you mean "json"?'),
        ("a = [", "not TOML: Invalid value (at end of document)"),
    ],
)  # fmt: skip
def test_a_wrong_key_is_named_with_its_job(tmp_path: Path, text: str, problem: str) -> None:
    problems, _ = load(tmp_path, text)
    assert problem in problems


def test_every_line_begins_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text("a = 1\nb = 2")
    with pytest.raises(PipelineError) as caught:
        load_pipeline(path)
    assert [line.startswith(f"{path}: unknown key") for line in str(caught.value).splitlines()] == [
        True,
        True,
    ]


def test_all_unknown_keys_are_told_at_once(tmp_path: Path) -> None:
    problems, _ = load(tmp_path, job("stream = 1\ntble = 2\n[spark]\nmastr = 3"))
    assert len(problems) == 3


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (job('streams = ["A"]\ntable = "t"\ntrigger = "often"'),
         'job "one": key "trigger": a duration such as 30s or 10 minutes, not \'often\''),
        (job('streams = ["A"]\ntable = "t"\nstart = "begin"'),
         'job "one": key "start": earliest, latest, a sequence or -100 is wanted, not "begin"'),
        (job('streams = ["A"]\ntable = "t"\nstart = "latest"\nstart_time = "-1 hour"'),
         'job "one": either "start" or "start_time", not both'),
        (job('streams = ["A", "A"]\ntable = "t"'), 'job "one": key "streams": a stream is named twice'),
        (job('streams = ["A"]\ntable = "t"\nafter = ["two"]'),
         'job "one": key "after": there is no job "two"'),
        (job('streams = ["A"]\ntable = "t"\npurge_force = true'),
         'job "one": key "purge_force" without "purge"'),
        (job('streams = ["A"]\ntable = "t"\nformat = "delta"\ncompact_folders = 4'),
         'job "one": key "compact_folders": a table of format delta has its own ways to merge files'),
        (job('table = "t"\ntarget = "T"\nrate = 1\nspeed = 1', kind="replay"),
         'job "one": either "rate" or "speed", not both'),
        (job('table = "t"\ntarget = "T"\nsubject = "x.{consumer}"', kind="replay"),
         'job "one": key "subject": {consumer} is not known, only {subject} and {stream}'),
        (job('input.a = { streams = ["A"] }\noutput = { subject = "s" }', kind="transform"),
         'job "one": either "sql" or "python", and only one of them'),
        (job('python = "f"\ninput.a = { streams = ["A"] }\noutput = { subject = "s" }', kind="transform"),
         'job "one": key "python": module:function is wanted, not "f"'),
        (job('sql = "x"\ninput.a-b = { streams = ["A"] }\noutput = { subject = "s" }', kind="transform"),
         'job "one": input "a-b": SQL needs a name of letters, digits and _'),
        (job('sql = "x"\ninput.a = { streams = ["A"] }\noutput = {}', kind="transform"),
         'job "one": output: either "subject" or "table", and only one of them'),
        (job('sql = "x"\ndead_letters = "d"\ninput.a = { streams = ["A"] }\noutput = { subject = "s" }',
             kind="transform"),
         'job "one": key "dead_letters": no input has "json", so no message can fail'),
        (job('sql = "x"\ninput.a = { streams = ["A"], watermark = "time" }\noutput = { subject = "s" }',
             kind="transform"),
         'job "one": input "a": key "watermark": a watermark is a column and a delay, '
         "such as 'time 30 seconds', not 'time'"),
        (job('stream = "E"\ntable = "t"', kind="analytics", head=""),
         'job "one": no place for its checkpoint; set "checkpoint" at the top'),
    ],
)  # fmt: skip
def test_what_cannot_work_is_found_before_anything_starts(tmp_path: Path, text: str, problem: str) -> None:
    problems, _ = load(tmp_path, text)
    assert problem in problems


def test_jobs_that_wait_for_each_other_are_found(tmp_path: Path) -> None:
    one = 'kind = "verify"\ntable = "t"\n'
    problems, _ = load(
        tmp_path, f'[[job]]\n{one}name = "a"\nafter = ["b"]\n[[job]]\n{one}name = "b"\nafter = ["a"]'
    )
    assert problems == ['key "after": these jobs wait for each other: a, b']


def test_a_job_cannot_wait_for_one_that_never_ends(tmp_path: Path) -> None:
    text = (
        job('streams = ["A"]\ntable = "t"')
        + '\n[[job]]\nkind = "verify"\nname = "v"\ntable = "t"\nafter=["one"]'
    )
    problems, _ = load(tmp_path, text)
    assert problems == ['job "v": key "after": job "one" never ends; give it trigger = "once"']


def test_two_jobs_do_not_write_one_table_nor_use_one_name(tmp_path: Path) -> None:
    text = job('streams = ["A"]\ntable = "t"')
    problems, _ = load(tmp_path, text + text.replace('checkpoint = "c"', ""))
    assert 'job "one": 2 jobs have this name' in problems
    assert 'table "t": 2 jobs write it' in problems


def test_an_archive_may_keep_its_checkpoint_in_its_table(tmp_path: Path) -> None:
    problems, pipeline = load(tmp_path, job('streams = ["A"]\ntable = "t/"', head=""))
    assert problems == []
    assert checkpoint_of(pipeline, pipeline.job[0]) == "t/_millstream/checkpoint"  # type: ignore


def test_a_file_that_is_not_there_is_an_error_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"none\.toml: No such file or directory"):
        load_pipeline(tmp_path / "none.toml")
