"""The `millrace` block and `--arrow_port`."""

from pathlib import Path

import pytest

from millrace.arrow.options import ArrowOptions
from millrace.cli.flags import parse_flags
from millrace.config import ConfigError
from millrace.config.load import load
from millrace.config.options import Overrides
from millrace.config.reload import plan_reload

JS = "jetstream: enabled\n"


def arrow(folder: Path, text: str, overrides: Overrides | None = None) -> ArrowOptions:
    path = folder / "server.conf"
    path.write_text(text)
    return load(path, overrides).arrow


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ArrowOptions()),
        (JS, ArrowOptions()),
        (JS + "millrace { }", ArrowOptions()),
        (JS + "millrace { arrow: true }", ArrowOptions()),
        (JS + "millrace { arrow: false }", ArrowOptions(enabled=False)),
        (JS + "millrace { arrow { enabled: false, port: 8223 } }", ArrowOptions(enabled=False)),
        (JS + "millrace { arrow { max_clients: 3 } }", ArrowOptions(max_clients=3)),
        (JS + 'millrace { arrow { listen: "10.0.0.1:82" } }', ArrowOptions(host="10.0.0.1", port=82)),
        (JS + "millrace { arrow { host: '::1' } }", ArrowOptions(host="::1", port=-1)),
        # With a port of its own it listens where clients do.
        (JS + "millrace { arrow { port: 82 } }", ArrowOptions(host="0.0.0.0", port=82)),
        (JS + "host: 10.0.0.9, millrace { arrow { listen: 82 } }", ArrowOptions(host="10.0.0.9", port=82)),
        (JS + "millrace { arrow { advertise: 'x.org:9' } }", ArrowOptions(advertise="x.org:9")),
    ],
)
def test_what_a_file_says(tmp_path: Path, text: str, expected: ArrowOptions) -> None:
    assert arrow(tmp_path, text) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (JS + "millrace { arow: true }", 'unknown field "arow"'),
        (JS + "millrace { arrow { prot: 1 } }", 'unknown field "prot"'),
        (JS + "millrace { arrow: 7 }", "expected true or false"),
        (JS + "millrace { arrow { port: 70000 } }", "too big"),
        (JS + "millrace { arrow { max_clients: 0 } }", "too small"),
        (JS + "millrace { arrow { advertise: 'a:b' } }", "could not parse port"),
        ("millrace { arrow { port: 82 } }", "streams cannot be served without JetStream"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        arrow(tmp_path, text)


def test_the_flag_wins_over_the_file(tmp_path: Path) -> None:
    flags = parse_flags(["--arrow_port", "83"]).overrides
    assert flags == Overrides(arrow_port=83)
    text = JS + "millrace { arrow { listen: '10.0.0.1:82' } }"
    assert arrow(tmp_path, text, flags) == ArrowOptions(host="10.0.0.1", port=83)
    assert not arrow(tmp_path, text, Overrides(arrow_port=0)).enabled
    with pytest.raises(ConfigError, match="there is no port 70000"):
        arrow(tmp_path, text, Overrides(arrow_port=70_000))


def test_it_cannot_change_while_the_server_runs(tmp_path: Path) -> None:
    path = tmp_path / "server.conf"
    path.write_text(JS)
    before = load(path)
    path.write_text(JS + "millrace { arrow: false }")
    with pytest.raises(ConfigError, match="reload not supported for enabled"):
        plan_reload(before, load(path))
