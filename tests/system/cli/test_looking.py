"""`millstream doctor`, `top`, `bench`, and exit codes for logins, on a real server."""

import json
from pathlib import Path

from millstream.cli.endings import FAILED, NOT_PERMITTED, WRONG_USAGE
from tests.conftest import ServerFactory
from tests.kits.cli import Cli

CONFIG = """
accounts: {
  A: { jetstream: enabled, users: [
    {user: all, password: s3cret},
    {user: few, password: s3cret, permissions: {publish: ["orders.>"], subscribe: ["orders.>", "_INBOX.>"]}}
  ]}
}
"""


def test_doctor_finds_nothing_wrong(shared_server: ServerFactory, tmp_path: Path) -> None:
    server = shared_server(jetstream=True, monitor=True)
    cli = Cli(server.client_url)
    found = cli("doctor", "--monitor", server.monitor_url, "--store", tmp_path, "--json").json
    assert found["counts"]["failure"] == 0
    topics = {each["topic"]: each for each in found["findings"]}
    assert {
        "server",
        "clock",
        "round trip",
        "user",
        "JetStream",
        "health",
        "disk sync",
        "store",
    } <= topics.keys()
    assert all(each.get("advice") for each in found["findings"] if each["verdict"] == "warning")
    assert list(tmp_path.iterdir()) == []
    assert "failures" in cli("doctor").out


def test_doctor_says_what_to_do_about_a_server_that_is_not_there() -> None:
    done = Cli()(
        "doctor", "-s", "127.0.0.1:1", "--store", "/none", "--monitor", "http://127.0.0.1:1", code=FAILED
    )
    assert done.out.count("FAIL") == 3
    assert "millstream dev" in done.out


def test_logins_and_permissions_have_exit_codes(shared_server: ServerFactory) -> None:
    server = shared_server(jetstream=True, config=CONFIG)
    cli = Cli(server.client_url)
    cli("stream", "ls", "--user", "all", "--password", "guess", code=NOT_PERMITTED)
    cli("stream", "ls", "--user", "all", "--password", "s3cret")
    few = ("--user", "few", "--password", "s3cret")
    assert "JS.API" in cli("stream", "ls", *few, code=NOT_PERMITTED).err
    cli("sub", "secret.>", *few, "--wait", "5s", code=NOT_PERMITTED)
    told = cli("doctor", *few, "--json", code=None).json
    assert "JetStream" in [each["topic"] for each in told["findings"] if each["verdict"] == "failure"]


def test_top_counts_what_is_stored(cli: Cli, name: str) -> None:
    cli("stream", "add", name, "--storage", "memory")
    cli("pub", name, "{n}", "--count", 100, "-J")
    looks = cli("top", "--json", "--interval", "200ms", "--rows", 200, "--count", 2).raw.splitlines()
    streams = {each["name"]: each for each in json.loads(looks[-1])["streams"]}
    assert streams[name]["messages"] == 100
    text = cli("top", "--interval", "200ms", "--rows", 200).out
    assert name in text
    assert "CONNECTION" in text
    cli("top", "--interval", "1ms", code=WRONG_USAGE)


def test_bench_leaves_nothing_behind(cli: Cli) -> None:
    for kind in ("publish", "consume", "request", "kv"):
        storage = () if kind == "request" else ("--storage", "memory")
        for line in cli("bench", kind, "-n", 600, "--size", 16, *storage, "--json").lines:
            assert (line["messages"], line["size"]) == (600, 16)
            assert line["per_second"] > 0
    cli("bench", "publish", "--core", "-n", 600)
    assert not [each for each in cli("stream", "ls", "-a", "--names", "--json").json if "BENCH" in each]
    cli("bench", "publish", "--size", "lots", code=WRONG_USAGE)
    cli("bench", "publish", "--storage", "paper", code=WRONG_USAGE)
