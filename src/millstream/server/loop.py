"""Which event loop the server runs on.  Nobody else knows."""

import asyncio


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop where there is one, else the standard library's."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
