"""A plot for the terminal: a line of bars for each series, between its lowest and highest value."""

from collections.abc import Iterable, Sequence
from typing import Final

_BARS: Final = "▁▂▃▄▅▆▇█"


def bars(values: Sequence[float]) -> str:
    """Return a bar for each value."""
    low, high = min(values), max(values)
    step = (high - low) / (len(_BARS) - 1) or 1.0
    return "".join(_BARS[round((value - low) / step)] for value in values)


def plot(rows: Iterable[tuple[str, float]]) -> list[str]:
    """Return the lines of a plot of values by series, in the order in which they come."""
    series: dict[str, list[float]] = {}
    for name, value in rows:
        series.setdefault(name, []).append(value)
    width = max((len(name) for name in series), default=0)
    return [
        f"{name:<{width}}  {min(values):7.1f} °C {bars(values)} {max(values):.1f} °C"
        for name, values in series.items()
    ]
