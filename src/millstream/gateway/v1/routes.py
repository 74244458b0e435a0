"""The paths of `/v1`, by group."""

from __future__ import annotations

from millstream.gateway.routes import Route
from millstream.gateway.settings import Group
from millstream.gateway.v1.acks import AckHandler
from millstream.gateway.v1.consumers import ConsumerRoutes
from millstream.gateway.v1.health import alive, ready
from millstream.gateway.v1.publish import PublishRoute
from millstream.gateway.v1.rules import Rules
from millstream.gateway.v1.streams import StreamRoutes
from millstream.gateway.v1.subscribe import SubscribeRoute


def routes_for(groups: frozenset[Group], *, relaxed_names: bool, inbox_prefix: str) -> list[Route]:
    """Return the routes under `/v1` of a gateway that serves `groups`."""
    rules = Rules(relaxed_names, inbox_prefix)
    routes: list[Route] = []
    if Group.MANAGEMENT in groups:
        routes += _management(rules)
    if Group.DATAPLANE in groups:
        routes += _dataplane(rules)
    return routes


def _management(rules: Rules) -> list[Route]:
    streams, consumers = StreamRoutes(rules), ConsumerRoutes(rules)
    all_streams = "/v1/admin/stream"
    one_stream = all_streams + "/{streamName}"
    all_consumers = one_stream + "/consumer"
    one_consumer = all_consumers + "/{consumerName}"
    return [
        Route("GET", "/v1/admin/alive", alive, is_open=True),
        Route("GET", "/v1/admin/ready", ready, is_open=True),
        Route("POST", all_streams, streams.create),
        Route("GET", all_streams, streams.list),
        Route("GET", one_stream, streams.get),
        Route("DELETE", one_stream, streams.delete),
        Route("PUT", one_stream + "/subject", streams.change_subjects),
        Route("PUT", one_stream + "/limit", streams.change_limits),
        Route("POST", all_consumers, consumers.create),
        Route("GET", all_consumers, consumers.list),
        Route("GET", one_consumer, consumers.get),
        Route("DELETE", one_consumer, consumers.delete),
    ]


def _dataplane(rules: Rules) -> list[Route]:
    publish, subscriptions = PublishRoute(rules), SubscribeRoute(rules)
    consumer = "/v1/data/stream/{streamName}/consumer/{consumerName}"
    return [
        Route("GET", "/v1/data/alive", alive, is_open=True),
        Route("GET", "/v1/data/ready", ready, is_open=True),
        Route("POST", "/v1/data/subject/{subjectName}", publish.publish),
        Route("GET", consumer, subscriptions.subscribe, is_stream=True),
        Route("POST", consumer + "/ack", AckHandler(rules).acknowledge),
    ]
