"""Taking streams out of a server and into another, over nothing but the NATS wire.

``backup`` and ``restore`` move a stream to a folder and back; ``promotion`` moves streams and their consumers
from one server to another, a cluster for example, while both are in use.  Everything works between any two
servers of the NATS protocol with JetStream.

Not here: options of the command line and what is printed (`millstream.cli`), and the form of archives, which
whoever uses this package hands in (``archive.ArchiveForm``).
"""
