"""How long tests wait for what is sure to come.

A limit ends a test that hangs, and only a test that fails waits so long.  So one number serves them all, and
it is far above what any step takes on a machine that is busy with other things.
"""

from typing import Final

PATIENCE_S: Final = 90.0
