"""The page for users says all there is: every column and error, as the code has it."""

import inspect

from millstream.spark import errors as spark_errors
from millstream.spark.schema import COLUMNS
from millstream.tables import errors
from tests.kits.paths import DOCS

PAGE = (DOCS / "spark.md").read_text()


def test_every_column_has_its_row() -> None:
    for name, kind in COLUMNS.items():
        shown = kind.simpleString().replace("bigint", "long").replace(",", ", ")
        shown = shown.replace("<", "&lt;").replace(">", "&gt;")
        assert f"| `{name}` | {shown} |" in PAGE


def test_every_error_that_a_user_may_meet_is_explained_or_explains_itself() -> None:
    shown = {
        name
        for module in (errors, spark_errors)
        for name, kind in inspect.getmembers(module, inspect.isclass)
        if kind.__module__ == module.__name__
    }
    self_explaining = {"StreamAccessError", "SparkError", "OptionError", "SchemaError"}
    assert {name for name in shown if f"`{name}`" in PAGE} == shown - self_explaining
