"""Log lines about a bound of the gateway that was reached: once, and then not again for a minute."""

from __future__ import annotations

import logging
from typing import Final

from millstream.base.complaints import Complaints

_LOG: Final = logging.getLogger("millstream.gateway")


class Alarm:
    """The alarm of one bound; `text` says which it is and what to do about it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._complaints = Complaints(_LOG)

    def ring(self) -> None:
        """Say that the bound was reached."""
        self._complaints.warn("%s", self._text)
