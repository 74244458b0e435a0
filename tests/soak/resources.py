"""Sample the resources of processes while nobody uses them, and compare them.

A descriptor is known by what it is: a listener, a connection, a pipe, or a file.  The number of files of a
store is not compared, since each segment of a stream is open.  Each file has to be in its folder, and open
once.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx

from tests.kits.reference import ServerProcess

MOST_GROWTH: Final = 0.10  # of memory
_CLOSES_S: Final = 1.0
_LISTENS: Final = "0A"  # in /proc/net/tcp
_STORED: Final = re.compile(r".*/streams/([^/]+)/(log|consumers)/.*")


@dataclass(frozen=True, slots=True)
class Sample:
    """The resources of a process while nobody uses it."""

    memory_kb: int
    busy_s: float  # processor time so far
    threads: int
    kinds: Counter[str]  # descriptors that are no files of streams
    files: Counter[str]  # paths of open files of streams
    lost: tuple[str, ...] = ()  # open files of streams that are in no folder
    counts: dict[str, int] = field(default_factory=dict)  # what a server has
    clients: Counter[str] = field(default_factory=Counter)  # names of connections
    streams: dict[str, str] = field(default_factory=dict)  # what is in each stream

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.kinds.items()))
        files = Counter(_STORED.sub(r"\1/\2", path) for path in self.files.elements())
        lines = [
            f"{self.memory_kb} KB, {self.busy_s:.1f} s of processor time, {self.threads} threads, "
            f"{self.kinds.total()} descriptors ({kinds}), "
            f"{self.files.total()} files of streams, {self.lost or 'none'} of them lost, {self.counts}, "
            f"clients {dict(self.clients)}"
        ]
        lines += [
            f"    {name}: {about}, "
            f"open: {files[f'{name}/log']} of its log, {files[f'{name}/consumers']} of consumers"
            for name, about in sorted(self.streams.items())
        ]
        return "\n".join(lines)


def sample_process(pid: int) -> Sample:
    """Return what the kernel knows of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    targets = open_descriptors(pid)
    stored = [target for target in targets if _STORED.fullmatch(target)]
    sockets = describe_sockets(pid)
    return Sample(
        int(fields["VmRSS"].split()[0]),
        busy_s(pid),
        int(fields["Threads"]),
        Counter(sockets.get(target, kind_of(target)) for target in targets if target not in stored),
        Counter(stored),
        tuple(path for path in stored if not Path(path).exists()),
    )


async def sample_server(server: ServerProcess) -> Sample:
    """Return what the kernel and its monitoring know of a server."""
    async with httpx.AsyncClient(base_url=server.monitor_url, timeout=60) as http:
        stacks = (await http.get("/stacksz")).text.splitlines()
        general = (await http.get("/varz")).json()
        stored = (await http.get("/jsz", params={"streams": 1, "config": 1})).json()
        clients = (await http.get("/connz")).json()["connections"]
    await asyncio.sleep(_CLOSES_S)  # otherwise the connection of these requests may be counted
    found = sample_process(server.pid)
    found.counts.update(
        tasks=sum(line.startswith("task ") for line in stacks),
        connections=general["connections"],
        subscriptions=general["subscriptions"],
        streams=stored.get("streams", 0),
        consumers=stored.get("consumers", 0),
    )
    found.clients.update(client.get("name") or client.get("lang") or "?" for client in clients)
    for account in stored.get("account_details") or ():
        for stream in account.get("stream_detail") or ():
            state = stream["state"]
            found.streams[stream["name"]] = (
                f"{state['messages']} messages, {state['bytes'] // 1024} KB, {state.get('num_subjects', 0)} "
                f"subjects, {state.get('num_deleted', 0)} gaps, {state['consumer_count']} consumers"
            )
    return found


def busy_s(pid: int) -> float:
    """Return the processor time that a process has used."""
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK")


def children(pid: int) -> dict[str, int]:
    """Return the processes that a process has started and that still run, by their names."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found[Path(f"/proc/{child}/comm").read_text().strip()] = int(child)
    return found


def open_descriptors(pid: int) -> list[str]:
    """Return what each descriptor of a process leads to, as the kernel names it."""
    targets = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            targets.append(os.readlink(link))
        except FileNotFoundError:  # closed meanwhile
            continue
    return targets


def kind_of(target: str) -> str:
    """Return a descriptor's kind, which is the same for all sockets, pipes and so on."""
    if target.endswith(".jar"):
        return "jar"  # of which Spark has hundreds
    return target.split(":[")[0] if re.fullmatch(r"\w+:\[\d+\]", target) else target


def describe_sockets(pid: int) -> dict[str, str]:
    """Return what the TCP sockets of the machine are, by the names that descriptors have for them."""
    rows = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
    ]
    listeners = {_port(row[1]) for row in rows if row[3] == _LISTENS}
    found = {}
    for _, local, remote, state, *_, inode in (row[:10] for row in rows):
        about = f"connection to {_port(remote)}"
        if _port(local) in listeners:
            about = f"connection on {_port(local)}"
        found[f"socket:[{inode}]"] = "listener" if state == _LISTENS else about
    return found


def _port(address: str) -> int:
    return int(address.split(":")[1], 16)


def leaks(before: Sample, after: Sample) -> list[str]:
    """Return what is left over."""
    old, new = (
        {"threads": sample.threads, "descriptors": sample.kinds.total(), **sample.counts}
        for sample in (before, after)
    )
    found = [f"{name}: {old[name]} before, {new[name]} after" for name in old if new[name] > old[name]]
    if new["descriptors"] > old["descriptors"]:
        found.append(f"new descriptors: {dict(after.kinds - before.kinds)}")
    found += [f"removed, but open: {path}" for path in after.lost]
    found += [f"open {count} times: {path}" for path, count in after.files.items() if count > 1]
    if after.memory_kb > before.memory_kb * (1 + MOST_GROWTH):
        found.append(f"memory: {before.memory_kb} KB before, {after.memory_kb} KB after")
    return found
