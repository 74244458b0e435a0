"""Flags for fields of a configuration, declared in a table: one line for each flag.

    SETTINGS = (Setting("max_age", "--max-age", SettingForm.DURATION, "Remove messages after this time."), …)

    @app.command("add")
    @takes_settings(SETTINGS)              # the command gets `changes`, a dict of the given flags
    @talks_to_a_server
    def add(*, server: LinkOptions, name: str, changes: dict[str, Any]) -> None: …

Flags that were not given are not in `changes`, so `add` leaves their fields to the server and `edit` leaves
them unchanged.  A path with a dot is a field of a field.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import typer

from millstream.base.errors import UNREADABLE_JSON
from millstream.base.reasons import file_reason
from millstream.base.suggestions import did_you_mean
from millstream.cli.endings import UsageError
from millstream.cli.output.readings import (
    read_duration,
    read_limit,
    read_list,
    read_moment,
    read_pairs,
    read_size,
)

Changes = dict[str, Any]


class SettingForm(Enum):
    """The type of a flag's value."""

    TEXT = auto()
    CHOICE = auto()
    LIMIT = auto()  # a count; `unlimited` is -1
    SIZE = auto()  # bytes; `unlimited` is -1
    DURATION = auto()  # nanoseconds
    DURATIONS = auto()  # several
    MOMENT = auto()  # RFC 3339; a duration counts from now
    LIST = auto()
    PAIRS = auto()
    SWITCH = auto()


class Setting(NamedTuple):
    """One flag."""

    field: str
    flag: str
    form: SettingForm
    help: str
    choices: Mapping[str, Any] = {}  # words of the flag, and the values of the server
    short: str = ""
    metavar: str = ""

    @property
    def argument(self) -> str:
        """Return the name of the parameter."""
        return "set_" + self.flag.removeprefix("--").replace("-", "_")


_METAVARS = {
    SettingForm.TEXT: "TEXT",
    SettingForm.LIMIT: "NUMBER",
    SettingForm.SIZE: "BYTES",
    SettingForm.DURATION: "TIME",
    SettingForm.DURATIONS: "TIME,…",
    SettingForm.MOMENT: "TIME",
    SettingForm.LIST: "TEXT",
    SettingForm.PAIRS: "KEY=VALUE",
}


def takes_settings(settings: Iterable[Setting]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command a flag for each setting, and the given values as its parameter `changes`."""
    table = tuple(settings)

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def wrapper(**given: Any) -> None:
            changes: Changes = {}
            for each in table:
                value = given.pop(each.argument)
                if value is not None and value != []:
                    put(changes, each.field, read_setting(each, value))
            command(**given, changes=changes)

        signature = inspect.signature(command, eval_str=True)
        kept = [each for name, each in signature.parameters.items() if name != "changes"]
        every = [*kept, *map(_parameter, table)]
        wrapper.__signature__ = signature.replace(parameters=every)  # type: ignore[attr-defined]
        wrapper.__annotations__ = {each.name: each.annotation for each in every}
        del wrapper.__wrapped__
        return wrapper

    return decorate


def _parameter(setting: Setting) -> inspect.Parameter:
    kind: Any = str | None
    names = [setting.flag]
    metavar: str | None = setting.metavar or _METAVARS.get(setting.form)
    if setting.form is SettingForm.SWITCH:
        kind, metavar = bool | None, None
        names = [f"{setting.flag}/--no-{setting.flag.removeprefix('--')}"]
    elif setting.form is SettingForm.CHOICE:
        metavar = "|".join(dict.fromkeys(setting.choices))
    elif setting.form in (SettingForm.LIST, SettingForm.PAIRS):
        kind = list[str] | None
    if setting.short:
        names.append(setting.short)
    made = typer.Option(*names, metavar=metavar, help=setting.help, show_default=False)
    return inspect.Parameter(
        setting.argument, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, made]
    )


def read_setting(setting: Setting, value: Any) -> Any:
    """Return the value of a field for the typed text; raises UsageError if it is invalid."""
    flag = setting.flag
    match setting.form:
        case SettingForm.CHOICE:
            found = setting.choices.get(value.lower())
            if found is None:
                known = ", ".join(setting.choices)
                raise UsageError(
                    f"{flag}: {value!r} is none of {known}{did_you_mean(value, setting.choices)}"
                )
            return found
        case SettingForm.LIMIT:
            return read_limit(value, flag)
        case SettingForm.SIZE:
            return read_size(value, flag)
        case SettingForm.DURATION:
            return read_duration(value, flag)
        case SettingForm.DURATIONS:
            return [read_duration(each, flag) for each in read_list([value])]
        case SettingForm.MOMENT:
            return read_moment(value, flag, ahead=True)
        case SettingForm.LIST:
            return read_list(value)
        case SettingForm.PAIRS:
            return read_pairs(value, flag)
    return value


def put(changes: Changes, field: str, value: Any) -> None:
    """Put a value at a path."""
    head, _, rest = field.partition(".")
    if rest:
        put(changes.setdefault(head, {}), rest, value)
    else:
        changes[head] = value


def merged(config: Mapping[str, Any], changes: Mapping[str, Any]) -> Changes:
    """Return a configuration with changes; objects are merged field by field."""
    result = dict(config)
    for key, value in changes.items():
        before = result.get(key)
        if isinstance(value, dict) and isinstance(before, dict) and key != "metadata":
            result[key] = merged(before, value)
        else:
            result[key] = value
    return result


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="JSON file with fields of the configuration; flags are stronger."
    ),
]


def read_config(path: Path | None) -> Changes:
    """Return the fields of a JSON file; for the output of `info --json`, those of its `config`."""
    if path is None:
        return {}
    try:
        found = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise UsageError(f"--config: cannot read {path}: {file_reason(error)}") from None
    except UNREADABLE_JSON as error:
        raise UsageError(f"--config: {path} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise UsageError(f"--config: {path} has no JSON object")
    config = found.get("config")
    return config if isinstance(config, dict) else found


def difference(
    before: Mapping[str, Any], after: Mapping[str, Any], prefix: str = ""
) -> list[tuple[str, str, str]]:
    """Return the fields that differ, each with its value before and after, as JSON."""
    rows: list[tuple[str, str, str]] = []
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            rows += difference(old, new, f"{prefix}{key}.")
        else:
            rows.append((f"{prefix}{key}", _json(old), _json(new)))
    return rows


def _json(value: object) -> str:
    return "-" if value is None else msgspec.json.encode(value).decode()
