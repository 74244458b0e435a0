"""Streams and consumers by their names; a mistyped name gets an error that suggests the right one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millstream.base.suggestions import did_you_mean
from millstream.cli.endings import Ending
from millstream.cli.output.readings import check_name
from millstream.cli.session import missing
from millstream.jsapi.errors import Err
from millstream.link.errors import LinkApiError
from millstream.transfer.answers import checked_consumer, checked_stream
from millstream.transfer.api import JetStreamApi


async def stream_info(
    api: JetStreamApi, name: str, request: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the information about a stream."""
    check_name(name, "stream")
    try:
        found = await api.look(f"STREAM.INFO.{name}", request)
    except LinkApiError as error:
        if error.err is not Err.STREAM_NOT_FOUND:
            raise
        raise await no_stream(api, name) from None
    checked_stream(found, name)
    return found


async def no_stream(api: JetStreamApi, name: str) -> Ending:
    """Return the failure for a missing stream."""
    hint = did_you_mean(name, await _names(api, "STREAM.NAMES", "streams"))
    return missing(f"there is no stream {name} on {api.where}{hint or '; see millstream stream ls'}")


async def consumer_info(api: JetStreamApi, stream: str, name: str) -> dict[str, Any]:
    """Return the information about a consumer."""
    check_name(stream, "stream")
    check_name(name, "consumer")
    try:
        return checked_consumer(await api.look(f"CONSUMER.INFO.{stream}.{name}"), name)
    except LinkApiError as error:
        raise await better(api, error, stream, name) from None


async def better(api: JetStreamApi, error: LinkApiError, stream: str, name: str) -> Exception:
    """Return the failure of a request about a consumer, with a suggestion if a name is unknown."""
    if error.err is Err.STREAM_NOT_FOUND:
        return await no_stream(api, stream)
    if error.err is not Err.CONSUMER_NOT_FOUND:
        return error
    hint = did_you_mean(name, await _names(api, f"CONSUMER.NAMES.{stream}", "consumers"))
    return missing(
        f"stream {stream} has no consumer {name}{hint or f'; see millstream consumer ls {stream}'}"
    )


async def _names(api: JetStreamApi, verb: str, field: str) -> list[str]:
    """Return the first page of names; none if they may not be listed."""
    try:
        found = (await api.ask(verb, {"offset": 0})).get(field) or []
    except LinkApiError:
        return []
    return [each for each in found if isinstance(each, str)]
