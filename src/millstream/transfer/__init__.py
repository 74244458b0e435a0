"""Move streams out of a server and into another, over the NATS protocol alone.

``backup`` and ``restore`` move a stream to a folder and back; ``promotion`` moves streams and their consumers
from one server to another, for example a cluster, while both are in use.  Everything works between any two
NATS servers with JetStream.

Not here: options of the command line and its output (`millstream.cli`), and the format of archives
(`millstream.archive`).
"""
