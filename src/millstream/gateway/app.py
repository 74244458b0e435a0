"""The ASGI application: `/v1`, `/v2`, health and metrics behind one front.

`/v2` is an application of its own, made by ``millstream.gateway.v2.routes.asgi_app(core, groups)``.  Its
scope has the whole path, and ``scope["state"]["exchange"]`` has the id and the caller of the request.  The
front answers the errors that `/v2` raises with problem details, unless the answer has begun.
"""

from __future__ import annotations

from millstream.gateway.core import Core
from millstream.gateway.front import Front
from millstream.gateway.settings import Group, Settings
from millstream.gateway.v2.routes import asgi_app
from millstream.http.asgi import Application


def build_app(
    settings: Settings,
    *,
    groups: frozenset[Group] | None = None,
    path_prefix: str = "/",
    core: Core | None = None,
    listens_on: str = "",
) -> Application:
    """Return the application for `groups`, by default all groups of the settings.

    Several applications may share a `core`.  `listens_on` is the address of the server, if it is not ours.
    """
    core = Core(settings) if core is None else core
    groups = settings.groups if groups is None else groups
    return Front(core, groups, path_prefix, asgi_app(core, groups), listens_on=listens_on)
