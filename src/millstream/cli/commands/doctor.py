"""`millstream doctor`: check a server and this machine, and print advice."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from millstream.cli.checkup.findings import Finding, Findings, FindingVerdict
from millstream.cli.checkup.machine import check_machine, check_store
from millstream.cli.checkup.monitoring import check_monitoring
from millstream.cli.checkup.server import check_server, is_local
from millstream.cli.connection import connected, talks_to_a_server
from millstream.cli.endings import FAILED
from millstream.cli.output.tables import CommandOutput, JsonOption
from millstream.cli.output.texts import safe
from millstream.cli.session import run
from millstream.link.errors import BadLinkOptions, LinkError
from millstream.link.options import LinkOptions

_MARKS: Final = {
    FindingVerdict.OK: "ok",
    FindingVerdict.WARNING: "WARN",
    FindingVerdict.FAILURE: "FAIL",
    FindingVerdict.SKIPPED: "skip",
}


@talks_to_a_server
def doctor(
    *,
    server: LinkOptions,
    store: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="The server's store on this machine: disk, space, permissions."),
    ] = None,
    monitor: Annotated[
        str,
        typer.Option(metavar="URL", help="Its monitoring port, http://127.0.0.1:8222 say: health and load."),
    ] = "",
    json: JsonOption = False,
) -> None:
    """Check a server, its store, clocks, disk, limits, permissions and versions; say what to change.

    Nothing is changed on the server. In the folder of --store, a small file without a name is
    written, to measure how long a sync takes. Ends with 1 if something does not work; warnings end with 0.

    \b
    Examples:
      millstream doctor
      millstream doctor --monitor http://127.0.0.1:8222 --store /var/lib/millstream
      millstream doctor --context prod --json | jq '.findings[] | select(.verdict != "ok")'
    """

    async def work() -> int:
        found = Findings()
        check_machine(found)
        try:
            async with connected(server, "millstream doctor") as api:
                await check_server(api, server, found)
        except BadLinkOptions:
            raise
        except LinkError as error:
            found.fail(
                "server", str(error), "Start one with `millstream dev`, or name yours: --server, --context."
            )
        folder = check_monitoring(monitor, found) if monitor else ""
        _check_store(store, folder if is_local(server) else "", found)
        _show(CommandOutput(json=json), found)
        return FAILED if found.count(FindingVerdict.FAILURE) else 0

    run(work())


def _check_store(given: Path | None, told: str, found: Findings) -> None:
    """Check the given folder, or the one that monitoring reports if it is on this machine."""
    if given is not None:
        check_store(given, found)
    elif told and Path(told).is_dir():
        check_store(Path(told), found)
    else:
        found.skip("store", "not looked at", "Say --store FOLDER on the machine of the server.")


def _show(output: CommandOutput, found: Findings) -> None:
    counts = {str(each): found.count(each) for each in FindingVerdict}
    if output.json:
        output.document({"findings": [each.document for each in found.all], "counts": counts})
        return
    width = max(len(each.topic) for each in found.all)
    for each in found.all:
        _line(output, each, width)
    output.line(f"{counts['ok']} ok, {counts['warning']} warnings, {counts['failure']} failures")


def _line(output: CommandOutput, finding: Finding, width: int) -> None:
    mark = _MARKS[finding.verdict]
    output.line(f"{mark:<4}  {safe(finding.topic):<{width}}  {safe(finding.text)}", escape=False)
    if finding.advice:
        output.line(f"{'':<4}  {'':<{width}}  → {safe(finding.advice)}", escape=False)
