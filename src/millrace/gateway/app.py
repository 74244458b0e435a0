"""The ASGI application: `/v1`, `/v2`, health and metrics behind one front.

`/v2` is an application of its own, made by ``millrace.gateway.v2.routes.asgi_app(core, groups)``.  It gets
the scope with the whole path; ``scope["state"]`` has `core` (Core), `exchange` (Exchange: request id,
caller) and `caller`.  `await core.link_of(scope)` is the link to NATS of whoever calls.  What it raises is
answered by the front, as problem details, if nothing was answered yet.
"""

from __future__ import annotations

from importlib.util import find_spec

from millrace.gateway.core import Core
from millrace.gateway.exchange import Application
from millrace.gateway.front import Front
from millrace.gateway.settings import Group, Settings


def build_app(
    settings: Settings,
    *,
    groups: frozenset[Group] | None = None,
    path_prefix: str = "/",
    core: Core | None = None,
) -> Application:
    """The application for `groups`, or for all that the settings serve; `core` may be shared between some."""
    core = Core(settings) if core is None else core
    groups = settings.groups if groups is None else groups
    return Front(core, groups, path_prefix, _second_version(core, groups))


def _second_version(core: Core, groups: frozenset[Group]) -> Application | None:
    if find_spec("millrace.gateway.v2") is None or find_spec("millrace.gateway.v2.routes") is None:
        return None
    from millrace.gateway.v2.routes import asgi_app

    application: Application = asgi_app(core, groups)
    return application
