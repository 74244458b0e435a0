"""Work that `millstream serve` does not wait for: scripts and tests start servers by the hundred."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from millstream.golang.time import Time
from millstream.jetstream.store_folder import claim
from millstream.jetstream.stream import meta
from millstream.jsapi.enums import StorageType
from millstream.jsapi.stream_types import StreamConfig
from millstream.store.fs import RealFileSystem
from tests.kits.patience import PATIENCE_S

# Each is for a setting, a flag, a request or a command; a server starts and greets its clients without it.
NEVER_AT_THE_START = (
    "bcrypt",
    "cramjam",
    "cryptography",
    "dataclasses",
    "difflib",
    "email",
    "gzip",
    "h11",
    "hashlib",
    "hmac",
    "html",
    "http",
    "ipaddress",
    "logging.handlers",
    "millstream.arrow.batch",
    "millstream.broker.tls",
    "millstream.broker.tls_accept",
    "millstream.broker.websocket",
    "millstream.client",
    "millstream.cli.app",
    "millstream.cli.signals",
    "millstream.config.parser",
    "millstream.config.reload",
    "millstream.config.schema",
    "millstream.gateway",
    "millstream.jetstream.snapshots.api",
    "millstream.jetstream.consumers.api",
    "millstream.jetstream.stream.stream",
    "millstream.jetstream.stream.api",
    "millstream.server.arrow.clients",
    "millstream.server.jetstream_view",
    "millstream.server.monitor.endpoint",
    "millstream.server.monitor.formats",
    "millstream.server.monitor.routes",
    "millstream.server.process_files",
    "millstream.server.reload",
    "millstream.server.system.answers",
    "millstream.spark",
    "millstream.transfer",
    "millstream.link",
    "multiprocessing",
    "nats",
    "numpy",
    "pathlib",
    "pickle",
    "prometheus_client",
    "pyarrow",
    "pydantic",
    "pyspark",
    "rich",
    "secrets",
    "shutil",
    "tarfile",
    "tempfile",
    "typer",
    "urllib",
    "zoneinfo",
)
ONLY_WITH_JETSTREAM = (
    "json",
    "millstream.jetstream.engine",
    "millstream.server.arrow",
    "millstream.server.workers",
    "millstream.store",
)

# Prints what is loaded when the server is ready, and what its event loop and its JSON load by themselves.
LOADED_MODULES = """
import sys
import asyncio, logging, msgspec, random
try:
    import uvloop
except ImportError:
    pass
foundation = set(sys.modules)
from millstream.server import later
from millstream.server.server import Server

later.load_in_thread = lambda options: None

async def report(server):
    print(*(sys.modules.keys() - foundation), sep="\\n")
    await server.stop()

Server.wait_stopped = report
from millstream.cli.main import main
main(["serve", "-a", "127.0.0.1", "-p", "-1", *sys.argv[1:]])
"""


def loaded_modules(*flags: str) -> set[str]:
    ended = subprocess.run(
        [sys.executable, "-c", LOADED_MODULES, *flags],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=os.environ,
    )
    assert ended.returncode == 0, ended.stderr
    found = set(ended.stdout.splitlines())
    assert "millstream.broker.broker" in found
    return found


def test_a_server_starts_without_what_it_may_never_need() -> None:
    assert sorted(loaded_modules() & {*NEVER_AT_THE_START, *ONLY_WITH_JETSTREAM}) == []


def test_jetstream_starts_without_what_it_may_never_need(tmp_path: Path) -> None:
    found = loaded_modules("-js", "-sd", str(tmp_path))
    assert sorted(found & set(NEVER_AT_THE_START)) == []
    assert found >= set(ONLY_WITH_JETSTREAM)


def test_streams_start_without_what_few_of_them_need(tmp_path: Path) -> None:
    fs, folder = RealFileSystem(), f"{claim(str(tmp_path))}/$G/streams/S"
    meta.make_folder(fs, folder)
    config = StreamConfig(name="S", subjects=["s"], storage=StorageType.FILE)
    meta.create(fs, folder, meta.StreamMeta(config=config, created=Time(1)))
    found = loaded_modules("-js", "-sd", str(tmp_path))
    assert sorted(found & set(NEVER_AT_THE_START)) == ["millstream.jetstream.stream.stream"]


def test_monitoring_starts_without_its_documents() -> None:
    found = loaded_modules("-m", "-1")
    assert found & {*NEVER_AT_THE_START, *ONLY_WITH_JETSTREAM} == {"millstream.server.monitor.endpoint"}


@pytest.mark.parametrize(
    ("flags", "module"),
    [
        (("-m", "-1"), "millstream.server.monitor.endpoint"),
        (("-P", "{folder}/pid"), "millstream.server.process_files"),
        (("-c", "{folder}/file.conf"), "millstream.config.parser"),
        (("-l", "{folder}/log"), "logging.handlers"),
    ],
)
def test_a_flag_brings_what_it_needs(tmp_path: Path, flags: tuple[str, str], module: str) -> None:
    (tmp_path / "file.conf").write_text("max_payload: 1KB\n")
    assert module in loaded_modules(*(each.format(folder=tmp_path) for each in flags))


def test_the_garbage_collector_runs_again_once_the_server_does() -> None:
    """The server starts with the collector off, because nearly all that it makes then stays."""
    code = (
        "import gc, os\n"
        "import millstream.server.app as app\n"
        "class Reporting(app.Collector):\n"
        "    def start(self):\n"
        "        print(gc.isenabled(), flush=True)\n"
        "        os._exit(0)\n"
        "app.Collector = Reporting\n"
        "from millstream.cli.main import main\n"
        "main(['serve', '-a', '127.0.0.1', '-p', '-1'])\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S)
    assert (ended.returncode, ended.stdout) == (0, "True\n"), ended.stderr


# The command as it is typed; what comes before it stands for a tool that runs it.
AS_TYPED = "import sys\nfrom millstream.cli.main import main\nsys.argv[1:] = ['serve', {flags}]\nmain()\n"


def typed(before: str, flags: str, **more: str) -> subprocess.CompletedProcess[str]:
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(
        [sys.executable, "-c", before + AS_TYPED.format(flags=flags)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=buffered | more,
    )


def test_the_end_writes_what_was_printed_and_calls_what_was_registered() -> None:
    ended = typed("import atexit\natexit.register(print, 'registered')\n", "'--version'")
    assert ended.returncode == 0, ended.stderr
    first, second = ended.stdout.splitlines()
    assert first.startswith("nats-server: v")
    assert second == "registered"


def test_the_end_waits_for_no_thread_and_takes_nothing_apart() -> None:
    """A thread that never ends, and an object that would say when the interpreter lets go of it."""
    before = (
        "import threading\n"
        "threading.Thread(target=threading.Event().wait).start()\n"
        "class Kept:\n"
        "    def __del__(self): print('taken apart', flush=True)\n"
        "kept = Kept()\n"
    )
    ended = typed(before, "'--version'")
    assert ended.returncode == 0, ended.stderr
    assert "taken apart" not in ended.stdout


def test_an_end_with_an_error_has_its_exit_code() -> None:
    ended = typed("", "'--no-such-flag'")
    assert ended.returncode == 1
    assert ended.stderr.startswith("millstream: flag provided but not defined")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no disk that is always full")
def test_output_that_cannot_be_written_is_a_failure() -> None:
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "millstream", "serve", "--version"]
        ended = subprocess.run(command, stdout=full, timeout=PATIENCE_S, env=buffered)
    assert ended.returncode == 1
