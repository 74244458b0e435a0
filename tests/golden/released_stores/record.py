"""Record what a released version leaves on disk, stopped and killed, and what it says of it.

    python -m tests.golden.released_stores.record CHECKOUT…           # once for each release
    python -m tests.golden.released_stores.record --back CHECKOUT…    # does it open a store of this version?

Each checkout is of a release, with `make build` run in it or with MILLSTREAM_PURE=1.
"""

import argparse
import asyncio
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nats

from tests.kits.lives import Api, Life, differences, live, told_by
from tests.kits.patience import PATIENCE_S, let_nats_py_wait
from tests.kits.recorded_stores import pack
from tests.kits.reference import Checkout, ServerKind, inherited_environment

STORES = Path(__file__).parent
_BURSTS = 20  # until the server has made a commit journal, if it has journals
_MANY = 40
_LARGE = b"0123456789abcdef" * 32_000
_SEALING = 36  # of these fill a segment


class ReleasedLife(Life):
    """A life with full segments, compressed ones and the commit journal; nothing expires or is encrypted."""

    def __init__(self, *, killed: bool) -> None:
        super().__init__(20 + killed, (2, 15), killed=killed, size=30)
        self.cipher = ""

    async def live(self, url: str, *, rounds: int = 3) -> None:
        await super().live(url, rounds=rounds)
        async with await nats.connect(url) as client:
            api = Api(client)
            for name, compression in (("FULL", "none"), ("PACKED", "s2")):
                config = {"name": name, "subjects": [f"{name}.*"], "compression": compression}
                await api.get(f"STREAM.CREATE.{name}", config)
                for number in range(_SEALING):
                    await client.request(f"{name}.{number}", _LARGE, timeout=PATIENCE_S)
            for number in range(_MANY):
                name = f"MANY{number}"
                await api.get(f"STREAM.CREATE.{name}", {"name": name, "subjects": [name]})
            for burst in range(_BURSTS):
                body = b"%d" % burst
                await asyncio.gather(
                    *(client.request(f"MANY{n}", body, timeout=PATIENCE_S) for n in range(_MANY))
                )


def record(checkout: Checkout, *, killed: bool) -> Path:
    """Write the archive of one life, and return its path."""
    life = ReleasedLife(killed=killed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        live(life, checkout, folder / "store", killed=killed, rounds=2)
        shutil.copytree(folder / "store", folder / "copy")
        path = STORES / f"{_version(checkout)}-{'killed' if killed else 'stopped'}.tar.xz"
        pack(path, folder / "store", told_by(life, checkout, folder / "copy"))
    return path


def opens_ours(checkout: Checkout) -> bool:
    """Return whether a release finds everything in a store that this version has stopped on."""
    life = ReleasedLife(killed=False)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        live(life, ServerKind.MILLSTREAM, folder / "store", rounds=2)
        shutil.copytree(folder / "store", folder / "copy")
        ours = told_by(life, ServerKind.MILLSTREAM, folder / "copy")
        found = differences(told_by(life, checkout, folder / "store"), ours)
    for path, theirs, wanted in found:
        print(f"{path}: {theirs!r:.100} instead of {wanted!r:.100}")
    return not found


def _version(checkout: Checkout) -> str:
    shown = subprocess.run(
        [sys.executable, "-m", "millstream", "version"],
        env=inherited_environment() | checkout.environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return shown.split()[1]


def main() -> int:
    """Record, or try the way back; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden.released_stores.record")
    parser.add_argument("--back", action="store_true", help="open a store of this version with each checkout")
    parser.add_argument("checkout", nargs="+", type=Path)
    given = parser.parse_args()
    let_nats_py_wait()
    checkouts = [Checkout(path.resolve()) for path in given.checkout]
    if given.back:
        failed = [each for each in checkouts if not opens_ours(each)]
        return 1 if failed else 0
    for checkout in checkouts:
        for killed in (False, True):
            print(record(checkout, killed=killed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
