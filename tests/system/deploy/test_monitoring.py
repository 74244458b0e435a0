"""Alerts and the Grafana dashboard ask for metrics that exist."""

import json
import re
from typing import Any

import pytest
import yaml

from tests.kits.paths import DOCS, ROOT

RULES = ROOT / "deploy/prometheus/millstream.rules.yml"
BOARD = ROOT / "deploy/grafana/millstream.json"
OPERATIONS = DOCS / "operations.md"
_NAME = re.compile(r"\b(?:millstream|process)_[a-z0-9_]+")


def documented() -> set[str]:
    """Return the names of docs/metrics.md, which is made of the code, with the parts of histograms."""
    found = re.findall(r"^\* `([a-z0-9_]+)`: (\w+)", (DOCS / "metrics.md").read_text(), re.MULTILINE)
    names = {name for name, _ in found}
    return names | {f"{name}_bucket" for name, kind in found if kind == "histogram"}


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def test_alerts_ask_for_metrics_that_exist() -> None:
    asked = {name for rule in rules() for name in _NAME.findall(rule["expr"])}
    assert asked
    assert asked <= documented()


def test_the_dashboard_asks_for_metrics_that_exist() -> None:
    asked = set(_NAME.findall(BOARD.read_text()))
    assert asked
    assert asked <= documented()
    panels = json.loads(BOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_each_alert_says_what_is_wrong_and_the_page_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["annotations"].keys() == {"summary", "description"}
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert f"`{rule['alert']}`" in OPERATIONS.read_text()
