"""The vocabulary of JetStream as data: names, errors, types and their JSON, shared by server and clients."""
