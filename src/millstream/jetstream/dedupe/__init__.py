"""The duplicate window of a stream: the ids of its messages, recent ones in memory, others in files.

    ``window``      is this id known?               ``builder``   the content of a file of ids
    ``recent``      ids in memory                   ``files``     names, reading, writing, merging
    ``generation``  looking up ids in a file

docs/formats/ids.md describes the files.  Not here: when ids are written, and when files go
(``stream.id_keeper``).
"""
