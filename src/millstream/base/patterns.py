"""Regular expressions that ``re`` has compiled, as data.

Compiling one takes some 150 µs, making it of its code 5.  ``re`` keeps what it compiled and looks there
first; these functions write that down and fill it again.  They know what only ``re`` itself should know, so
``keep`` does nothing on a Python whose ``re`` has another shape.
"""

from __future__ import annotations

import re
from typing import Any

# The text or bytes, the flags that were asked for, those in force, the code, how many groups, their names.
Compiled = tuple[Any, int, int, list[int], int, dict[str, int]]


def compiled() -> list[Compiled]:
    """Return what ``re`` has compiled in this process."""
    known: list[Compiled] = []
    for key in _memory():
        pattern, flags = key[1], key[2]
        parsed = re._parser.parse(pattern, flags)  # type: ignore[attr-defined]
        code = [int(each) for each in re._compiler._code(parsed, flags)]  # type: ignore[attr-defined]
        state = parsed.state
        known.append(
            (pattern, flags, int(flags | state.flags), code, state.groups - 1, dict(state.groupdict))
        )
    return known


def keep(known: list[Compiled]) -> None:
    """Spare this process compiling them; of the same Python only, and before they are asked for."""
    memory = _memory()
    try:
        from _sre import compile as from_code  # type: ignore[import-not-found]

        for pattern, asked, flags, code, groups, names in known:
            by_number: list[str | None] = [None] * (groups + 1)
            for name, number in names.items():
                by_number[number] = name
            memory[type(pattern), pattern, asked] = from_code(
                pattern, flags, code, groups, names, tuple(by_number)
            )
    except (ImportError, TypeError, ValueError, RuntimeError, IndexError):
        memory.clear()


def _memory() -> dict[Any, Any]:
    """Return where ``re`` keeps them, or a place where nobody looks."""
    memory = getattr(re, "_cache", None)
    return memory if isinstance(memory, dict) else {}
