"""Every mistake gives one line that says what to do, and the right exit code: the real programs are run."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.kits.mistakes.page import pattern_of
from tests.kits.mistakes.site import Site
from tests.kits.mistakes.table import MISTAKES, Mistake
from tests.kits.reference import ServerProcess

LIMIT_S = 100
_LOGGED = re.compile(r"^\[\d+\] \S+ \S+ \[FTL\] ")
_LEAST_PORT = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
_SECRETS = ("s3cret", "wr0ng")
_NOT_INSTALLED = (
    "import sys; sys.modules[{!r}] = None; from millstream.cli.main import main; main(sys.argv[1:])"
)


@pytest.fixture(autouse=True)
def no_servers_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the variables of whoever runs the tests, also from processes that are forked."""
    for name in [name for name in os.environ if name.startswith("NATS_")]:
        monkeypatch.delenv(name)


def command_of(mistake: Mistake, site: Site) -> list[str]:
    """Return the command line: without its package or its privileges, if that is the mistake."""
    start = ["-m", "millstream"]
    if mistake.without:
        start = ["-c", _NOT_INSTALLED.format(mistake.without)]
    command = [sys.executable, *start, *(site.filled(word) for word in mistake.command.split())]
    if "-p 80" in mistake.command and _LEAST_PORT.exists() and int(_LEAST_PORT.read_text()) <= 80:
        pytest.skip("everybody may listen on port 80 here")
    if mistake.unprivileged and os.geteuid() == 0:
        dropping = shutil.which("setpriv")
        if dropping is None:
            pytest.skip("there is no way to be somebody else than root")
        command = [dropping, "--bounding-set=-all", "--inh-caps=-all", *command]
    return command


def environment_of(mistake: Mistake, site: Site) -> Mapping[str, str]:
    return os.environ | {name: site.filled(value) for name, value in mistake.environment.items()}


def run(mistake: Mistake, site: Site) -> subprocess.CompletedProcess[str]:
    """Run the command to its end; where nothing is wrong with its Python, in a fork that has imported it."""
    environment, command = environment_of(mistake, site), command_of(mistake, site)
    if command[:3] == [sys.executable, "-m", "millstream"]:
        assert ServerProcess.nursery is not None
        return ServerProcess.nursery.run(command[3:], environment, LIMIT_S)
    return subprocess.run(
        command, capture_output=True, text=True, timeout=LIMIT_S, check=False, env=environment
    )


def check_line(mistake: Mistake, line: str) -> None:
    assert pattern_of(mistake.line).fullmatch(line), f"\nwanted: {mistake.line}\n   got: {line}"
    assert not any(secret in line for secret in _SECRETS)


@pytest.mark.parametrize("mistake", [each for each in MISTAKES if not each.goes_on], ids=str)
def test_a_mistake_is_answered_in_one_line(mistake: Mistake, site: Site) -> None:
    ended = run(mistake, site)
    lines = ended.stderr.splitlines()
    assert "Traceback" not in ended.stderr
    if mistake.is_logged:
        assert _LOGGED.match(lines[-1]), ended.stderr
        line = _LOGGED.sub("", lines[-1])
    else:
        assert (len(lines), ended.stdout) == (1, ""), ended.stderr + ended.stdout
        assert lines[0].startswith("millstream: ")
        line = lines[0].removeprefix("millstream: ")
    check_line(mistake, line)
    assert ended.returncode == mistake.code


@pytest.mark.parametrize("mistake", [each for each in MISTAKES if each.goes_on], ids=str)
def test_a_gateway_logs_once_why_nats_is_not_there_and_goes_on(mistake: Mistake, site: Site) -> None:
    with subprocess.Popen(
        command_of(mistake, site),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment_of(mistake, site), "PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stderr is not None
        try:
            logged = process.stderr.readline()  # the first that comes at the default level
        finally:
            process.terminate()
        rest, code = process.stderr.read(), process.wait(LIMIT_S)
    moment, level, line = logged.rstrip("\n").split(" ", 2)
    assert (moment[:2], level) == ("20", "WARNING")
    check_line(mistake, line)
    assert (rest, code) == ("", mistake.code)
