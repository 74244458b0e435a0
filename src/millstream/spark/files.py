"""Files of credentials and certificates on the machines of a Spark cluster."""

import contextlib
import os

from millstream.link.options import LinkOptions


def shipped(options: LinkOptions) -> LinkOptions:
    """Return the options with the paths of this machine; files may be those that were given to `--files`."""
    return options.with_files(_file)


def _file(path: str) -> str:
    if os.path.isabs(path) or os.path.exists(path):
        return path
    with contextlib.suppress(
        Exception
    ):  # whatever goes wrong without Spark: then it is the name that was meant
        from pyspark.core.files import SparkFiles

        found = SparkFiles.get(path)
        if os.path.exists(found):
            return found
    return path
