"""`millstream consumer why`."""

from millstream.cli.completion import ConsumerName, StreamName
from millstream.cli.connection import talks_to_a_server
from millstream.cli.output.tables import JsonOption
from millstream.link.options import LinkOptions


@talks_to_a_server
def why(*, server: LinkOptions, stream: StreamName, consumer: ConsumerName, json: JsonOption = False) -> None:
    """Say why a consumer does not deliver."""
