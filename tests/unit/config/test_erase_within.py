"""`erase_within` in the `millstream` block."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.config import ConfigError, ServerOptions
from millstream.config.load import load
from millstream.config.reload import Area, plan_reload


def options(folder: Path, text: str) -> ServerOptions:
    path = folder / "server.conf"
    path.write_text("jetstream: enabled\n" + text)
    return load(path)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("", 120), ("millstream { erase_within: 90s }", 90), ("millstream { erase_within: '1h' }", 3600)],
)
def test_it_is_a_duration(tmp_path: Path, text: str, seconds: float) -> None:
    assert options(tmp_path, text).jetstream.erase_within_s == seconds


@pytest.mark.parametrize("value", ["0s", "999ms", "7", "true", "soon"])
def test_what_is_too_short_or_no_duration_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigError, match="erase_within"):
        options(tmp_path, f"millstream {{ erase_within: {value} }}")


def test_a_reload_changes_it(tmp_path: Path) -> None:
    before = options(tmp_path, "")
    plan = plan_reload(before, options(tmp_path, "millstream { erase_within: 5s }"))
    assert Area.JETSTREAM in plan.areas
