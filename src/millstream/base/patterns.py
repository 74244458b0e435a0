"""Save and restore the regular expressions that ``re`` has compiled.

Compiling a pattern takes about 150 µs, creating it from its code 5.  ``re`` first looks for a pattern in its
cache; these functions export that cache and fill it again.  They rely on internals of ``re``, so ``keep``
does nothing on a Python whose ``re`` is different.
"""

from __future__ import annotations

import re
from typing import Any

# The text or bytes, the flags that were asked for, those in force, the code, how many groups, their names.
Compiled = tuple[Any, int, int, list[int], int, dict[str, int]]


def compiled() -> list[Compiled]:
    """Return the patterns that ``re`` has compiled in this process."""
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
    """Add the patterns to the cache of ``re``.  They must come from the same version of Python."""
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
    """Return the cache of ``re``, or a dict without effect if there is none."""
    memory = getattr(re, "_cache", None)
    return memory if isinstance(memory, dict) else {}
