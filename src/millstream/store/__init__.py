"""Numbered records on disk or in memory: append, read, remove, recover.  Knows nothing of streams.

Other packages import these modules and see a log as sequences, subjects and times:

    ``log``             the log; its methods and `state`, not its parts
    ``recovery``        open or create a log
    ``record``          a message as it is read and written
    ``cursor``          read many messages in order
    ``counts``          count the messages of a range, and list its subjects
    ``lasts``           find the last message of each subject
    ``gaps``            list sequences that are missing
    ``marks``           find messages by their marks
    ``purge``           remove many messages in pieces
    ``frozen``          read a log as it was at one moment
    ``extent``          lend a part of a log, as columns, to another thread
    ``layout``          describe files and places on disk, for people and tests
    ``commit``          a commit, to be written in another thread
    ``disk_writer``     a thread that writes one commit without the interpreter lock
    ``journal_batch``   many small commits, to be written together
    ``journal_writer``  a thread that writes such a batch
    ``commit_journal``  the files of these batches, and their replay after a crash
    ``segment_job``     long work on one file, to be done in another thread
    ``block_file``      compressed files
    ``unsynced``        write again what a failed sync may have dropped
    ``reserve``         disk space that a full disk releases
    ``fs``              the file system as the store sees it
    ``errors``          StoreError

All others know segments and ordinals.  Only the store and its own tests import them, and use the parts of a
``Log`` (an import contract and ``tests/unit/project/test_store_door.py`` hold that).
"""
