"""Rows into a stream: from Arrow's memory to frames on the wire, answered, and exactly once where asked for.

``columns`` finds the columns of a record batch, ``frames`` (compiled) makes messages of its rows, ``plain``
and ``fenced`` publish them, each with its own guarantee; ``checks`` looks at the stream before it starts.
"""
