"""HTTP in front of any NATS server with JetStream: httpmq's API under `/v1`, ours under `/v2`.

It talks to the broker only over the NATS wire, so it fronts Millstream or a NATS cluster, and gateways can
stand beside each other.  `app` composes the ASGI application, `server` runs it, `link` holds the
connections to NATS.
"""
