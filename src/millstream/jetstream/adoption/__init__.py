"""Make a store of ours from the files of a nats-server that has stopped (`millstream adopt`)."""
