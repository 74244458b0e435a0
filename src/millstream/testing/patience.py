"""How long tests wait for what is sure to come.

A limit ends a test that hangs, and only a test that fails waits so long.  So one number serves them all, and
it is far above what any step takes on a machine that is busy with other things.
"""

import inspect
from typing import Final

PATIENCE_S: Final = 90.0


def let_nats_py_wait() -> None:
    """Let nats-py wait as tests do: by itself it gives up after half a second, or one, or five."""
    from nats.aio.client import Client
    from nats.aio.subscription import Subscription
    from nats.js import JetStreamContext

    for function in (Client.request, Client.flush, Subscription.next_msg, JetStreamContext.__init__):
        names = list(inspect.signature(function).parameters)
        given = list(function.__defaults__ or ())
        given[names.index("timeout") - len(names)] = int(PATIENCE_S)
        function.__defaults__ = tuple(given)
