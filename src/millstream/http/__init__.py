"""HTTP/1.1, HTTP/2 and WebSocket: the floor under everything of Millstream that speaks HTTP.

It runs ASGI applications and knows nothing of NATS.  `listener` is the way in; protocols are read by public
sans-IO libraries (httptools, h2, wsproto), which are imported with the first connection that needs them.
"""
