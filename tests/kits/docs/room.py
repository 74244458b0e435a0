"""One server, one gateway, one folder: where a reader goes through all pages.

The server and the gateway are those of `make run`, with its stream ORDERS and its traffic.  Addresses on the
pages are replaced by those of the room, so that it can run beside anything.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from millstream.spark.pipeline.session import python_environment
from tests.kits.docs.blocks import Block, Command, PageError, as_pattern, commands, is_shown, read_page
from tests.kits.docs.configurations import CHECKS, make_etc
from tests.kits.docs.processes import BlockFailed, Interpreter, Shell, wait_for
from tests.kits.paths import ROOT
from tests.kits.ports import free_ports
from tests.kits.spark import short_jvm

# What `make run` listens on; and ports that pages give to servers of their own.
NATS, MONITORING, GATEWAY = "4222", "8222", "3000"
OTHER_PORTS: Final = ("3001", "4333", "7077", "8223", "8333", "15002")

SERVER: Final = re.compile(r"millstream (serve|gateway)\b")
_READY: Final = {"serve": "Server is ready", "gateway": "millstream gateway listens on"}  # what they say
# Commands that are not typed, and what is looked at instead.
SKIPPED: Final = {
    "make": "this is run by make; the target must be in the Makefile",
    "pip": "it would change the environment that the tests run in; the extras must be in pyproject.toml",
    "git": "it needs the network",
}
_LINKS: Final = ("examples", "benchmarks", "tests", "src", "Makefile", "pyproject.toml")
_STARTS: Final = 10
_UNWANTED: Final = ("NATS_", "PYSPARK_", "SPARK_", "PYTHON", "VIRTUAL_ENV", "LOG_", "CONFIG_FILE")


class Room:
    def __init__(self, folder: Path) -> None:
        self.folder = folder / "reader"
        self.folder.mkdir()
        for name in _LINKS:
            (self.folder / name).symlink_to(ROOT / name)
        (self.folder / ".venv").symlink_to(sys.prefix)
        for name in ("home", "tmp", "notes"):
            (folder / name).mkdir()
        self.notes = folder / "notes"
        # Curl shows how far it is when its output is no terminal, as here.
        (folder / "home" / ".curlrc").write_text("silent\nshow-error\n")
        make_etc(folder / "etc")
        self.folders = {
            "/etc/millstream": str(folder / "etc"),
            "/var/lib/millstream": str(folder / "var"),
            "/tmp": str(folder / "tmp"),
        }
        self.ports = dict(zip((NATS, MONITORING, GATEWAY), map(str, free_ports(3)), strict=True))
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(_UNWANTED)},
            "HOME": str(folder / "home"),
            "TMPDIR": str(folder / "tmp"),
            "PATH": f"{Path(sys.prefix) / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PYTHONUNBUFFERED": "1",
            "LC_ALL": "C.UTF-8",
            "NATS_URL": f"nats://127.0.0.1:{self.ports[NATS]}",  # where a reader's server is by default
            "SPARK_LOCAL_IP": "127.0.0.1",
            **python_environment("local[2]"),
            "JDK_JAVA_OPTIONS": f"{short_jvm.OPTIONS} -Xmx1g",
        }
        self._start_desk()

    def _start_desk(self) -> None:
        flags = {"--port": NATS, "--monitor-port": MONITORING, "--gateway-port": GATEWAY}
        self._log = self.notes / "make_run.log"
        with self._log.open("wb") as log:
            self._desk = subprocess.Popen(
                [sys.executable, "-m", "examples.orders", "--no-spark"]
                + [word for flag, name in flags.items() for word in (flag, self.ports[name])],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            wait_for(self._is_open, self._log.read_text)
        except BaseException:
            self.close()
            raise

    def _is_open(self) -> bool:
        assert self._desk.poll() is None, self._log.read_text()
        base = f"http://127.0.0.1:{self.ports[GATEWAY]}"
        with contextlib.suppress(OSError), urlopen(f"{base}/v2/streams/ORDERS", timeout=5) as answer:
            return int(json.load(answer)["state"].get("num_subjects", 0)) >= 3  # every step of an order
        return False

    def archive(self) -> None:
        """Do once what the pipeline of `make run` does all the time: the stream ORDERS into a table."""
        pipeline = str(ROOT / "examples/orders/pipeline.toml")
        done = subprocess.run(
            [sys.executable, "-m", "millstream", "pipeline", "run", pipeline, "--once", "--job", "archive"],
            cwd=self.folder / "data",
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def check(self) -> None:
        """Raise if the server or the gateway ended, or met an error that nobody expected."""
        assert self._desk.poll() is None, self._log.read_text()
        for path in (self._log, *(self.folder / "data").glob("*.log")):
            text = path.read_text(errors="replace")
            for sign in ("Traceback (most recent call last)", " ended, next try in "):
                assert sign not in text, f"{path.name}:\n{text}"

    def close(self) -> None:
        if self._desk.poll() is None:
            self._desk.send_signal(signal.SIGINT)
            try:
                self._desk.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(self._desk.pid, signal.SIGKILL)
                self._desk.wait()


class Visit:
    """One page from its first block to its last, by one reader with a shell and a Python interpreter."""

    def __init__(self, room: Room, page: str, *, whole: bool = False) -> None:
        self._room = room
        self._page = page
        self._whole = whole  # with what is for `make soak` alone
        self._ports: dict[str, str] = dict(room.ports)
        self._notes = room.notes / page.replace("/", "+")
        self._stack = contextlib.ExitStack()
        self._programs = self._stack.enter_context(contextlib.ExitStack())
        self._shell: Shell | None = None
        self._interpreter: Interpreter | None = None

    def __enter__(self) -> "Visit":
        shutil.rmtree(self._notes, ignore_errors=True)
        self._notes.mkdir()
        return self

    def __exit__(self, *unused: object) -> None:
        self._stack.close()

    def run(self) -> None:
        """Run every block; raise BlockFailed or PageError for the first that is not as the page says."""
        for block in read_page(self._page):
            try:
                self._run(block)
            except AssertionError as error:
                raise BlockFailed(f"{block.place}: {error}") from None

    def _run(self, block: Block) -> None:
        if block.is_output or "not run" in block.marks or ("soak" in block.marks and not self._whole):
            return
        if "file" in block.marks:
            self._save(block)
        if block.language == "console":
            for command in commands(block):
                self._type(block, command)
        elif block.language == "python" and "file" not in block.marks:
            self._execute(block)
        elif block.language in CHECKS and not (block.language == "yaml" and "file" in block.marks):
            path = self._notes / f"{block.line}.{block.language}"
            CHECKS[block.language](self._placed(block.text), path)
        elif "file" not in block.marks:
            raise PageError(f"{block.place}: the block is neither run nor marked `not run: REASON`")

    # -- blocks -------------------------------------------------------------------------------------

    def _save(self, block: Block) -> None:
        name = block.marks["file"]
        assert f"`{name}`" in (ROOT / self._page).read_text(), f"the page does not name the file {name}"
        path = self._room.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._placed(block.text))

    def _run_patiently(self, interpreter: Interpreter, block: Block) -> str:
        """Run a block, and again if Spark did not wait for Python: it gives a worker ten seconds to start."""
        for _ in range(_STARTS):
            try:
                return interpreter.run(self._placed(block.text), self._page, block.line)
            except BlockFailed as error:
                if "Python worker failed to connect back" not in str(error):
                    raise
        raise BlockFailed("Spark has not waited for Python again and again")

    def _execute(self, block: Block) -> None:
        if "continues" not in block.marks:
            self._programs.close()
            notes = self._notes / f"python-{block.line}"
            self._interpreter = Interpreter(self._room.folder, self._room.environment, notes)
            self._programs.callback(self._interpreter.close)
        assert self._interpreter is not None, "there is no program that the block could continue"
        printed = self._run_patiently(self._interpreter, block)
        expected = block.output
        self._compare(
            f"{block.place}: the program",
            printed,
            expected.text if expected else "",
            [*block.differing, *(expected.differing if expected else ())],
        )

    def _type(self, block: Block, command: Command) -> None:
        shell = self._opened_shell()
        words = command.text.split()
        if words[0] in SKIPPED:
            _look_at_skipped(words)
            return
        server = SERVER.match(command.text)
        text = self._placed(command.text)
        if server and not {"-t", "--help", "-h"} & set(words):
            self._start_server(shell, server[1], command, block)
        elif command.is_last and "until Ctrl-C" in block.marks:
            shown = as_pattern(self._placed(command.output), block.differing)
            shell.interrupt(shell.start(text, lambda output: shown.match(output) is not None))
        else:
            self._compare(
                f"{self._page}:{command.line}: $ {command.text}",
                shell.run(text),
                command.output,
                block.differing,
            )

    def _start_server(self, shell: Shell, kind: str, command: Command, block: Block) -> None:
        """Start a server of the page's own; where it wants the room's ports, on others."""
        taken = (NATS, MONITORING) if kind == "serve" else (GATEWAY,)
        own = self._ports | dict(zip(taken, map(str, free_ports(len(taken))), strict=True))
        text = self._placed(command.text, own)
        if not re.search(r" (-c|-p|--port)\b", text):
            text += f" -p {own[taken[0]]}"
        if kind == "serve" and not re.search(r" (-c|-a)\b", text):
            text += " -a 127.0.0.1"
        shown = as_pattern(self._placed(command.output, own), block.differing)

        def is_ready(output: str) -> bool:
            return _READY[kind] in output and (not command.output or shown.match(output) is not None)

        shell.start(text, is_ready, errors_too=True)

    # -- helpers ------------------------------------------------------------------------------------

    def _opened_shell(self) -> Shell:
        if self._shell is None:
            self._shell = Shell(self._room.folder, self._room.environment, self._notes / "shell")
            self._stack.callback(self._shell.close)
        return self._shell

    def _placed(self, text: str, ports: Mapping[str, str] | None = None) -> str:
        """Return the text with the room's ports and folders in place of those that it names."""
        known = self._ports if ports is None else ports
        folders = self._room.folders

        def replacement(found: re.Match[str]) -> str:
            name = found[0]
            if name in folders:
                return folders[name]
            if name not in known:
                self._ports[name] = str(*free_ports(1))
            return known.get(name) or self._ports[name]

        names = "|".join((NATS, MONITORING, GATEWAY, *OTHER_PORTS))
        return re.sub(rf"(?<![\w.])(?:{names}|{'|'.join(folders)})(?![\w.])", replacement, text)

    def _compare(self, what: str, found: str, expected: str, differing: list[str]) -> None:
        expected = self._placed(expected)
        if not is_shown(found, expected, differing):
            raise BlockFailed(f"{what}\nprinted:\n{found}\nbut the page says:\n{expected}")


def _look_at_skipped(words: list[str]) -> None:
    """Compare a command that is not typed with what it is about."""
    if words[0] == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert {word for word in words[1:2] if word.isalpha()} <= set(targets), f"no target: {words}"
    if words[0] == "pip":
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        for listed in re.findall(r"(?:\.|millstream)\[([\w,]+)\]", " ".join(words)):
            assert set(listed.split(",")) <= set(extras), f"no extra: {words}"
