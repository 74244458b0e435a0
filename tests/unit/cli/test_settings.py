"""Flags for fields of configurations."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from millstream.cli.commands import consumer_settings, stream_settings
from millstream.cli.endings import UsageError
from millstream.cli.settings import (
    Setting,
    SettingForm,
    difference,
    merged,
    put,
    read_config,
    read_setting,
    takes_settings,
)
from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.stream_types import StreamConfig


def given(*arguments: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = []
    app = typer.Typer()

    @app.command()
    @takes_settings(stream_settings.SETTINGS)
    def add(*, changes: dict[str, Any]) -> None:
        found.append(changes)

    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return found[0]


def test_only_what_was_given_is_there() -> None:
    assert given() == {}
    assert given("--subjects", "a,b", "--subjects", "c") == {"subjects": ["a", "b", "c"]}
    assert given("--no-allow-direct", "--retention", "work") == {
        "allow_direct": False,
        "retention": "workqueue",
    }
    assert given("--republish-source", "a", "--republish-destination", "b") == {
        "republish": {"src": "a", "dest": "b"}
    }


def test_every_setting_is_a_field_that_servers_know() -> None:
    tables: list[tuple[Any, Any]] = [
        (stream_settings.SETTINGS, StreamConfig),
        (consumer_settings.SETTINGS, ConsumerConfig),
    ]
    for settings, kind in tables:
        for each in settings:
            head = each.field.partition(".")[0]
            assert head in kind.__struct_fields__ or head == "deliver", each.field


def test_one_filter_and_several_have_fields_of_their_own() -> None:
    change = consumer_settings.config_changes
    assert change({"filter_subjects": ["a"]}) == {"filter_subject": "a"}
    assert change({"filter_subjects": ["a", "b"]}) == {"filter_subjects": ["a", "b"]}
    assert change({"deliver": "subject"}) == {"deliver_policy": "last_per_subject"}
    assert change({"deliver": "7"}) == {"deliver_policy": "by_start_sequence", "opt_start_seq": 7}
    assert change({"deliver": "2026-01-01T00:00:00Z"})["opt_start_time"] == "2026-01-01T00:00:00Z"
    for bad in ("0", "often"):
        with pytest.raises(UsageError):
            change({"deliver": bad})


def test_a_word_that_is_no_choice_gets_a_suggestion() -> None:
    setting = Setting("storage", "--storage", SettingForm.CHOICE, "", stream_settings.STORAGE)
    with pytest.raises(UsageError, match='did you mean "memory"'):
        read_setting(setting, "memmory")


def test_configurations_are_merged_and_compared() -> None:
    before = {"a": 1, "placement": {"cluster": "c", "tags": ["x"]}, "metadata": {"k": "v"}}
    changes: dict[str, Any] = {}
    put(changes, "placement.cluster", "d")
    put(changes, "metadata", {})
    after = merged(before, changes)
    assert after == {"a": 1, "placement": {"cluster": "d", "tags": ["x"]}, "metadata": {}}
    assert difference(before, after) == [("metadata.k", '"v"', "-"), ("placement.cluster", '"c"', '"d"')]
    assert difference(before, before) == []


def test_a_file_may_be_a_configuration_or_an_info(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text(json.dumps({"config": {"a": 1}, "state": {}}))
    assert read_config(file) == {"a": 1}
    file.write_text('{"b": 2}')
    assert read_config(file) == {"b": 2}
    for text in ("[]", "{", "\xff"):
        file.write_bytes(text.encode("latin-1"))
        with pytest.raises(UsageError, match=str(file)):
            read_config(file)
    with pytest.raises(UsageError, match="cannot read"):
        read_config(tmp_path / "none")
