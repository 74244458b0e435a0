"""`millstream sql` on a real server, with every form of output, and its prompt on a terminal."""

import csv
import io
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from millstream.cli.endings import FAILED, INTERRUPTED, NO_SERVER, NOT_FOUND, WRONG_USAGE
from tests.kits.cli import ESCAPES, Cli, assert_harmless
from tests.kits.patience import PATIENCE_S
from tests.kits.queries import fill

ENDLESS = "with recursive t(n) as (select 1 union all select n + 1 from t) select max(n) from t"


@pytest.fixture
def orders(url: str, name: str) -> str:
    fill(url, name)
    return name


def test_a_query_prints_a_table_and_says_what_it_has_read(cli: Cli, orders: str) -> None:
    done = cli("sql", f"select subject, count(*) as n from {orders} where seq <= 6 group by 1 order by 1")
    assert done.out.splitlines() == [
        f"SUBJECT{' ' * (len(orders) - 4)}  N",
        f"{orders}.eu  4",
        f"{orders}.us  2",
    ]
    assert f"; {orders}: 6 messages, " in done.err
    assert done.err.startswith("(2 rows; ")


def test_a_query_prints_every_form(cli: Cli, orders: str) -> None:
    query = f"select seq, data->>'$.item' as item from {orders} where seq < 3 order by seq"
    rows = [{"seq": 1, "item": "apple"}, {"seq": 2, "item": "pear"}]
    assert cli("sql", query, "--json").json["rows"] == rows
    assert cli("sql", query, "--ndjson").lines == rows
    assert list(csv.DictReader(io.StringIO(cli("sql", query, "--csv").out)))[1] == {
        "seq": "2",
        "item": "pear",
    }
    assert pa.ipc.open_stream(cli("sql", query, "--arrow").raw).read_all().to_pylist() == rows
    assert "more: see --rows" in cli("sql", query, "--rows", 1).err


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("select * from NOWHERE",), NOT_FOUND, "there is no stream NOWHERE on nats://"),
        (("selec",), FAILED, "syntax error"),
        (("drop table x",), FAILED, "DROP is not allowed"),
        (("with x as (copy (select 1) to '/tmp/x') from x",), FAILED, "COPY is not allowed"),
        (("select * from '/etc/hosts.csv'",), FAILED, "disabled by configuration"),
        ((ENDLESS, "--time", "500ms"), FAILED, "the query took longer than 0.5 s"),
        (("select list(range) from range(1000000000)", "--memory", "64MB"), FAILED, "needs more than 64 MiB"),
        (("select 1", "--json", "--csv"), WRONG_USAGE, "--json and --csv exclude each other"),
        (("select * from X", "--server", "nats://127.0.0.1:1"), NO_SERVER, "127.0.0.1:1"),
    ],
)
def test_failures_have_one_line_and_an_exit_code(
    cli: Cli, arguments: tuple[str, ...], code: int, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millstream.tables.source._PATIENCE_S", 0.5)
    done = cli("sql", *arguments, code=code)
    assert text in done.err
    assert len(done.err.splitlines()) == 1
    assert not done.raw


def test_payloads_cannot_act_on_a_terminal(cli: Cli, url: str, name: str) -> None:
    fill(url, name, [ESCAPES.encode()])
    assert_harmless(cli("sql", f"select data from {name}").out)


def test_ctrl_c_ends_a_query(url: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "millstream", "sql", ENDLESS, "--server", url],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        preexec_fn=_hear_ctrl_c,
    )
    try:
        while not _children(process.pid):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert process.returncode == INTERRUPTED
    assert err == b"millstream: interrupted\n"


def _hear_ctrl_c() -> None:
    """Take the signal, which jobs in the background of a shell ignore, and so what they start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def test_the_prompt_answers_completes_and_remembers(url: str, name: str, tmp_path: Path) -> None:
    orders = f"PROMPT_{name}"
    fill(url, orders)
    ours, theirs = pty.openpty()
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path), "TERM": "dumb"}
    process = subprocess.Popen(
        [sys.executable, "-m", "millstream", "sql", "--server", url],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
    )
    os.close(theirs)
    seen = b""

    def until(text: str) -> None:
        nonlocal seen
        while text.encode() not in seen:
            seen += os.read(ours, 4096)
        seen = seen.partition(text.encode())[2]

    until("sql> ")
    os.write(ours, b"select count(*) + 12345 as many\nfrom PROMPT_\t")
    until("...> ")
    os.write(ours, b";\n")
    until("12375")
    until("sql> ")
    os.write(ours, b"select nothing;\n")
    until("millstream: ")
    until("sql> ")
    os.write(ours, b".tables\n")
    until(orders)
    until("sql> ")
    os.write(ours, b"\x04")
    assert process.wait(PATIENCE_S) == 0
    os.close(ours)
    history = tmp_path / "millstream" / "sql_history"
    assert "select nothing;" in history.read_text()
    assert history.stat().st_mode & 0o077 == 0
