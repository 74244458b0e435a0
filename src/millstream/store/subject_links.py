"""Links from each message of a segment to the next one of its subject.

A search for the next message of a subject passes over all others, which may be a hundred thousand, again and
again if each of many keys has a few values.  A segment that was searched for long gets links (``Segment``),
four bytes for each message; then a search that begins behind a message of the subject takes one step.

Ordinals are kept plus one, so that 0 means that there is none.
"""

from millstream.base.numbers import Numbers


class SubjectLinks:
    """The links of one segment, as far as ``extend`` was called."""

    def __init__(self) -> None:
        self._next = Numbers(4)  # by ordinal
        self._firsts = Numbers(4)  # by the number of the subject
        self._lasts = Numbers(4)

    def extend(self, subject_of: Numbers, mask: int, subjects: int) -> None:
        """Add the messages that came since; `subject_of` has the subjects of all, below `subjects`."""
        while self._firsts.count < subjects:
            self._firsts.push(0)
            self._lasts.push(0)
        for ordinal in range(self._next.count, subject_of.count):
            number = subject_of.at(ordinal) & mask
            last = self._lasts.at(number)
            if last:
                self._next.set(last - 1, ordinal + 1)
            else:
                self._firsts.set(number, ordinal + 1)
            self._lasts.set(number, ordinal + 1)
            self._next.push(0)

    def first(self, number: int) -> int:
        """Return the first ordinal of a subject, plus one."""
        return self._firsts.at(number)

    def last(self, number: int) -> int:
        """Return the last ordinal of a subject, plus one."""
        return self._lasts.at(number)

    def next(self, ordinal: int) -> int:
        """Return the next ordinal of the same subject, plus one."""
        return self._next.at(ordinal)

    def memory(self) -> int:
        """Return the bytes of the links."""
        return self._next.size + self._firsts.size + self._lasts.size
