"""The gateway's own REST API, under /v2; docs/gateway-v2.md has the table of its resources."""
