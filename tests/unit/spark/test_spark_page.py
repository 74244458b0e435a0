"""The page for users says all there is: every option, column and error, as the code has it."""

import inspect
import re
from pathlib import Path

import pytest

from millstream.spark import errors
from millstream.spark.option_table import OPTIONS, Option, Use
from millstream.spark.schema import COLUMNS

PAGE = (Path(__file__).parents[3] / "docs" / "spark.md").read_text()
USES = {
    Use.ALL: "all",
    Use.READ: "read, stream",
    Use.BATCH: "read",
    Use.STREAM: "stream",
    Use.WRITE: "write",
}


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_option_has_its_row(option: Option) -> None:
    row = f"| `{option.name}` | {USES[option.use]} | {option.default or ''} | {option.meaning} |"
    assert row in PAGE.splitlines()


def test_there_is_no_row_for_an_option_that_is_not() -> None:
    table = PAGE.partition("| option | for | default | is |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `([^`]+)`", table, re.MULTILINE) == [option.name for option in OPTIONS]


def test_every_column_has_its_row() -> None:
    for name, kind in COLUMNS.items():
        shown = kind.simpleString().replace("bigint", "long").replace(",", ", ")
        shown = shown.replace("<", "&lt;").replace(">", "&gt;")
        assert f"| `{name}` | {shown} |" in PAGE


def test_every_error_that_a_user_may_meet_is_explained_or_explains_itself() -> None:
    shown = {
        name
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if kind.__module__ == errors.__name__
    }
    self_explaining = {"SparkError", "OptionError", "SchemaError"}
    assert {name for name in shown if f"`{name}`" in PAGE} == shown - self_explaining
