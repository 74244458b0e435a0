"""`millstream gateway`: settings from a file, flags and the environment, then run until a signal."""

import asyncio
import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from millstream.cli.connection import takes_link_flags
from millstream.cli.endings import need
from millstream.link.layers import Layer

PACKAGES: Final = ("h2", "hyperframe", "wsproto", "yaml")  # of the extra


class Level(StrEnum):
    """The level of the log."""

    DEBUG = "debug"
    INFO = "info"
    WARN = "warn"
    ERROR = "error"


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config-file",
        "-c",
        envvar="CONFIG_FILE",
        metavar="FILE",
        help="httpmq's YAML file; may be partial.",
    ),
]
Management = Annotated[bool, typer.Option("--management", help="Serve the management group only (3000).")]
Dataplane = Annotated[bool, typer.Option("--dataplane", help="Serve the dataplane group only (3001).")]
Host = Annotated[str | None, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")]
Port = Annotated[
    int | None,
    typer.Option("--port", "-p", metavar="NUMBER", min=0, max=65535, help="Port to listen on; 0 picks one."),
]
AccessLog = Annotated[bool, typer.Option("--access-log", help="Log a line for each request.")]
LogLevel = Annotated[Level | None, typer.Option("--log-level", "-l", envvar="LOG_LEVEL", help="What to log.")]
ReadOnly = Annotated[bool, typer.Option("--read-only", help="Refuse every request that changes something.")]
JsonLog = Annotated[bool, typer.Option("--json-log", "-j", envvar="LOG_AS_JSON", help="Log as JSON.")]


@takes_link_flags
def gateway(
    *,
    link: Layer,
    config_file: ConfigFile = None,
    management: Management = False,
    dataplane: Dataplane = False,
    host: Host = None,
    port: Port = None,
    access_log: AccessLog = False,
    log_level: LogLevel = None,
    json_log: JsonLog = False,
    read_only: ReadOnly = False,
) -> None:
    """Serve HTTP in front of a NATS server: httpmq's API under /v1, more under /v2."""
    need("gateway", *PACKAGES)
    from millstream.gateway.config_file import Flags, load_settings
    from millstream.gateway.server import serve
    from millstream.server.loop import new_event_loop

    flags = Flags(
        link=link,
        management=management,
        dataplane=dataplane,
        host=host,
        port=port,
        access_log=access_log,
        log_level=log_level,
        json_log=json_log,
        read_only=read_only,
    )
    settings = load_settings(config_file, flags, os.environ)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serve(settings))
