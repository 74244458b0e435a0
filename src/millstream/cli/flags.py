"""The flags of `millstream serve`: nats-server's own, in Go's syntax.

One table is the source for parsing and for the help text.  In Go's syntax one dash is as good as two,
``-p 4222`` and ``-p=4222`` are the same, letters are never joined (``-DV`` is a flag of its own), a boolean
has a value only after ``=``, and the first word that is no flag ends the flags.
"""

from collections.abc import Iterable, Sequence
from enum import Enum, StrEnum
from typing import Any, Final

import msgspec

from millstream.base.errors import MillstreamError
from millstream.base.suggestions import nearest
from millstream.config.options import Overrides


class FlagError(MillstreamError):
    """Raised if the flags are invalid."""


class FlagKind(Enum):
    TEXT = "text"
    INTEGER = "integer"
    SWITCH = "switch"


class HelpSection(StrEnum):
    """The headings of the help text."""

    SERVER = "Server"
    LOGGING = "Logging"
    JETSTREAM = "JetStream"
    AUTHORIZATION = "Authorization"
    TLS = "TLS"
    COMMON = "Common"
    UNSUPPORTED = "Known from nats-server, refused"


class Flag(msgspec.Struct, frozen=True):
    section: HelpSection
    names: tuple[str, ...]
    help: str
    kind: FlagKind = FlagKind.SWITCH
    value: str = ""  # the placeholder of the value in the help
    into: tuple[str, ...] = ()  # options that get the value
    action: str = ""  # attribute of `CommandLine` that is set instead


def _text(section: HelpSection, names: str, value: str, help: str, into: str = "", action: str = "") -> Flag:
    return Flag(section, tuple(names.split()), help, FlagKind.TEXT, value, (into,) if into else (), action)


def _number(section: HelpSection, names: str, value: str, help: str, into: str) -> Flag:
    return Flag(section, tuple(names.split()), help, FlagKind.INTEGER, value, (into,))


def _switch(section: HelpSection, names: str, help: str, into: str = "", action: str = "") -> Flag:
    return Flag(section, tuple(names.split()), help, FlagKind.SWITCH, "", tuple(into.split()), action)


def _refused(names: str, kind: FlagKind, why: str) -> Flag:
    return Flag(
        HelpSection.UNSUPPORTED, tuple(names.split()), why, kind, "" if kind is FlagKind.SWITCH else "value"
    )


_S = HelpSection
FLAGS: Final = (
    _text(_S.SERVER, "a addr net", "host", "Listen on this address (default: 0.0.0.0)", "host"),
    _number(_S.SERVER, "p port", "port", "Listen on this port; -1 picks one (default: 4222)", "port"),
    _text(_S.SERVER, "n name server_name", "name", "Name of the server (default: its id)", "server_name"),
    _text(_S.SERVER, "P pid", "file", "Write the process id to this file", "pid_file"),
    _number(_S.SERVER, "m http_port", "port", "Serve monitoring over HTTP on this port", "http_port"),
    _number(_S.SERVER, "ms https_port", "port", "Serve monitoring over HTTPS on this port", "https_port"),
    _text(_S.SERVER, "c config", "file", "Read this configuration file", action="config"),
    _switch(_S.SERVER, "t", "Check the configuration file and exit", action="check"),
    _text(
        _S.SERVER,
        "sl signal",
        "command[=pid]",
        "Send ldm, stop, quit, term, reopen or reload to a server, by pid or pid file",
        action="signal",
    ),
    _text(_S.SERVER, "client_advertise", "host", "Address to announce to clients", "client_advertise"),
    _text(_S.SERVER, "ports_file_dir", "dir", "Write a file with the ports in use here", "ports_file_dir"),
    _text(_S.LOGGING, "l log", "file", "Log to this file", "log_file"),
    _switch(_S.LOGGING, "T logtime", "Put the time on log lines (default: true)", "log_time"),
    _switch(_S.LOGGING, "logtime_utc", "Use UTC for it instead of the local time", "log_utc"),
    _switch(_S.LOGGING, "log_json", "Write log lines as JSON objects", "log_json"),
    _switch(_S.LOGGING, "D debug", "Log what helps to find faults", "debug"),
    _switch(_S.LOGGING, "V trace", "Log every protocol operation", "trace"),
    _switch(_S.LOGGING, "VV", "The same, with the system account", "trace trace_verbose"),
    _switch(_S.LOGGING, "DV", "Debug and trace", "debug trace"),
    _switch(_S.LOGGING, "DVV", "Debug and trace, with the system account", "debug trace trace_verbose"),
    _number(_S.LOGGING, "log_size_limit", "bytes", "Rotate the log file at this size", "log_size_limit"),
    _number(
        _S.LOGGING,
        "max_traced_msg_len",
        "bytes",
        "Cut payloads in the trace (default: no)",
        "max_traced_message",
    ),
    _switch(_S.JETSTREAM, "js jetstream", "Enable JetStream", "jetstream"),
    _text(_S.JETSTREAM, "sd store_dir", "dir", "Store streams below this folder", "store_dir"),
    _number(
        _S.JETSTREAM,
        "arrow_port",
        "port",
        "Serve streams as Arrow on this port; -1 picks one, 0 does not (default: one on loopback)",
        "arrow_port",
    ),
    _text(_S.AUTHORIZATION, "user", "name", "User that clients must give", "username"),
    _text(_S.AUTHORIZATION, "pass", "password", "Password that clients must give", "password"),
    _text(_S.AUTHORIZATION, "auth", "token", "Token that clients must give", "token"),
    _switch(_S.TLS, "tls", "Require TLS; =false switches the file's TLS off", "tls"),
    _text(_S.TLS, "tlscert", "file", "Certificate of the server", "tls_cert"),
    _text(_S.TLS, "tlskey", "file", "Private key of the certificate", "tls_key"),
    _switch(_S.TLS, "tlsverify", "Require TLS and a certificate of the client", "tls_verify"),
    _text(_S.TLS, "tlscacert", "file", "CA that client certificates are checked with", "tls_ca"),
    _switch(_S.COMMON, "h help", "Show this text", action="help"),
    _switch(_S.COMMON, "help_tls", "Show what a tls block may hold", action="help_tls"),
    _switch(_S.COMMON, "v version", "Show the version", action="version"),
    _refused("s syslog", FlagKind.SWITCH, "syslog; log to a file or to standard error"),
    _refused("r remote_syslog", FlagKind.TEXT, "syslog; log to a file or to standard error"),
    _refused("routes", FlagKind.TEXT, "clustering; Millstream is a single server"),
    _refused("cluster cluster_listen", FlagKind.TEXT, "clustering; Millstream is a single server"),
    _refused("cluster_name", FlagKind.TEXT, "clustering; Millstream is a single server"),
    _refused("cluster_advertise", FlagKind.TEXT, "clustering; Millstream is a single server"),
    _refused("no_advertise", FlagKind.SWITCH, "clustering; Millstream is a single server"),
    _refused("connect_retries", FlagKind.INTEGER, "clustering; Millstream is a single server"),
    _refused("profile", FlagKind.INTEGER, "Go profiling"),
)
_BY_NAME: Final = {name: flag for flag in FLAGS for name in flag.names}
_SWITCH_WORDS: Final = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


class CommandLine(msgspec.Struct):
    """The parsed flags."""

    overrides: Overrides = msgspec.field(default_factory=Overrides)
    config: str = ""
    signal: str = ""
    check: bool = False
    help: bool = False
    help_tls: bool = False
    version: bool = False


def parse_flags(arguments: Sequence[str]) -> CommandLine:
    """Read the arguments after `serve`; raises FlagError."""
    line = CommandLine()
    values: dict[str, Any] = {}
    rest = list(arguments)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        argument = rest.pop(0)
        if argument == "--":
            break
        flag, value = _read_flag(argument, rest)
        if flag.section is HelpSection.UNSUPPORTED:
            if value not in (False, ""):
                raise FlagError(f"{argument.partition('=')[0]}: not supported by Millstream: {flag.help}")
        elif flag.action:
            setattr(line, flag.action, value)
        else:
            values.update(dict.fromkeys(flag.into, value))
    _read_command(rest, line)
    line.overrides = Overrides(**values)
    return line


def _read_command(rest: Sequence[str], line: CommandLine) -> None:
    """Read the bare words `version` and `help`, which nats-server accepts, too."""
    if not rest:
        return
    if rest[0].lower() not in ("version", "help"):
        raise FlagError(f'unrecognized command: "{rest[0]}"')
    setattr(line, rest[0].lower(), True)


def _read_flag(argument: str, rest: list[str]) -> tuple[Flag, Any]:
    name, equals, text = argument.removeprefix("-").removeprefix("-").partition("=")
    flag = _BY_NAME.get(name)
    if not name or name.startswith("-") or flag is None:
        near = nearest(name, _BY_NAME)
        hint = f"did you mean {_spelled(near)}? See --help" if near else "see --help"
        raise FlagError(f"flag provided but not defined: {argument.partition('=')[0]}; {hint}")
    if flag.kind is FlagKind.SWITCH:
        if not equals:
            return flag, True
        if text not in _SWITCH_WORDS:
            raise FlagError(f'invalid boolean value "{text}" for -{name}')
        return flag, _SWITCH_WORDS[text]
    if not equals:
        if not rest:
            raise FlagError(f"flag needs an argument: -{name}")
        text = rest.pop(0)
    if flag.kind is FlagKind.TEXT:
        return flag, text
    try:
        return flag, int(text, 0)
    except ValueError:
        raise FlagError(f'invalid value "{text}" for flag -{name}: expected an integer') from None


def _spelled(name: str) -> str:
    """Return the form of a flag in the help text."""
    return f"-{name}" if len(name) < 3 or name.isupper() else f"--{name}"


def help_text() -> str:
    lines = [
        "Usage: millstream serve [flags]",
        "",
        "Start a NATS-compatible server. The flags are nats-server's; one dash and two are the same.",
    ]
    for section in HelpSection:
        lines += ["", f"{section} options:" if section is not HelpSection.UNSUPPORTED else f"{section}:"]
        lines += _section_lines(flag for flag in FLAGS if flag.section is section)
    return "\n".join(lines)


def _section_lines(flags: Iterable[Flag]) -> list[str]:
    lines: list[str] = []
    for flag in flags:
        left = ", ".join(map(_spelled, flag.names)) + (f" <{flag.value}>" if flag.value else "")
        if len(left) > 34:
            lines.append(f"  {left}")
            left = ""
        lines.append(f"  {left:<34}  {flag.help}")
    return lines
