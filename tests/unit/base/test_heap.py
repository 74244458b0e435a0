"""Memory that is free between used blocks."""

import subprocess
import sys

import pytest

from millstream.base.build import pure_requested

# Every second block stays, so the end of the heap never becomes free.
PROGRAM = """
from pathlib import Path
from millstream.base.heap import give_back, keep_freed_memory

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

keep_freed_memory()
blocks = [bytes(16_000) for _ in range(8_000)]
used = resident()
kept = blocks[::8]
del blocks
before = resident()
give_back()
print(used - resident(), before - resident())
"""


@pytest.mark.skipif(pure_requested(), reason="only compiled code can ask the allocator")
def test_it_goes_back_to_the_kernel() -> None:
    shown = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    since_use, at_once = map(int, shown.split())
    assert since_use > 80_000_000
    assert at_once > 40_000_000
