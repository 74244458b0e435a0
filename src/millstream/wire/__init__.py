"""A lean client of the NATS wire, for whoever moves many messages: no object per message, no loop needed.

``parser`` reads what a server sends, ``login`` says who we are, ``blocking`` is a connection for programs
without an event loop (tasks of Spark), ``publishing`` a window of unanswered publishes, with ``publishers``
for both worlds around it.  Not here: ordered reading and everything else that is convenient (`client`).
"""
