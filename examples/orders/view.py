"""The live picture in a terminal, and plain lines where there is none.  The picture fits 80 x 24."""

from collections.abc import Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from examples.orders.figures import ConsumerFigures, Figures

_TROUBLES_SHOWN: Final = 2


def picture(
    figures: Figures, addresses: Sequence[str], hints: Sequence[str], spark: str, troubles: Sequence[str]
) -> RenderableType:
    """Return everything on one screen.  `spark` says what the pipeline does while it has no jobs to show."""
    stream = Text.assemble(
        ("ORDERS ", "bold"),
        f"{figures.messages:,} messages, {_size(figures.stored_bytes)}, ",
        (f"{figures.rate:,.1f}/s", "green"),
    )
    pipeline = Text.assemble(
        ("Pipeline on Spark ", "bold"),
        f"archive: {figures.archive_files:,} Parquet files, {_size(figures.archive_bytes)}",
    )
    parts: list[RenderableType] = [
        stream,
        _consumers(figures.consumers),
        Text(),
        pipeline,
        _pipeline(figures) if figures.pipeline else Text(spark, style="dim"),
        Text(),
        *(_line(text) for text in addresses),
        _line("Paste into another terminal:", "bold"),
        *(_line(text) for text in hints),
        *(_line(text, "yellow") for text in troubles[:_TROUBLES_SHOWN]),
        _line("Ctrl-C stops everything; what is stored stays.", "dim"),
    ]
    return Group(*parts)


def line(figures: Figures, spark: str) -> str:
    """Return the same in one line, for logs."""
    consumers = " ".join(
        f"{each.name}={each.acknowledged}/{each.pending}+{each.waiting_for_ack}" for each in figures.consumers
    )
    jobs = " ".join(f"{name}={said.get('rows', 0)}" for name, said in sorted(figures.pipeline.items()))
    return f"messages={figures.messages} {consumers} jobs: {jobs or spark} archive={figures.archive_bytes}B"


def _line(text: str, style: str = "") -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _consumers(consumers: list[ConsumerFigures]) -> Table:
    table = Table("consumer", "kind", box=None, pad_edge=False)
    for title in ("pending", "unacked", "acked", "again", "median ack", "99%"):
        table.add_column(title, justify="right", no_wrap=True)
    for each in consumers:
        table.add_row(
            each.name[:16],
            each.kind,
            f"{each.pending:,}",
            f"{each.waiting_for_ack:,}",
            f"{each.acknowledged:,}",
            f"{each.redelivered:,}",
            _milliseconds(each.median_ms),
            _milliseconds(each.slowest_percent_ms),
        )
    return table


def _pipeline(figures: Figures) -> Table:
    table = Table("job", "state", box=None, pad_edge=False)
    for title in ("batches", "rows", "rows/s", "behind"):
        table.add_column(title, justify="right")
    for name, said in sorted(figures.pipeline.items()):
        table.add_row(
            name,
            str(said.get("state", "")),
            f"{said.get('batches', 0):,}",
            f"{said.get('rows', 0):,}",
            f"{said.get('rate', 0):,.0f}",
            f"{sum(said.get('lag', {}).values()):,}",
        )
    return table


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f} ms"


def _size(count: float) -> str:
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1000
    return f"{count:,.1f} GB"
