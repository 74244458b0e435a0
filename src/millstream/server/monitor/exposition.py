"""Prometheus' text format for tables with very many rows, written in slices.

A table has families of metrics with the same labels, and a row of values for each set of labels.  The text
equals that of Prometheus' own library, which would make all of it in one step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from millstream.base.slices import Pieces

_AT_ONCE: Final = 16  # rows of a slice
_TOTAL: Final = {"counter": "_total"}
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


@dataclass(frozen=True, slots=True)
class MetricTable:
    """Families without samples, and the labels and values of each row; None is a step without a row."""

    families: Sequence[Metric]
    labels: Sequence[str]
    rows: Iterable[tuple[Sequence[str], Sequence[float]] | None]


class _Family(Collector):
    """A minimal registry, from which the library writes one family."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterable[Metric]:
        return (self._family,)


def text_of(family: Metric) -> bytes:
    """Return the text of one family with its samples."""
    text: bytes = generate_latest(_Family(family))
    return text


def table_text(table: MetricTable) -> Pieces[list[bytes]]:
    """Yield the text of all families of a table in parts."""
    names = [family.name + _TOTAL.get(family.type, "") for family in table.families]
    columns = [[text_of(family)] for family in table.families]
    lines: list[list[str]] = [[] for _ in names]
    count = 0
    for row in table.rows:
        count += 1
        if count % _AT_ONCE == 0:
            _gather(lines, columns)
            yield _AT_ONCE
        if row is None:
            continue
        labels = ",".join(
            f'{name}="{value.translate(_ESCAPES)}"'
            for name, value in sorted(zip(table.labels, row[0], strict=True))
        )
        for written, name, value in zip(lines, names, row[1], strict=True):
            written.append(f"{name}{{{labels}}} {_number(value)}\n")
    _gather(lines, columns)
    return [part for column in columns for part in column]


def _number(value: float) -> str:
    return str(floatToGoString(value))  # type: ignore[no-untyped-call]


def _gather(lines: list[list[str]], columns: list[list[bytes]]) -> None:
    for written, column in zip(lines, columns, strict=True):
        column.append("".join(written).encode())
        written.clear()
