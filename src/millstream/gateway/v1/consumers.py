"""Management of consumers: `/v1/admin/stream/{stream}/consumer`.

httpmq's clients expect two refusals of older releases of nats-server: of another filter for an existing
consumer, and of a filter that matches no subject of the stream.  So both are refused here.
"""

from __future__ import annotations

from typing import Any, Final

from millstream.base.ids import nuid
from millstream.gateway.core import Core
from millstream.gateway.errors import FAILURES
from millstream.gateway.exchange import Exchange
from millstream.gateway.link import CallerLink
from millstream.gateway.v1.answers import refuse, refuse_for, succeed
from millstream.gateway.v1.bodies import Fields, Unreadable
from millstream.gateway.v1.documents import consumer_document
from millstream.gateway.v1.rules import Invalid, Rules, check_filter, failed
from millstream.gateway.v1.streams import paged
from millstream.jsapi.errors import Err
from millstream.link.errors import LinkApiError

_STRUCT: Final = "JetStreamConsumerParam"


class ConsumerRoutes:
    """The handlers for consumers, with one set of rules for names."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    async def create(self, exchange: Exchange, core: Core) -> None:
        names = await self.names_in_path(exchange)
        if names is None:
            return
        (stream,) = names
        body = await exchange.body()
        link = await core.links.link_for(exchange.caller.credentials, exchange.address)
        try:
            wanted = _Wanted(Fields(body))
        except Unreadable as error:
            await refuse(exchange, 400, "Unable to parse request body", str(error))
            return
        try:
            wanted.check(self._rules)
            config = await _fitting(link, core, stream, wanted)
            request = {"stream_name": stream, "config": config}
            await link.api(f"CONSUMER.DURABLE.CREATE.{stream}.{wanted.name}", request)
        except FAILURES as error:
            await refuse_for(exchange, core, f"Failed to create consumer on stream {stream}", error)
            return
        await succeed(exchange)

    async def list(self, exchange: Exchange, core: Core) -> None:
        names = await self.names_in_path(exchange)
        if names is None:
            return
        (stream,) = names
        link = await core.links.link_for(exchange.caller.credentials, exchange.address)
        consumers = {}
        try:
            async for info in paged(link, f"CONSUMER.LIST.{stream}", "consumers"):
                consumers[info["name"]] = consumer_document(info)
        except FAILURES as error:
            unknown = isinstance(error, LinkApiError) and error.err is Err.STREAM_NOT_FOUND
            if not (unknown and core.settings.strict):
                await refuse_for(exchange, core, f"Failed to list consumers of stream {stream}", error)
                return
        await succeed(exchange, consumers=consumers)

    async def get(self, exchange: Exchange, core: Core) -> None:
        names = await self.names_in_path(exchange)
        if names is None:
            return
        stream, consumer = names
        link = await core.links.link_for(exchange.caller.credentials, exchange.address)
        try:
            info = await link.api(f"CONSUMER.INFO.{stream}.{consumer}")
        except FAILURES as error:
            await refuse_for(exchange, core, f"Failed to read consumer {consumer} on stream {stream}", error)
            return
        await succeed(exchange, consumer=consumer_document(info))

    async def delete(self, exchange: Exchange, core: Core) -> None:
        names = await self.names_in_path(exchange)
        if names is None:
            return
        stream, consumer = names
        link = await core.links.link_for(exchange.caller.credentials, exchange.address)
        try:
            await link.api(f"CONSUMER.DELETE.{stream}.{consumer}")
        except FAILURES as error:
            message = f"Failed to delete consumer {consumer} on stream {stream}"
            await refuse_for(exchange, core, message, error)
            return
        await succeed(exchange)

    async def names_in_path(self, exchange: Exchange) -> tuple[str, ...] | None:
        """Return the names in the path; None after a refusal was sent because one is invalid."""
        for name, what in zip(exchange.parameters, ("stream", "consumer"), strict=False):
            if not self._rules.is_name(name):
                await refuse(exchange, 400, f"Invalid {what} name", failed("", "", "alphanum|uuid"))
                return None
        return exchange.parameters


class _Wanted:
    """A consumer as the body of a request describes it."""

    def __init__(self, fields: Fields) -> None:
        self.name = fields.text("name")
        self.mode = fields.text("mode")
        self.max_inflight = fields.integer("max_inflight") or 0
        self.filter_subject = fields.text("filter_subject")
        self.delivery_group = fields.text("delivery_group")
        self.max_retry = fields.integer("max_retry") or 0
        self.ack_wait = fields.integer("ack_wait")
        self.notes = fields.text("notes")

    def check(self, rules: Rules) -> None:
        rules.check_name(_STRUCT, "Name", self.name)
        if self.mode not in ("push", "pull"):
            raise Invalid(failed(_STRUCT, "Mode", "oneof" if self.mode else "required"))
        if self.max_inflight < 1:
            raise Invalid(failed(_STRUCT, "MaxInflight", "gte" if self.max_inflight else "required"))
        if self.max_retry < -1:
            raise Invalid(failed(_STRUCT, "MaxRetry", "gte"))
        if self.delivery_group:
            rules.check_name(_STRUCT, "DeliveryGroup", self.delivery_group)
            if self.mode == "pull":
                raise Invalid("pull consumer can't use delivery group")


async def _fitting(link: CallerLink, core: Core, stream: str, wanted: _Wanted) -> dict[str, Any]:
    """Return the configuration to request; raises if it conflicts with the stream or an existing consumer."""
    info = await link.api(f"STREAM.INFO.{stream}")
    if wanted.filter_subject:
        check_filter(wanted.filter_subject, info["config"].get("subjects") or [])
    config: dict[str, Any] = {
        "durable_name": wanted.name,
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "replay_policy": "instant",
        "max_ack_pending": wanted.max_inflight,
        "max_deliver": wanted.max_retry or -1,
    }
    for name, value in (
        ("filter_subject", wanted.filter_subject),
        ("description", wanted.notes),
        ("ack_wait", wanted.ack_wait),
        ("deliver_group", wanted.delivery_group),
    ):
        if value:
            config[name] = value
    there = await _existing(link, stream, wanted.name)
    if there is None:
        if wanted.mode == "push":
            config["deliver_subject"] = f"{core.settings.nats.link.inbox_prefix}.{nuid()}"
        return config
    known = there["config"]
    if (known.get("filter_subject") or "") != wanted.filter_subject:
        raise Invalid("nats: filter subject of an existing consumer can not be changed")
    if bool(known.get("deliver_subject")) != (wanted.mode == "push"):
        raise Invalid("nats: a consumer can not change between push and pull")
    if there.get("push_bound"):
        raise Invalid("nats: consumer name already in use")
    if wanted.mode == "push":
        config["deliver_subject"] = known["deliver_subject"]
    return config


async def _existing(link: CallerLink, stream: str, name: str) -> dict[str, Any] | None:
    try:
        return await link.api(f"CONSUMER.INFO.{stream}.{name}")
    except LinkApiError as error:
        if error.err is Err.CONSUMER_NOT_FOUND:
            return None
        raise
