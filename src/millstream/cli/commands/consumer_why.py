"""`millstream consumer why`: the reasons why a consumer does not deliver, with advice."""

from __future__ import annotations

import msgspec

from millstream.cli.commands.lookup import better
from millstream.cli.completion import ConsumerName, StreamName
from millstream.cli.connection import connected, talks_to_a_server
from millstream.cli.output.readings import check_name
from millstream.cli.output.tables import CommandOutput, JsonOption
from millstream.cli.output.texts import safe
from millstream.cli.session import run
from millstream.diagnosis.facts import diagnose
from millstream.diagnosis.types import DeliveryVerdict, Diagnosis
from millstream.link.errors import LinkApiError
from millstream.link.options import LinkOptions


@talks_to_a_server
def why(*, server: LinkOptions, stream: StreamName, consumer: ConsumerName, json: JsonOption = False) -> None:
    """Explain why a consumer does not deliver: causes, evidence and advice.

    Ends with 1 if the consumer is blocked.

    \b
    Examples:
      millstream consumer why ORDERS billing
      millstream consumer why ORDERS billing --json | jq -r .verdict
    """
    check_name(stream, "stream")
    check_name(consumer, "consumer")

    async def work() -> int:
        output = CommandOutput(json=json)
        async with connected(server, "millstream consumer why") as api:
            try:
                found = await diagnose(api.link, stream, consumer)
            except LinkApiError as error:
                raise await better(api, error, stream, consumer) from None
        if json:
            output.document(msgspec.to_builtins(found))
        else:
            _show(output, found)
        return 1 if found.verdict is DeliveryVerdict.BLOCKED else 0

    run(work())


def _show(output: CommandOutput, found: Diagnosis) -> None:
    output.line(f"{str(found.verdict).upper()}: {found.summary}")
    for cause in found.causes:
        output.line("", escape=False)
        output.line(f"{cause.severity}: {cause.text}")
        for name, value in cause.evidence.items():
            output.line(f"    {safe(name)}: {safe(_text(value))}", escape=False)
        output.line(f"  → {cause.advice}")


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
