"""One connection to any NATS server, with an event loop or without, and no object per message.

``parser`` reads what a server sends, ``login`` says who we are, ``blocking`` is a connection for programs
without an event loop (tasks of Spark), ``publishing`` a window of unanswered publishes, with ``publishers``
for both worlds around it.  Not here: ordered reading and everything else that is convenient (`client`).
"""
