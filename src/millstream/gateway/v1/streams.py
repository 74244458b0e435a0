"""Management of streams: `/v1/admin/stream`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from millstream.gateway.core import Core
from millstream.gateway.errors import FAILURES
from millstream.gateway.exchange import Exchange
from millstream.gateway.link import CallerLink
from millstream.gateway.v1.answers import refuse, refuse_for, succeed
from millstream.gateway.v1.bodies import Fields, Unreadable
from millstream.gateway.v1.documents import stream_document
from millstream.gateway.v1.rules import Invalid, Rules, failed

# Names of fields on the wire and in the validator's messages.
_LIMITS: Final = {
    "max_consumers": "MaxConsumers",
    "max_msgs": "MaxMsgs",
    "max_bytes": "MaxBytes",
    "max_msgs_per_subject": "MaxMsgsPerSubject",
    "max_msg_size": "MaxMsgSize",
}
_CREATE_FAILED: Final = "Failed to create new stream"
_LIST_FAILED: Final = "Failed to list streams"
_UNREADABLE: Final = "Unable to parse request body"
_BAD_NAME: Final = "Invalid stream name"


class StreamRoutes:
    """The handlers for streams, with one set of rules for names."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    async def create(self, exchange: Exchange, core: Core) -> None:
        body = await exchange.body()
        link = await core.links.link_for(exchange.caller.credentials, exchange.address)
        try:
            fields = Fields(body)
            config = _limits(fields)
            name, subjects = fields.text("name"), fields.texts("subjects")
        except Unreadable as error:
            await refuse(exchange, 400, _UNREADABLE, str(error))
            return
        try:
            self._rules.check_name("JSStreamParam", "Name", name)
            _check_limits("JSStreamParam.JSStreamLimits", config)
            config |= {"name": name, "retention": "limits", "storage": "file", "discard": "old"}
            config["num_replicas"] = 1
            if subjects:
                for subject in subjects:
                    self._rules.check_subject(subject)
                config["subjects"] = subjects
            await link.api(f"STREAM.CREATE.{name}", config)
        except FAILURES as error:
            await refuse_for(exchange, core, _CREATE_FAILED, error)
            return
        await succeed(exchange)

    async def list(self, exchange: Exchange, core: Core) -> None:
        link = await core.links.link_for(exchange.caller.credentials, exchange.address)
        try:
            streams = {
                info["config"]["name"]: stream_document(info)
                async for info in paged(link, "STREAM.LIST", "streams")
            }
        except FAILURES as error:
            await refuse_for(exchange, core, _LIST_FAILED, error)
            return
        await succeed(exchange, streams=streams)

    async def get(self, exchange: Exchange, core: Core) -> None:
        name = await self._name_in_path(exchange)
        if name is None:
            return
        link = await core.links.link_for(exchange.caller.credentials, exchange.address)
        try:
            info = await link.api(f"STREAM.INFO.{name}")
        except FAILURES as error:
            await refuse_for(exchange, core, f"Unable fetch stream {name} info", error)
            return
        await succeed(exchange, stream=stream_document(info))

    async def delete(self, exchange: Exchange, core: Core) -> None:
        name = await self._name_in_path(exchange)
        if name is None:
            return
        link = await core.links.link_for(exchange.caller.credentials, exchange.address)
        try:
            await link.api(f"STREAM.DELETE.{name}")
        except FAILURES as error:
            await refuse_for(exchange, core, f"Failed to delete stream {name}", error)
            return
        await succeed(exchange)

    async def change_subjects(self, exchange: Exchange, core: Core) -> None:
        name = await self._name_in_path(exchange)
        if name is None:
            return
        body = await exchange.body()
        try:
            subjects = Fields(body).texts("subjects")
        except Unreadable as error:
            await refuse(exchange, 400, _UNREADABLE, str(error))
            return
        if not subjects:
            tag = "required" if subjects is None else "gte"
            detail = failed("APIRestReqStreamSubjects", "Subjects", tag)
            await refuse(exchange, 400, "Bad request body", detail)
            return
        try:
            for subject in subjects:
                self._rules.check_subject(subject)
            await self._update(exchange, core, name, {"subjects": subjects})
        except FAILURES as error:
            await refuse_for(exchange, core, f"Failed to change stream {name} subjects", error)
            return
        await succeed(exchange)

    async def change_limits(self, exchange: Exchange, core: Core) -> None:
        name = await self._name_in_path(exchange)
        if name is None:
            return
        body = await exchange.body()
        try:
            limits = _limits(Fields(body))
        except Unreadable as error:
            await refuse(exchange, 400, _UNREADABLE, str(error))
            return
        try:
            _check_limits("JSStreamLimits", limits)
            await self._update(exchange, core, name, limits)
        except FAILURES as error:
            await refuse_for(exchange, core, f"Failed to change stream {name} limits", error)
            return
        await succeed(exchange)

    async def _update(self, exchange: Exchange, core: Core, name: str, changes: dict[str, Any]) -> None:
        """Change the named fields of a stream's configuration."""
        link = await core.links.link_for(exchange.caller.credentials, exchange.address)
        info = await link.api(f"STREAM.INFO.{name}")
        if changes:
            await link.api(f"STREAM.UPDATE.{name}", {**info["config"], **changes})

    async def _name_in_path(self, exchange: Exchange) -> str | None:
        name = exchange.parameters[0]
        if self._rules.is_name(name):
            return name
        await refuse(exchange, 400, _BAD_NAME, failed("", "", "alphanum|uuid"))
        return None


async def paged(link: CallerLink, suffix: str, key: str) -> AsyncIterator[dict[str, Any]]:
    """Return a whole list that JetStream sends in pages."""
    offset = 0
    while True:
        answer = await link.api(suffix, {"offset": offset})
        page: list[dict[str, Any]] = answer.get(key) or []
        for item in page:
            yield item
        offset += len(page)
        if not page or offset >= int(answer.get("total") or 0):
            return


def _limits(fields: Fields) -> dict[str, Any]:
    """Return the limits that a body has."""
    found: dict[str, Any] = {}
    for name in _LIMITS:
        value = fields.integer(name, bits=32 if name == "max_msg_size" else 64)
        if value is not None:
            found[name] = value
    max_age = fields.integer("max_age")
    if max_age is not None:
        found["max_age"] = found["duplicate_window"] = max_age
    return found


def _check_limits(struct: str, limits: dict[str, Any]) -> None:
    wrong = [failed(struct, told, "gte") for name, told in _LIMITS.items() if limits.get(name, -1) < -1]
    if wrong:
        raise Invalid("\n".join(wrong))
