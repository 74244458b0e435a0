"""The JetStream vocabulary as data: names, errors, types and their JSON, shared by server and clients."""
