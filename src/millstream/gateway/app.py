"""The ASGI application: `/v1`, `/v2`, health and metrics behind one front.

`/v2` is an application of its own, made by ``millstream.gateway.v2.routes.asgi_app(core, groups)``.  It gets
the scope with the whole path, and in ``scope["state"]["exchange"]`` what the front knows of the request: its
id and who calls.  What it raises is answered by the front, as problem details, if nothing was answered yet.
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
    """The application for `groups`, or for all that the settings serve; `core` may be shared between some.
    Behind a server that is not ours, `listens_on` is the address that it listens on."""
    core = Core(settings) if core is None else core
    groups = settings.groups if groups is None else groups
    return Front(core, groups, path_prefix, asgi_app(core, groups), listens_on=listens_on)
