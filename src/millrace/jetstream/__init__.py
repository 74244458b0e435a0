"""JetStream: streams, consumers and the API on top of them."""
