"""The view of `make run`: a picture that fits, lines that survive, figures that are true."""

import io
import sys
from pathlib import Path

import pytest
from rich.console import Console

from examples.orders.figures import ConsumerFigures, Figures, Jobs, archived
from examples.orders.view import Lines, Moment, line, picture

JOB = {"state": "running", "rows": 900_000, "batches": 4000, "lag": {"ORDERS": 7}, "rate": 50}
FIGURES = Figures(
    messages=1_234_567,
    stored_bytes=2_500_000,
    rate=12.34,
    consumers=[
        ConsumerFigures(name, "pull", 1_005_000, 1000, 1_000_000, 3000, 1.25, 4080.5)
        for name in ("NEW", "DISPATCH", "MONITOR", "a-consumer-of-somebody-else")
    ],
    consumer_count=7,
    archive_files=3,
    archive_bytes=1500,
)
MOMENT = Moment(
    figures=FIGURES,
    jobs=dict.fromkeys(("archive", "revenue", "deliveries", "dead-letters"), JOB),
    addresses=["HTTP  http://127.0.0.1:3000/v2/docs", "NATS  nats://127.0.0.1:4222   monitoring  …"],
    hints=["curl …"] * 4,
    troubles=["gateway ended, next try in 2 s: port 3000 is in use " + "x" * 100, "another", "a third"],
)


def drawn(moment: Moment, width: int) -> list[str]:
    console = Console(record=True, width=width, file=io.StringIO())
    console.print(picture(moment))
    return console.export_text().splitlines()


def test_everything_is_on_a_picture_of_80_by_24() -> None:
    lines = drawn(MOMENT, 80)
    assert len(lines) <= 24
    assert all(len(each) <= 80 for each in lines)
    text = "\n".join(lines)
    for part in ("1,234,567 messages", "2.5 MB", "12.3/s", "7 consumers (4 shown)", "a-consum", "4,080.5 ms"):
        assert part in text
    for part in ("1,005,000", "archive", "900,000", "nats://127.0.0.1:4222"):
        assert part in text
    for part in ("gateway ended", "another", "Ctrl-C stops everything"):
        assert part in text


@pytest.mark.parametrize("width", [1, 7, 30])
def test_a_narrow_terminal_gets_a_narrow_picture(width: int) -> None:
    assert all(len(each) <= width for each in drawn(MOMENT, width))


def test_the_line_for_logs_says_which_jobs_do_not_run() -> None:
    moment = Moment(figures=FIGURES, jobs={"archive": JOB, "revenue": {**JOB, "state": "starting"}})
    assert line(moment).startswith("messages=1234567 NEW=1000000/1005000+1000")
    assert line(moment).endswith("jobs: archive=900000 revenue=900000(starting) archive=1500B")


def test_lines_tell_news_once_and_again_when_they_come_back(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines(1)
    trouble = Moment(figures=FIGURES, troubles=["broker ended"])
    for moment in (trouble, trouble, Moment(figures=FIGURES), trouble):
        lines.show(moment)
    told = capsys.readouterr().out.splitlines()
    assert [each for each in told if not each.startswith("messages=")] == ["broker ended"] * 2
    assert len(told) == 6


def test_lines_go_on_when_nobody_reads_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Closed())
    lines = Lines(1)
    lines.show(MOMENT)
    lines.show(MOMENT)
    sys.stdout.close()
    assert capsys.readouterr().err.count("nobody reads the output any more") == 1


def test_jobs_say_why_they_are_started_again() -> None:
    jobs = Jobs()
    for said in (
        "no JSON",
        "[1]",
        '{"job": ["x"]}',
        '{"job": "a", "state": "starting", "text": "starts again"}',
    ):
        jobs.hear(said)
    jobs.hear('{"job": "b", "state": "running", "text": "10 rows"}')
    assert jobs.troubles() == ["job a: starts again"]
    jobs.forget()
    assert jobs.told == {}


def test_only_what_readers_of_the_archive_see_is_counted(tmp_path: Path) -> None:
    for name in (
        "stream=ORDERS/day=1/batch=b1/part-0.parquet",
        "_millstream/staging/part-1.parquet",
        "x/.part.parquet",
    ):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(b"1234")
    gone = tmp_path / "stream=ORDERS/gone.parquet"  # as one that is moved while it is counted
    gone.symlink_to("nowhere")
    assert archived(tmp_path) == (1, 4)
    assert archived(tmp_path / "nowhere") == (0, 0)
