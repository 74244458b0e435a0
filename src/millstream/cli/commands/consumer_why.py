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
    """Explain why a consumer does not deliver, and what to do.

    Each cause has its evidence. Ends with 1 if the consumer is blocked.

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
            for line in _lines(name, value):
                output.line(f"    {safe(line)}", escape=False)
        output.line(f"  → {cause.advice}")


def _lines(name: str, value: object) -> list[str]:
    """Return a fact as lines: a list of records has one for each, an empty fact none."""
    if value in ("", None, []):
        return []
    if isinstance(value, list) and all(isinstance(each, msgspec.Struct) for each in value):
        return [f"{name}:", *(f"  {_record(msgspec.to_builtins(each))}" for each in value)]
    if isinstance(value, float):
        return [f"{name}: {value:,.1f}"]
    return [f"{name}: {value if isinstance(value, str) else msgspec.json.encode(value).decode()}"]


def _record(fields: dict[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in fields.items() if value not in ("", None))
