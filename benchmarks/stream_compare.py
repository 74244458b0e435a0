"""Millstream, which syncs before it acknowledges, beside nats-server as it is and nats-server that syncs too.

As in ``compare``, servers take turns, and neighbouring rounds are a pair.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing

from benchmarks.compare import Row, row_of
from benchmarks.servers import streaming
from benchmarks.stream_store import StoreWorkload
from benchmarks.stream_workloads import StreamWorkload
from benchmarks.workloads import Outcome, Target, Workload
from tests.kits.reference import Server

_WARM_SCALE = 0.1
_SYNCED = "sync_interval: always"


def compare_publishing(
    each: StreamWorkload,
    ours: Server,
    theirs: Server,
    *,
    rounds: int,
    scale: float,
    progress: Callable[[str], None],
) -> list[Row]:
    """The row against `theirs`, and the one against `theirs` when it syncs."""
    workload = each.workload
    with ExitStack() as stack:
        turns = [
            (stack.enter_context(streaming(ours)), scale),
            (stack.enter_context(streaming(theirs)), scale),
        ]
        if each.synced:
            turns.append((stack.enter_context(streaming(theirs, _SYNCED)), scale * each.synced_scale))
        outcomes: list[list[Outcome]] = [[] for _ in turns]
        for target, size in turns:
            workload.run(target, size * _WARM_SCALE)
        for number in range(rounds):
            progress(f"{workload.title}: round {number + 1} of {rounds}")
            _take_turns(workload, turns, outcomes, backwards=number % 2 == 1)
    (suffix,) = workload.rows
    rows = [row_of(workload.name, workload.title, suffix, outcomes[0], outcomes[1])]
    if each.synced:
        title = f"{workload.title}, theirs synced"
        same_work = each.synced_scale == 1
        rows.append(
            row_of(f"{workload.name} synced", title, suffix, outcomes[0], outcomes[2], same_work=same_work)
        )
    return rows


def _take_turns(
    workload: Workload,
    turns: Sequence[tuple[Target, float]],
    outcomes: Sequence[list[Outcome]],
    *,
    backwards: bool,
) -> None:
    order = list(range(len(turns)))
    for index in reversed(order) if backwards else order:
        target, scale = turns[index]
        outcomes[index].append(workload.run(target, scale))


def compare_store(
    workload: StoreWorkload,
    ours: Server,
    theirs: Server,
    *,
    rounds: int,
    scale: float,
    progress: Callable[[str], None],
) -> list[Row]:
    """Rows of a workload that starts its servers itself."""
    progress(f"{workload.title}: filling")
    with ExitStack() as stack:
        sides = [stack.enter_context(closing(workload.prepare(kind, scale))) for kind in (ours, theirs)]
        outcomes: tuple[list[Outcome], list[Outcome]] = ([], [])
        for number in range(rounds):
            progress(f"{workload.title}: round {number + 1} of {rounds}")
            for index in (0, 1) if number % 2 == 0 else (1, 0):
                outcomes[index].append(sides[index].run())
    return [
        row_of(
            f"{workload.name} {suffix}".strip(),
            f"{workload.title}, {suffix}" if suffix else workload.title,
            suffix,
            *outcomes,
        )
        for suffix in workload.rows
    ]
