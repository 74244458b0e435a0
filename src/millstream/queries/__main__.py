"""The start of a query's process: ``python -m millstream.queries LINE RESULT``."""

import sys
from importlib.abc import MetaPathFinder


class WithoutPandas(MetaPathFinder):
    """Keeps pyarrow from importing pandas, which would take half of the time to start."""

    def find_spec(self, name: str, *_: object) -> None:
        """Raise ModuleNotFoundError for pandas, and leave other modules to others."""
        if name == "pandas":
            raise ModuleNotFoundError(name)


sys.meta_path.insert(0, WithoutPandas())

from millstream.queries.engine import main  # noqa: E402

main()
