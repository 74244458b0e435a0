"""`millstream serve`: read flags and file, then run the server, check the file or signal another."""

from collections.abc import Sequence

import millstream
from millstream.cli.endings import tell
from millstream.cli.flags import CommandLine, help_text, parse_flags
from millstream.config.errors import ConfigError
from millstream.config.load import read_config

# Modules that only one flag needs are imported on use, because scripts wait for a server to start.

_TLS_HELP = """TLS is configured in a tls block of the configuration file:

    tls {
        cert_file: "server-cert.pem"
        key_file:  "server-key.pem"
        ca_file:   "ca.pem"          # checks the certificates of clients
        verify:    true              # and demands them
        timeout:   2s
    }
"""


def serve(arguments: Sequence[str]) -> int:
    """Run the arguments of `serve` and return the exit code; raises FlagError and other errors."""
    line = parse_flags(arguments)
    if line.version:
        from millstream.broker.info import SERVER_VERSION

        # Scripts look for `nats-server: v…`; the rest is for people.
        print(f"nats-server: v{SERVER_VERSION} (millstream {millstream.__version__}, {millstream.BUILD})")
        return 0
    if line.help:
        print(help_text())
        return 0
    if line.help_tls:
        print(_tls_help())
        return 0
    if line.signal:
        from millstream.cli.signals import send_signal

        send_signal(line.signal)
        return 0
    return _check(line) if line.check else _run(line)


def _check(line: CommandLine) -> int:
    if not line.config:
        raise ConfigError("must specify [-c, --config] option to check configuration file syntax")
    loaded = read_config(line.config, line.overrides)
    if loaded.warnings:
        raise ConfigError("\n".join(map(str, loaded.warnings)))
    digest = loaded.options.config_digest
    tell(f"configuration file {line.config} is valid ({digest})")
    return 0


def _run(line: CommandLine) -> int:
    loaded = read_config(line.config or None, line.overrides)
    for warning in loaded.warnings:
        tell(str(warning))
    # Imported late, so that checks and signals do not load the server and its event loop.
    from millstream.server.app import run

    return run(loaded.options)


def _tls_help() -> str:
    from millstream.config.tls import CIPHER_SUITES, CURVES

    suites = "".join(f"    {name}\n" for name in sorted(CIPHER_SUITES))
    curves = "".join(f"    {name}\n" for name in sorted(CURVES))
    return f"{_TLS_HELP}\nAvailable cipher_suites:\n{suites}\nAvailable curve_preferences:\n{curves}"
