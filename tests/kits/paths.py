"""The folders of the project that tests read."""

from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parent.parent
ROOT: Final = TESTS.parent
DOCS: Final = ROOT / "docs"
GOLDEN: Final = TESTS / "golden"
SOURCE: Final = ROOT / "src" / "millstream"
