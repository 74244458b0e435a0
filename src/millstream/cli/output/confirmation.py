"""Questions before something is destroyed: asked on a terminal, refused without one.

    confirm("delete stream ORDERS with 1,234 messages", force=force)

A script uses ``--force``; without a terminal and the flag, nothing is destroyed.
"""

import sys
from typing import Annotated

import typer

from millstream.base.owned import visible
from millstream.cli.endings import UsageError

ForceOption = Annotated[bool, typer.Option("--force", "-f", help="Do not ask.")]


class Declined(UsageError):
    """Raised if the answer was no, or there is no terminal."""


def confirm(action: str, *, force: bool) -> None:
    """Ask before `action`, a verb with its object; raises Declined unless the answer is yes."""
    if force:
        return
    text = visible(action)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Declined(f"this would {text}; nobody can be asked without a terminal, so say --force to do it")
    print(f"Really {text}? [y/N] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline().strip().lower()
    if answer not in ("y", "yes"):
        raise Declined("nothing was done")
