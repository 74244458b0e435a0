"""Find the line of a pipeline file that a problem is about.

TOML's parser gives no positions, so they are searched in the text: the block of the job that the problem
names, and in it the key, if it occurs once.  A file with another layout gets no line numbers.
"""

import re
from itertools import pairwise
from typing import Final

_JOB: Final = re.compile(r'job "(?P<name>[^"]+)"')
_SECTION: Final = re.compile(r"\[(?P<name>\w+)\]")
_KEY: Final = re.compile(r'key "(?P<key>\w+)"|"(?P<secret>\w+)" may not be written')
_NEXT_JOB: Final = re.compile(r"\s*\[\[\s*job\s*\]\]")
_TABLE: Final = re.compile(r"\s*\[")


def line_of(text: str, problem: str) -> int | None:
    """Return the line number, counted from 1, or None if it is unknown."""
    lines = text.splitlines()
    job, section = _JOB.match(problem), _SECTION.match(problem)
    if job:
        block = _job_block(lines, job["name"])
        rest = problem[job.end() :]
    elif section:
        block = _section_block(lines, section["name"])
        rest = problem[section.end() :]
    else:
        return None
    if block is None:
        return None
    named = _KEY.search(rest)
    key = named["key"] or named["secret"] if named else "kind" if "unknown kind" in rest else ""
    found = [at for at in block if key and _sets(lines[at], key)]
    return 1 + (found[0] if len(found) == 1 else block[0])


def _job_block(lines: list[str], name: str) -> range | None:
    starts = [at for at, line in enumerate(lines) if _NEXT_JOB.match(line)]
    named = re.compile(rf"""\s*name\s*=\s*["']{re.escape(name)}["']""")
    for start, end in pairwise([*starts, len(lines)]):
        if any(named.match(line) for line in lines[start:end]):
            return range(start, end)
    return None


def _section_block(lines: list[str], name: str) -> range | None:
    header = re.compile(rf"\s*\[\s*{re.escape(name)}\s*\]")
    start = next((at for at, line in enumerate(lines) if header.match(line)), None)
    if start is None:
        return None
    following = (at for at in range(start + 1, len(lines)) if _TABLE.match(lines[at]))
    return range(start, next(following, len(lines)))


def _sets(line: str, key: str) -> bool:
    return re.match(rf"""\s*["']?{re.escape(key)}["']?\s*=""", line) is not None
