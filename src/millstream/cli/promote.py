"""`millstream promote`: its options, the signal to cut over, and its output."""

import asyncio
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from millstream.cli.connection import connected, talks_to_a_second, talks_to_a_server
from millstream.cli.progress_bars import progress_for
from millstream.cli.transfer import JsonOption, chosen, run, show, size_text
from millstream.link.options import LinkOptions
from millstream.transfer.api import JetStreamApi
from millstream.transfer.freeze import release
from millstream.transfer.plan import Method, PromoteOptions, StreamPlan, plan
from millstream.transfer.promotion import Promotion, PromotionResult


@talks_to_a_server
@talks_to_a_second
def promote(
    *,
    server: LinkOptions,
    to: LinkOptions | None,
    streams: Annotated[
        list[str] | None,
        typer.Argument(metavar="STREAM", help="Which streams, * and ? as in a shell; all if none is named."),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Keep the target up to date until you say that it is time.")
    ] = False,
    cut_over: Annotated[
        bool,
        typer.Option("--cut-over", help="Freeze the source and hand over; with --live, when it is close."),
    ] = False,
    method: Annotated[
        Method | None,
        typer.Option(help="How --live catches up at the cut-over; chosen by size if not given."),
    ] = None,
    replicas: Annotated[
        int, typer.Option(metavar="NUMBER", min=0, max=5, help="Number of replicas; 0 keeps the number.")
    ] = 0,
    cluster: Annotated[
        str, typer.Option("--cluster", metavar="NAME", help="Place streams in this cluster.")
    ] = "",
    tags: Annotated[
        list[str] | None,
        typer.Option("--tag", metavar="TAG", help="Place them on servers with this tag; several times."),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Delete streams of the same names at the target first.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify/--no-verify", help="Compare every message and every consumer.")
    ] = True,
    grace: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=0, help="Seconds for clients to acknowledge what they have in hand."
        ),
    ] = 10.0,
    work_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Where archives are kept meanwhile; a temporary folder if not given."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done; do nothing.")] = False,
    give_back: Annotated[
        bool, typer.Option("--release", help="Only undo the freeze of a run that was killed.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Move streams and their consumers to another server or a cluster: sequences, times, acknowledgements.

    Without --live or --cut-over, streams are copied as they are now and the source is left alone.

    With --cut-over, the source is frozen (publishers get an error, consumers get nothing), everything is
    copied and compared, and the target takes over.

    With --live, the copy is made while both are in use and kept up to date; press Enter or send SIGUSR1 to
    cut over. Ctrl-C before that leaves the source as it was; running the command again goes on.

    Nothing is ever removed from the source.

    Examples:

      millstream promote --to nats://cluster:4222 --replicas 3 --dry-run

      millstream promote --to nats://db2:4222 --to-creds ops.creds --live ORDERS
    """
    if to is None and not give_back:
        raise typer.BadParameter("say where to, for example nats://cluster:4222", param_hint="--to")
    options = PromoteOptions(
        live=live,
        cut_over=cut_over,
        method=method,
        replicas=replicas,
        cluster=cluster,
        tags=tuple(tags or ()),
        replace=replace,
        verify=verify,
        grace_s=grace,
    )

    async def work() -> int:
        async with connected(server, "millstream promote") as source:
            names = await chosen(source, streams or [])
            if give_back:
                released = [name for name in names if await release(source, name)]
                lines = [f"{name} goes on as before" for name in released] or ["nothing is frozen"]
                show({"released": released}, lines, json=json)
                return 0
            assert to is not None
            async with connected(to, "millstream promote") as target:
                plans = await plan(source, target, names, options)
                if dry_run:
                    show({"streams": [each.report() for each in plans]}, _plan_lines(plans), json=json)
                    return 1 if any(each.problems for each in plans) else 0
                word = None if cut_over else _word(json=json)
                with progress_for(json=json) as progress, _folder(work_dir) as folder:
                    promotion = Promotion(source, target, plans, options, progress, folder, word)
                    result = await promotion.run()
                show(result.report(), _result_lines(result, source, target), json=json)
                return 0 if result.complete else 1

    run(work())


@contextmanager
def _folder(path: Path | None) -> Iterator[Path]:
    if path is not None:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="millstream-promote-") as made:
        yield Path(made)


def _word(*, json: bool) -> Any:
    """Return a function that waits for Enter or SIGUSR1, the signal to cut over."""

    async def wait() -> None:
        said = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, said.set)
        terminal = sys.stdin.isatty()
        if terminal:
            loop.add_reader(sys.stdin, said.set)
        if not json:
            print("press Enter or send SIGUSR1 to cut over; Ctrl-C stops following", file=sys.stderr)
        try:
            await said.wait()
        finally:
            loop.remove_signal_handler(signal.SIGUSR1)
            if terminal:
                loop.remove_reader(sys.stdin)

    return wait


def _plan_lines(plans: list[StreamPlan]) -> list[str]:
    lines = []
    for each in plans:
        state = each.state
        line = (
            f"{each.name}: {state['messages']} messages ({size_text(state['bytes'])}), "
            f"{len(each.consumers)} consumers, {each.target_config.get('num_replicas', 1)} replicas; "
            f"{each.method}"
        )
        line += f" ({each.remark})" if each.remark else ""
        line += f"; at the target: {each.found}"
        lines.append(line)
        lines += [f"  PROBLEM: {problem}" for problem in each.problems]
    return lines or ["there are no streams"]


def _result_lines(result: PromotionResult, source: JetStreamApi, target: JetStreamApi) -> list[str]:
    if not result.streams:
        return ["there are no streams"]
    lines = []
    for each in result.streams:
        if each.error:
            lines.append(f"{each.plan.name}: FAILED: {each.error}")
            continue
        how = "was there already" if each.was_there else str(each.plan.method)
        lines.append(
            f"{each.plan.name}: {each.state['messages']} messages, last sequence {each.state['last_seq']}, "
            f"{len(each.consumers)} consumers ({how})"
        )
    if result.verified and result.complete:
        lines.append("every message and every consumer was compared, and is the same")
    if result.cut_over:
        lines.append(f"the source was frozen for {result.frozen_s:.1f} s before the target took over")
        if result.in_hand:
            lines.append(
                f"{result.in_hand} messages were in hand, and {result.late_acks} late acknowledgements "
                "were carried over"
            )
        lines.append(f"now point clients at {target.where}; {source.where} stays frozen, and has everything")
    return lines
