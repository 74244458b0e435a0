"""nats-server's flags in Go's syntax."""

import re
import subprocess

import pytest

from millstream.cli.flags import FLAGS, CommandLine, FlagError, HelpSection, help_text, parse_flags
from millstream.config import Overrides
from tests.kits.paths import GOLDEN
from tests.kits.patience import PATIENCE_S
from tests.kits.recordings.book import Book
from tests.kits.reference import ServerKind, command_for

RECORDED = Book(GOLDEN / "cli" / "flags.txt")


@pytest.mark.parametrize(
    "arguments", ["-p 5", "--p 5", "-p=5", "--p=5", "-port 5", "--port 5", "-port=5", "--port=5"]
)
def test_one_dash_and_two_and_both_ways_to_give_a_value_are_the_same(arguments: str) -> None:
    assert parse_flags(arguments.split()) == CommandLine(overrides=Overrides(port=5))


@pytest.mark.parametrize(
    ("arguments", "overrides"),
    [
        ("-a h", Overrides(host="h")),
        ("--net h -n name", Overrides(host="h", server_name="name")),
        ("-p -1 -m 8222 -ms 8223", Overrides(port=-1, http_port=8222, https_port=8223)),
        ("-p 0x10", Overrides(port=16)),
        ("-js", Overrides(jetstream=True)),
        ("-js=false", Overrides(jetstream=False)),
        ("-js -sd=/x", Overrides(jetstream=True, store_dir="/x")),
        ("-D", Overrides(debug=True)),
        ("-V", Overrides(trace=True)),
        ("-DV", Overrides(debug=True, trace=True)),
        ("-DV=F", Overrides(debug=False, trace=False)),
        ("-VV", Overrides(trace=True, trace_verbose=True)),
        ("-DVV", Overrides(debug=True, trace=True, trace_verbose=True)),
        ("-T=0 --logtime_utc -l /l", Overrides(log_time=False, log_utc=True, log_file="/l")),
        ("--log_size_limit 5 --log_json", Overrides(log_size_limit=5, log_json=True)),
        ("--user u --pass=p=q --auth=", Overrides(username="u", password="p=q", token="")),
        ("-P /p --ports_file_dir /d", Overrides(pid_file="/p", ports_file_dir="/d")),
        (
            "--tls --tlscert c --tlskey k --tlscacert a --tlsverify",
            Overrides(tls=True, tls_cert="c", tls_key="k", tls_ca="a", tls_verify=True),
        ),
        ("-p 1 -p 2", Overrides(port=2)),
        (
            "--client_advertise h:1 --max_traced_msg_len 9",
            Overrides(client_advertise="h:1", max_traced_message=9),
        ),
        ("--no_advertise=false --routes= -s=false", Overrides()),
        ("", Overrides()),
        ("--", Overrides()),
    ],
)
def test_flags_become_overrides(arguments: str, overrides: Overrides) -> None:
    assert parse_flags(arguments.split()) == CommandLine(overrides=overrides)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("-c f -t", CommandLine(config="f", check=True)),
        ("--config=f", CommandLine(config="f")),
        ("-sl ldm=1", CommandLine(signal="ldm=1")),
        ("--signal=reload=1", CommandLine(signal="reload=1")),
        ("-v", CommandLine(version=True)),
        ("version", CommandLine(version=True)),
        ("HELP", CommandLine(help=True)),
        ("-h", CommandLine(help=True)),
        ("--help_tls", CommandLine(help_tls=True)),
    ],
)
def test_flags_that_ask_for_something_else_than_a_server(arguments: str, expected: CommandLine) -> None:
    assert parse_flags(arguments.split()) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--frobnicate", "flag provided but not defined: --frobnicate; see --help"),
        ("-pp 4", "flag provided but not defined: -pp; did you mean -p? See --help"),
        ("---p 4", "flag provided but not defined: ---p; did you mean -p? See --help"),
        ("-=4", "flag provided but not defined: -; see --help"),
        ("-p", "flag needs an argument: -p"),
        ("-p x", 'invalid value "x" for flag -p: expected an integer'),
        ("-js=maybe", 'invalid boolean value "maybe" for -js'),
        ("-js true", 'unrecognized command: "true"'),
        ("start", 'unrecognized command: "start"'),
        ("-", 'unrecognized command: "-"'),
        ("-- -p", 'unrecognized command: "-p"'),
        (
            "--routes nats://a:1",
            "--routes: not supported by Millstream: clustering; Millstream is a single server",
        ),
        (
            "-cluster=nats://a:1",
            "-cluster: not supported by Millstream: clustering; Millstream is a single server",
        ),
        (
            "--cluster_name c",
            "--cluster_name: not supported by Millstream: clustering; Millstream is a single server",
        ),
        ("--profile 6060", "--profile: not supported by Millstream: Go profiling"),
        ("-s", "-s: not supported by Millstream: syslog; log to a file or to standard error"),
    ],
)
def test_what_cannot_be_done_is_said(arguments: str, message: str) -> None:
    with pytest.raises(FlagError) as caught:
        parse_flags(arguments.split())
    assert str(caught.value) == message


def test_every_flag_is_in_the_help() -> None:
    words = set(re.findall(r"(?<!\S)-{1,2}(\w+)", help_text()))
    assert {name for flag in FLAGS for name in flag.names} <= words


def test_no_flag_is_listed_twice_and_all_targets_exist() -> None:
    names = [name for flag in FLAGS for name in flag.names]
    assert len(names) == len(set(names))
    overrides = set(Overrides.__struct_fields__)
    actions = set(CommandLine.__struct_fields__)
    for flag in FLAGS:
        assert set(flag.into) <= overrides
        assert flag.action in actions if flag.action else flag.into or flag.section is HelpSection.UNSUPPORTED
    assert {target for flag in FLAGS for target in flag.into} == overrides


@pytest.mark.oracle
def test_the_flags_of_nats_server_are_recorded(request: pytest.FixtureRequest) -> None:
    command = [*command_for(ServerKind.NATS_SERVER), "--help"]
    text = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout
    theirs = set(re.findall(r"(?:^\s*|,\s*)-{1,2}(\w+)", text, re.MULTILINE))
    RECORDED.compare(request.node, "flags", sorted(theirs))


def test_every_flag_of_nats_server_is_known() -> None:
    theirs = RECORDED.find("flags")
    assert theirs is not None
    assert len(theirs) > 40
    assert set(theirs) <= {name for flag in FLAGS for name in flag.names}
