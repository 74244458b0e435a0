"""`millstream serve --signal`: signals to a running server, such as stop and reload."""

import os
import signal
from pathlib import Path
from typing import Final

from millstream.base.errors import MillstreamError

COMMANDS: Final = {
    "stop": signal.SIGKILL,
    "quit": signal.SIGINT,
    "term": signal.SIGTERM,
    "reopen": signal.SIGUSR1,
    "reload": signal.SIGHUP,
    "ldm": signal.SIGUSR2,
}


class SignalError(MillstreamError):
    """Raised if a signal could not be sent to all processes."""


def send_signal(request: str) -> None:
    """Send the signal of `command`, `command=pid` or `command=file`; a pid may end in `*`."""
    command, _, target = request.partition("=")
    if command not in COMMANDS:
        raise SignalError(f'unknown signal "{command}"; known are {", ".join(COMMANDS)}')
    failures: list[str] = []
    for pid in _find_targets(_read_pid_file(target)):
        try:
            os.kill(pid, COMMANDS[command])
        except OSError as error:
            failures.append(f'signal "{command}" {pid}: {error.strerror}')
    if failures:
        raise SignalError("\n".join(failures))


def _read_pid_file(target: str) -> str:
    try:
        return Path(target).read_text(encoding="utf-8").strip() if target else ""
    except (OSError, ValueError):
        return target  # the target is the process id itself


def _find_targets(target: str) -> list[int]:
    prefix, is_pattern = target.removesuffix("*"), target.endswith("*")
    if prefix and not prefix.isdecimal():
        raise SignalError(f"invalid pid: {prefix}")
    if prefix and not is_pattern:
        return [int(prefix)]
    pids = [pid for pid in running_servers() if str(pid).startswith(prefix)]
    if not pids:
        raise SignalError("no millstream processes running")
    if len(pids) > 1 and not is_pattern:
        raise SignalError("multiple millstream processes running:\n" + "\n".join(map(str, pids)))
    return pids


def running_servers() -> list[int]:
    """Return the process ids of the servers on this machine, except this process."""
    processes = Path("/proc")
    if not (processes / "self" / "cmdline").exists():
        raise SignalError("unable to resolve pid, try providing one")
    found: list[int] = []
    for folder in processes.iterdir():
        if not folder.name.isdecimal() or int(folder.name) == os.getpid():
            continue
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # it ended meanwhile, or we may not read it
        if _is_server(words):
            found.append(int(folder.name))
    return sorted(found)


def _is_server(words: list[bytes]) -> bool:
    """Return whether a command line is `[python] …/millstream serve …` or `python -m millstream serve …`."""
    for index, word in enumerate(words[:4]):
        if os.path.basename(word) == b"millstream" and words[index + 1 : index + 2] == [b"serve"]:
            rest = words[index + 2 :]
            return not any(flag.lstrip(b"-").partition(b"=")[0] in (b"sl", b"signal") for flag in rest)
    return False
