"""`python -m examples.orders`: broker, gateway and pipeline of the order desk, with a live view.

What is stored stays in the folder `--data`; starting again goes on where it stopped.
"""

import argparse
import signal
from pathlib import Path


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.orders", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("data"), help="where everything is kept (./data)")
    parser.add_argument("--port", type=int, default=4222, help="of the broker")
    parser.add_argument("--monitor-port", type=int, default=8222, help="of its monitoring")
    parser.add_argument("--gateway-port", type=int, default=3000, help="of the HTTP gateway and dashboard")
    parser.add_argument("--arrow-port", type=int, default=8224, help="of streams as Arrow, if it is free")
    parser.add_argument("--orders-per-second", type=float, default=5, help="of the sample traffic; 0: none")
    parser.add_argument("--no-spark", action="store_true", help="without the pipeline")
    parser.add_argument("--before-spark", default="", help="a command to run before the pipeline is started")
    parser.add_argument(
        "--line-every", type=float, default=2, help="seconds, where the output is no terminal"
    )
    parser.add_argument("--seconds", type=float, help="stop by itself after this time")
    return parser.parse_args()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C while modules are loaded ends it without a word
    options = arguments()
    print("starting the broker and the gateway", flush=True)

    from examples.orders.desk import run

    run(options)
