"""`millstream context`: the contexts of the `nats` tool, with addresses and credentials of servers."""

from __future__ import annotations

import os
from typing import Annotated

import msgspec
import typer

from millstream.cli.commands import context_files as files
from millstream.cli.completion import context_names as complete
from millstream.cli.connection import takes_link_flags
from millstream.cli.endings import CONFLICT, Ending, UsageError
from millstream.cli.groups import CommandGroup
from millstream.cli.output.confirmation import ForceOption, confirm
from millstream.cli.output.tables import CommandOutput, JsonOption
from millstream.link.contexts import read_context, selected_context
from millstream.link.errors import BadLinkOptions
from millstream.link.layers import Layer, together

app = CommandGroup("Contexts of the nats tool: where to connect, and as whom. Both tools use the same files.")

ContextName = Annotated[
    str, typer.Argument(metavar="NAME", help="The context.", autocompletion=complete, show_default=False)
]


@app.command("ls")
def ls(
    *,
    names: Annotated[bool, typer.Option("--names", "-n", help="Only the names, one in a line.")] = False,
    json: JsonOption = False,
) -> None:
    """List contexts; the selected one has a star.

    \b
    Examples:
      millstream context ls
    """
    output = CommandOutput(json=json)
    found = files.context_names(os.environ)
    selected = selected_context(os.environ)
    if names and not json:
        for name in found:
            output.line(name)
        return
    rows, documents = [], []
    for name in found:
        try:
            fields = files.without_secrets(files.read_document(name, os.environ))
        except Ending as error:
            fields = {"description": f"unreadable: {error}"}
        documents.append({"name": name, "selected": name == selected, **fields})
        star = "*" if name == selected else ""
        rows.append([name, star, str(fields.get("url") or "-"), str(fields.get("description") or "")])
    empty = "there are no contexts; make one with millstream context add"
    output.table(documents, ("Name", "Selected", "Server", "Description"), rows, empty=empty)


@app.command("show")
def show(
    *,
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="The context; else the selected one.", autocompletion=complete),
    ] = "",
    secrets: Annotated[
        bool, typer.Option("--secrets", help="Show passwords, tokens and seeds, too.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Show a context; secrets are hidden.

    \b
    Examples:
      millstream context show
      millstream context show prod --json
    """
    chosen = name or selected_context(os.environ)
    if not chosen:
        raise UsageError("no context is selected; name one, or see millstream context select")
    fields = files.read_document(chosen, os.environ)
    shown = fields if secrets else files.without_secrets(fields)
    path = files.context_path(chosen, os.environ)
    section = {key: str(value) for key, value in shown.items() if value not in ("", None, False)}
    CommandOutput(json=json).details({"name": chosen, **shown}, {f"Context {chosen}, {path}": section})


@app.command("add")
@takes_link_flags
def add(
    *,
    link: Layer,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name.", show_default=False)],
    description: Annotated[str, typer.Option(metavar="TEXT", help="What it is for.")] = "",
    select_it: Annotated[bool, typer.Option("--select", help="Also select it.")] = False,
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Change one that exists; what is not given stays.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Save the flags of a connection under a name.

    Both tools write secrets as they are into a file that only you can read. Instead of a secret, a
    reference can be given: env://NAME or file://PATH.

    \b
    Examples:
      millstream context add local --server nats://127.0.0.1:4222 --select
      millstream context add prod --server tls://nats.example.com --creds ~/prod.creds
      millstream context add ci --server nats://ci:4222 --user ci --password env://CI_PASSWORD
    """
    exists = files.check_context_name(name) in files.context_names(os.environ)
    if exists and not force:
        raise Ending(f"there is a context {name} already; --force changes it", CONFLICT)
    before = files.read_document(name, os.environ) if exists else {}
    fields = {**before, **files.fields_of_layer(link)}
    if description:
        fields["description"] = description
    if not fields.get("url"):
        raise UsageError("--server is missing: a context says where to connect")
    path = files.context_path(name, os.environ)
    try:  # check it before it is written
        environment = _Anything(os.environ)
        together([read_context(msgspec.json.encode(fields), path, environment)])
    except BadLinkOptions as error:
        raise UsageError(str(error)) from None
    files.write_document(name, fields, os.environ)
    if select_it:
        files.write_selected(name, os.environ)
    done = f"context {name} is {'changed' if exists else 'made'}{' and selected' if select_it else ''}"
    CommandOutput(json=json).done({"name": name, **files.without_secrets(fields)}, f"{done}: {path}")


class _Anything(dict[str, str]):
    """An environment in which every variable is set, because references are checked when they are used."""

    def get(self, key: str, default: str = "") -> str:  # type: ignore[override]
        return super().get(key) or default or "x"


@app.command("select")
def select(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The context.", autocompletion=complete)] = "",
    none: Annotated[bool, typer.Option("--none", help="Select none.")] = False,
    json: JsonOption = False,
) -> None:
    """Use a context whenever no server is named.

    The nats tool uses it, too.

    \b
    Examples:
      millstream context select prod
      millstream context select --none
    """
    if bool(name) == none:
        raise UsageError("name a context, or say --none; see millstream context ls")
    if name:
        files.read_document(name, os.environ)
    files.write_selected(name, os.environ)
    CommandOutput(json=json).done(
        {"selected": name}, f"context {name} is selected" if name else "no context is selected"
    )


@app.command("rm")
def rm(*, name: ContextName, force: ForceOption = False, json: JsonOption = False) -> None:
    """Delete a context; the nats tool loses it, too.

    \b
    Examples:
      millstream context rm old
    """
    if not files.context_path(name, os.environ).exists():
        files.read_document(name, os.environ)  # raises if it does not exist
    confirm(f"delete the context {name}", force=force)
    files.remove_document(name, os.environ)
    if selected_context(os.environ) == name:
        files.write_selected("", os.environ)
    CommandOutput(json=json).done({"deleted": name}, f"context {name} is deleted")
