"""HTTP in front of any NATS server with JetStream: httpmq's API under `/v1`, ours under `/v2`.

The gateway talks to the broker over the NATS protocol only, so it works with Millstream and with a NATS
cluster, and several gateways can serve the same broker.  `app` composes the ASGI application, `server` runs
it, `link` has the connections to NATS.
"""
