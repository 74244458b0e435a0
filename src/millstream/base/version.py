"""The version of this package: set here, and read by everything else."""

from typing import Final

VERSION: Final = "0.2.0"
