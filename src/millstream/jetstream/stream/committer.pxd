cimport cython

from millstream.jetstream.stream.committed_log cimport Committing
from millstream.jetstream.stream.fair_queue cimport FairQueue
from millstream.jetstream.stream.ticket cimport Ticket
from millstream.store.commit cimport Commit

cdef class Committer:
    cdef object _world
    cdef object _interval_s
    cdef FairQueue _dirty
    cdef dict _running
    cdef dict _creating
    cdef dict _held
    cdef dict _again
    cdef FairQueue _waiting
    cdef bint _asked_for_room
    cdef bint _planned
    cdef set _telling
    cdef dict _unsynced
    cdef set _overdue
    cdef object _timer
    cdef public bint stopping
    cdef public bint leaves_to_journal
    cdef dict _untidy
    cdef readonly object compactor
    cdef readonly object eraser

    cpdef dirty(self, Committing stream)
    @cython.locals(stream=Committing, count=int)
    cdef _start_some(self, FairQueue queue, object start)
    cpdef bint _start_in_turn(self, Committing stream, object publisher) except -1
    cpdef bint _start_with_room(self, Committing stream, object publisher) except -1
    cdef bint _has_to_wait(self, Committing stream, object publisher) except *
    cdef _ask_for_room(self)
    @cython.locals(overdue=bint, commit=Commit)
    cdef _start(self, Committing stream, object publisher)
    @cython.locals(overdue=bint, ticket=Ticket)
    cdef _hand_over(self, Committing stream, Commit commit, object publisher)
    @cython.locals(stream=Committing, durable=bint)
    cpdef _ended(self, Ticket ticket)
    cdef bint _waits_for_journal(self, Committing stream, Ticket ticket) except *
    cdef bint _settle(self, Committing stream, Ticket ticket) except *
    cdef _end(self, Committing stream, Commit commit)
    cdef _tell_untidy(self, Committing stream, Commit commit)

