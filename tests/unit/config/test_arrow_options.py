"""The `millstream` block and `--arrow_port`."""

from pathlib import Path

import pytest

from millstream.arrow.options import ArrowOptions
from millstream.cli.flags import parse_flags
from millstream.config import ConfigError
from millstream.config.load import load
from millstream.config.options import Overrides
from millstream.config.reload import plan_reload

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
        (JS + "millstream { }", ArrowOptions()),
        (JS + "millstream { arrow: true }", ArrowOptions()),
        (JS + "millstream { arrow: false }", ArrowOptions(enabled=False)),
        (JS + "millstream { arrow { enabled: false, port: 8223 } }", ArrowOptions(enabled=False)),
        (JS + "millstream { arrow { max_clients: 3 } }", ArrowOptions(max_clients=3)),
        (JS + 'millstream { arrow { listen: "10.0.0.1:82" } }', ArrowOptions(host="10.0.0.1", port=82)),
        (JS + "millstream { arrow { host: '::1' } }", ArrowOptions(host="::1", port=-1)),
        # With a port of its own it listens where clients do.
        (JS + "millstream { arrow { port: 82 } }", ArrowOptions(host="0.0.0.0", port=82)),
        (JS + "host: 10.0.0.9, millstream { arrow { listen: 82 } }", ArrowOptions(host="10.0.0.9", port=82)),
        (JS + "millstream { arrow { advertise: 'x.org:9' } }", ArrowOptions(advertise="x.org:9")),
    ],
)
def test_what_a_file_says(tmp_path: Path, text: str, expected: ArrowOptions) -> None:
    assert arrow(tmp_path, text) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (JS + "millstream { arow: true }", 'unknown field "arow"'),
        (JS + "millstream { arrow { prot: 1 } }", 'unknown field "prot"'),
        (JS + "millstream { arrow: 7 }", "expected true or false"),
        (JS + "millstream { arrow { port: 70000 } }", "too big"),
        (JS + "millstream { arrow { max_clients: 0 } }", "too small"),
        (JS + "millstream { arrow { advertise: 'a:b' } }", "could not parse port"),
        ("millstream { arrow { port: 82 } }", "streams cannot be served without JetStream"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        arrow(tmp_path, text)


def test_the_flag_wins_over_the_file(tmp_path: Path) -> None:
    flags = parse_flags(["--arrow_port", "83"]).overrides
    assert flags == Overrides(arrow_port=83)
    text = JS + "millstream { arrow { listen: '10.0.0.1:82' } }"
    assert arrow(tmp_path, text, flags) == ArrowOptions(host="10.0.0.1", port=83)
    assert not arrow(tmp_path, text, Overrides(arrow_port=0)).enabled
    with pytest.raises(ConfigError, match="there is no port 70000"):
        arrow(tmp_path, text, Overrides(arrow_port=70_000))


def test_it_cannot_change_while_the_server_runs(tmp_path: Path) -> None:
    path = tmp_path / "server.conf"
    path.write_text(JS)
    before = load(path)
    path.write_text(JS + "millstream { arrow: false }")
    with pytest.raises(ConfigError, match="reload not supported for enabled"):
        plan_reload(before, load(path))
