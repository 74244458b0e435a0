"""The live picture in a terminal, and plain lines where there is none."""

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from examples.orders.figures import ConsumerFigures, Figures


def picture(figures: Figures, addresses: dict[str, str], hints: list[str]) -> RenderableType:
    """Everything on one screen."""
    stream = Text.assemble(
        ("ORDERS ", "bold"),
        f"{figures.messages:,} messages, {_size(figures.stored_bytes)}, ",
        (f"{figures.rate:,.1f} in a second", "green"),
    )
    archive = Text(f"archive: {figures.archive_files} Parquet files, {_size(figures.archive_bytes)}")
    where = Text("\n".join(f"{name:9} {address}" for name, address in addresses.items()))
    return Group(
        Panel(Group(stream, _consumers(figures.consumers)), title="broker", title_align="left"),
        Panel(Group(_pipeline(figures), archive), title="pipeline on Spark", title_align="left"),
        Panel(Group(where, Text("\n" + "\n".join(hints), style="dim")), title="try", title_align="left"),
        Text("Ctrl-C stops everything; what is stored stays.", style="dim"),
    )


def line(figures: Figures) -> str:
    """The same in one line, for logs."""
    consumers = " ".join(
        f"{each.name}={each.acknowledged}/{each.pending}+{each.waiting_for_ack}" for each in figures.consumers
    )
    jobs = " ".join(f"{name}={said.get('rows', 0)}" for name, said in sorted(figures.pipeline.items()))
    return (
        f"messages={figures.messages} {consumers} jobs: {jobs or 'starting'} archive={figures.archive_bytes}B"
    )


def _consumers(consumers: list[ConsumerFigures]) -> Table:
    table = Table("consumer", "kind", box=None, pad_edge=False)
    for title in ("pending", "in work", "acknowledged", "redelivered", "ack median", "ack 99%"):
        table.add_column(title, justify="right")
    for each in consumers:
        table.add_row(
            each.name,
            each.kind,
            f"{each.pending:,}",
            f"{each.waiting_for_ack:,}",
            f"{each.acknowledged:,}",
            f"{each.redelivered:,}",
            _milliseconds(each.median_ms),
            _milliseconds(each.slowest_percent_ms),
        )
    return table


def _pipeline(figures: Figures) -> Table | Text:
    if not figures.pipeline:
        return Text("Spark is starting; this takes about half a minute …", style="dim")
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
