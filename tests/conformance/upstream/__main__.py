"""Run the tests of the nats.py project against `millstream serve`.

    python -m tests.conformance.upstream CHECKOUT

Those tests start a program called `nats-server`.  Here they find one that is Millstream: a script in a
temporary folder that comes first on the PATH, with the home folder moved away because they look there
too.  With ``--server`` the script starts another server, to see what fails without us.

Not here: which tests (``suites``), and the packages that the tests need; nothing is installed.
"""

import argparse
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import millstream
from tests.conformance.upstream.suites import SUITES, Suite

_NO_TESTS_SELECTED: Final = 5  # pytest's exit code
_VERSION: Final = re.compile(r"nats-server: (v\S+)")


class CannotRun(Exception):
    """Something the tests need is missing; the text says what to do."""


def main() -> int:
    arguments, pytest_arguments = _parser().parse_known_args()
    checkout = arguments.checkout.resolve()
    suites = [suite for suite in SUITES if arguments.suite in (None, suite.name)]
    try:
        for suite in suites:
            _check(suite, checkout, arguments.python)
        with tempfile.TemporaryDirectory(prefix="millstream-upstream-") as folder:
            version = _make_server(Path(folder), arguments.server)
            print(f"Testing nats-server {version}: {arguments.server or 'millstream serve'}", flush=True)
            codes = [
                _run(suite, checkout, arguments.python, Path(folder), version, pytest_arguments)
                for suite in suites
            ]
    except CannotRun as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    ran = [code for code in codes if code != _NO_TESTS_SELECTED]
    return max(ran, default=_NO_TESTS_SELECTED)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance.upstream",
        description="Run nats.py's own tests against millstream serve. Other options go to pytest.",
        allow_abbrev=False,
    )
    parser.add_argument("checkout", type=Path, help="a checkout of nats.py")
    parser.add_argument("--suite", choices=[suite.name for suite in SUITES], help="only this one")
    parser.add_argument(
        "--python", default=sys.executable, help="the Python that has what the tests need (default: this one)"
    )
    parser.add_argument("--server", type=Path, help="test this nats-server binary instead of Millstream")
    return parser


def _check(suite: Suite, checkout: Path, python: str) -> None:
    tests = checkout / suite.folder / suite.tests
    if not tests.is_dir():
        raise CannotRun(f"{checkout} is no checkout of nats.py: there is no folder {tests}")
    if (tests / "nats-server").is_file():
        raise CannotRun(f"{tests / 'nats-server'} would be tested instead; move it away")
    probe = (
        "import importlib.util, sys\n"
        f"missing = [name for name in {suite.modules} if importlib.util.find_spec(name) is None]\n"
        f"old = sys.version_info < {suite.python}\n"
        f"print('Python %d.%d or newer' % {suite.python} if old else '', *missing)"
    )
    answer = subprocess.run([python, "-c", probe], capture_output=True, text=True, check=True)
    if answer.stdout.strip():
        raise CannotRun(
            f"to run the tests of {suite.name}, {python} lacks: {answer.stdout.strip()}; see README.md"
        )
    for port in suite.ports:
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind(("127.0.0.1", port))
            except OSError as error:
                raise CannotRun(f"the tests of {suite.name} need port {port}: {error.strerror}") from None


def _make_server(folder: Path, server: Path | None) -> str:
    """Put a `nats-server` into the folder and return the version that it claims to have."""
    ours = [sys.executable, "-P", "-m", "millstream", "serve"]
    command = ours if server is None else [str(server.resolve())]
    # The library under test must not become the server's, and a server that compiles its modules
    # anew at each of hundreds of starts makes everything slow.
    package_parent = Path(millstream.__file__).resolve().parents[1]
    script = folder / "nats-server"
    script.write_text(
        "#!/bin/sh\n"
        "unset PYTHONDONTWRITEBYTECODE\n"
        f"export PYTHONPATH={shlex.quote(str(package_parent))}\n"
        f'exec {shlex.join(command)} "$@"\n'
    )
    script.chmod(0o755)
    (folder / "home").mkdir()
    answer = subprocess.run([str(script), "--version"], capture_output=True, text=True)
    match = _VERSION.match(answer.stdout)
    if match is None:
        raise CannotRun(f"the server does not tell its version: {answer.stdout}{answer.stderr}")
    return match[1]


def _run(
    suite: Suite, checkout: Path, python: str, folder: Path, version: str, arguments: Sequence[str]
) -> int:
    print(f"\n{suite.name}: left out", flush=True)
    for name, reason in (*suite.left_out_files.items(), *suite.left_out_tests.items()):
        print(f"  {name}: {reason}", flush=True)
    environment = {
        **os.environ,
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder / "home"),
        "PYTHONPATH": os.pathsep.join(str(checkout / source) for source in suite.sources),
        "PYTHONDONTWRITEBYTECODE": "1",  # a checkout is left as it was
        "NATS_SERVER_VERSION": version,  # without it some tests are skipped
    }
    command = [
        *(python, "-m", "pytest", "-p", "no:cacheprovider", suite.tests),
        *(f"--ignore={name}" for name in suite.left_out_files),
        *(f"--deselect={name}" for name in suite.left_out_tests),
        *arguments,
    ]
    return subprocess.run(command, cwd=checkout / suite.folder, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
