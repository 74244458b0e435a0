"""Run the Python blocks of one program; started by `processes` as a process of its own.

Each line on standard input is a JSON object: the text of a block and its place.  What the blocks print goes
to standard output; how each of them ended, to the descriptor that the first argument names.
"""

import json
import os
import runpy
import sys
import traceback
import types
from pathlib import Path


def main() -> None:
    orders = os.fdopen(os.dup(0), "r")
    answers = os.fdopen(int(sys.argv[1]), "w")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # blocks have no input
    program = sys.modules["__main__"] = types.ModuleType("__main__")
    for line in orders:
        order = json.loads(line)
        if "import nats" in order["text"]:
            # By its path: the programs of readers do not find the package `tests`.
            runpy.run_path(str(Path(__file__).parents[1] / "patience.py"))["let_nats_py_wait"]()
        error = run(order["text"], order["page"], order["line"], program)
        sys.stdout.flush()
        sys.stderr.flush()
        answers.write(json.dumps({"error": error}) + "\n")
        answers.flush()


def run(text: str, page: str, line: int, program: types.ModuleType) -> str:
    """Return the traceback of what went wrong, with the page's line numbers; empty if nothing did."""
    try:
        exec(compile("\n" * line + text, page, "exec"), vars(program))
    except SystemExit as end:
        return "" if not end.code else f"the program ended with {end.code}"
    except BaseException:
        return traceback.format_exc()
    return ""


if __name__ == "__main__":
    main()
