"""The time-out of tests that wait for something certain to happen.

It ends a test that hangs; only a failing test waits that long.  So one number serves all tests, far above
what any step takes on a busy machine.
"""

import inspect
from typing import Final

PATIENCE_S: Final = 90.0


def let_nats_py_wait() -> None:
    """Raise nats-py's default time-outs, which are half a second to five seconds, to that of tests."""
    from nats.aio.client import Client
    from nats.aio.subscription import Subscription
    from nats.js import JetStreamContext

    for function in (Client.request, Client.flush, Subscription.next_msg, JetStreamContext.__init__):
        names = list(inspect.signature(function).parameters)
        given = list(function.__defaults__ or ())
        given[names.index("timeout") - len(names)] = int(PATIENCE_S)
        function.__defaults__ = tuple(given)
