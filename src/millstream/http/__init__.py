"""HTTP/1.1, HTTP/2 and WebSocket, for every part of Millstream that speaks HTTP.

The package runs ASGI applications and knows nothing of NATS.  `listener` is the entry point.  Public sans-IO
libraries (httptools, h2, wsproto) parse the protocols; each is imported with the first connection that
needs it.
"""
