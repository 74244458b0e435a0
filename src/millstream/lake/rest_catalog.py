"""PyIceberg's REST catalog with timeouts: a catalog that says nothing must not stop an archive for ever.

PyIceberg sends its requests without a timeout.  The names of the two properties are those of Iceberg's
clients in Java.
"""

from typing import TYPE_CHECKING, Any, Final

from pyiceberg.catalog.rest import RestCatalog
from requests.adapters import HTTPAdapter

from millstream.lake.errors import LakeError

if TYPE_CHECKING:
    from requests import Session

CONNECT: Final = "rest.client.connection-timeout-ms"
ANSWER: Final = "rest.client.socket-timeout-ms"
_DEFAULTS_MS: Final = {CONNECT: 10_000, ANSWER: 60_000}


class PatientRestCatalog(RestCatalog):
    """A REST catalog whose requests end: with an answer, or with an error after a time."""

    def _create_session(self) -> "Session":
        session = super()._create_session()
        adapter = _TimedAdapter((_seconds(self.properties, CONNECT), _seconds(self.properties, ANSWER)))
        for prefix, present in list(session.adapters.items()):
            if type(present) is HTTPAdapter:  # not those that sign requests
                session.mount(prefix, adapter)
        return session


class _TimedAdapter(HTTPAdapter):
    """Sends requests with timeouts for connecting and for the answer, in seconds."""

    def __init__(self, timeout: tuple[float, float]) -> None:
        super().__init__()
        self._timeout = timeout

    def send(self, *request: Any, **options: Any) -> Any:
        return super().send(*request, **{**options, "timeout": options.get("timeout") or self._timeout})


def _seconds(properties: dict[str, Any], name: str) -> float:
    given = properties.get(name, _DEFAULTS_MS[name])
    try:
        milliseconds = int(given)
    except ValueError:
        milliseconds = 0
    if milliseconds < 1:
        raise LakeError(f"property {name} of the catalog is a number of milliseconds, not {given!r}")
    return milliseconds / 1000
