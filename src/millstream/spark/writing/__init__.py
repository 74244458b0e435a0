"""Write rows into a stream: from Arrow's memory to frames on the wire, acknowledged, optionally exactly once.

``columns`` finds the columns of a record batch, ``frames`` (compiled) turns its rows into messages, ``plain``
and ``fenced`` publish them, each with its own guarantee; ``checks`` checks the stream before the start.
"""
