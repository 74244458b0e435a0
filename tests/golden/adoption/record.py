"""Record the stores of several versions of nats-server, and what these servers say of them.

    python -m tests.golden.adoption.record BINARY…

Each binary lives twice (``tests.kits.lives``): once it is stopped, once it is killed.  An archive has the
store and `told.json`.  Tests do not need the binaries.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.kits.lives import Life, expected, live, told_by
from tests.kits.patience import let_nats_py_wait
from tests.kits.recorded_stores import pack
from tests.kits.reference import OtherNatsServer

STORES = Path(__file__).parent


def record(binary: str, seed: int, *, killed: bool) -> Path:
    """Write the archive of one life, and return its path."""
    shown = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout
    version = shown.strip().rpartition("v")[2]
    server = OtherNatsServer(Path(binary))
    life = Life(seed, tuple(map(int, version.split("."))), killed=killed, size=30)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        live(life, server, folder / "store", killed=killed, rounds=2)
        shutil.copytree(folder / "store", folder / "copy")
        told = expected(told_by(life, server, folder / "copy"), folder / "store")
        words = [version, "killed" if killed else "stopped", *filter(None, [life.cipher])]
        path = STORES / f"{'-'.join(words)}.tar.xz"
        pack(path, folder / "store", told)
    return path


if __name__ == "__main__":
    let_nats_py_wait()
    for number, each in enumerate(sys.argv[1:]):
        for killed in (False, True):
            print(record(each, 2 * number + killed, killed=killed))
