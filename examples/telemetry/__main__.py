"""Devices publish, Spark joins and windows their readings into Iceberg tables, SQL asks them: one command.

python -m examples.telemetry [--readings 360] [--folder data/telemetry]
"""

import argparse
import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import millstream
from examples.telemetry.devices import publish
from examples.telemetry.plot import plot

HERE: Final = Path(__file__).parent
MINUTES: Final = "SELECT room || ' ' || name, celsius FROM plant.minutes ORDER BY room, name, minute"
ROOMS: Final = "SELECT room, sum(readings)::INT FROM plant.minutes GROUP BY room ORDER BY room"
WHOLE: Final = "SELECT count(*), count(DISTINCT subject) FROM whole.TELEMETRY"


def run_pipeline(folder: Path, url: str) -> None:
    """Run both jobs over what the stream has, and end."""
    environment = {
        **os.environ,
        "NATS_URL": url,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]),
    }
    command = [sys.executable, "-m", "millstream", "pipeline", "run", str(HERE / "pipeline.toml"), "--once"]
    subprocess.run(command, cwd=folder, env=environment, check=True)


def show(url: str, lake: Path) -> None:
    """Ask the tables, and the stream with its archive, and plot the minutes."""
    [(messages, devices)] = millstream.sql(WHOLE, server=url, lake=lake).fetchall()
    print(f"{messages} readings of {devices} devices, in the stream and its archive")
    for room, readings in millstream.sql(ROOMS, server=url, lake=lake).fetchall():
        print(f"{room}: {readings} readings in minutes that are over")
    print(*plot(millstream.sql(MINUTES, server=url, lake=lake).fetchall()), sep="\n")


def main() -> int:
    """Run the example; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m examples.telemetry", description=__doc__.splitlines()[0])
    parser.add_argument("--readings", type=int, default=360, help="of each device, ten seconds apart")
    parser.add_argument("--folder", type=Path, default=Path("data/telemetry"), help="for all data")
    options = parser.parse_args()
    folder = options.folder.absolute()
    if folder.exists() and any(folder.iterdir()):
        print(f"{folder} has data of an earlier run: remove it, or give another --folder", file=sys.stderr)
        return 2
    folder.mkdir(parents=True, exist_ok=True)
    with millstream.BlockingServer(store_dir=folder / "streams") as server:
        asyncio.run(publish(server.client_url, options.readings))
        run_pipeline(folder, server.client_url)
        show(server.client_url, folder / "lake")
    return 0


if __name__ == "__main__":
    sys.exit(main())
