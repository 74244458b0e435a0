"""Archives: what is written is read again as it was, and nothing that was cut or altered passes for whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.archive.frames import START
from millstream.transfer.archive import ArchiveReading, ArchiveSummary, ArchiveWriting, BadArchive

Message = tuple[int, int, str, bytes, bytes]  # sequence, time, subject, headers, body

messages = st.lists(
    st.tuples(
        st.integers(1, 1000),
        st.integers(0, 2**62),
        st.text("abc.é", min_size=1, max_size=20),
        st.binary(max_size=40),
        st.binary(max_size=300),
    ),
    max_size=12,
    unique_by=lambda each: each[0],
).map(sorted)


def written(content: list[Message]) -> bytes:
    last = content[-1][0] if content else 0
    writing = ArchiveWriting({"messages": len(content), "first_seq": 1, "last_seq": last})
    out = b""
    for each in content:
        writing.add(*each)
        out += writing.take()
    return out + writing.finish()


def read(data: bytes, step: int = 1 << 20, **options: int) -> ArchiveSummary:
    reading = ArchiveReading(**options)
    for at in range(0, len(data), step):
        reading.feed(data[at : at + step])
    return reading.finish()


@given(messages, st.integers(1, 500))
def test_the_digest_does_not_depend_on_how_the_bytes_arrive(content: list[Message], step: int) -> None:
    data = written(content)
    summary = read(data, step)
    assert summary == read(data)
    assert (summary.messages, summary.last_seq) == (len(content), content[-1][0] if content else 0)


@given(messages, st.data())
def test_another_message_has_another_digest(content: list[Message], data: st.DataObject) -> None:
    if not content:
        return
    at = data.draw(st.integers(0, len(content) - 1))
    seq, time, subject, headers, body = content[at]
    changed = data.draw(
        st.sampled_from(
            [
                (seq, time + 1, subject, headers, body),
                (seq, time, subject + "x", headers, body),
                (seq, time, subject, headers + b"x", body),
                (seq, time, subject, headers, body + b"x"),
                (seq, time, subject, headers[1:], headers[:1] + body),
            ]
        )
    )
    other = [*content[:at], changed, *content[at + 1 :]]
    same = changed == content[at]
    assert (read(written(other)).digest == read(written(content)).digest) == same


@given(messages, st.data())
def test_an_archive_that_is_cut_is_no_archive(content: list[Message], data: st.DataObject) -> None:
    whole = written(content)
    with pytest.raises(BadArchive):
        read(whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(messages, st.data())
def test_a_bit_that_was_turned_is_noticed(content: list[Message], data: st.DataObject) -> None:
    whole = bytearray(written(content))
    at = data.draw(st.integers(len(START), len(whole) - 1))
    whole[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(BadArchive):
        read(bytes(whole))


def test_messages_behind_a_limit_do_not_count() -> None:
    content: list[Message] = [(seq, seq, "a", b"", b"body") for seq in (1, 2, 5, 9)]
    limited = read(written(content), upto=5)
    shorter = read(written(content[:3]))
    assert (limited.digest, limited.messages, limited.last_seq) == (shorter.digest, 3, 5)


def test_sequences_that_go_back_are_refused() -> None:
    with pytest.raises(BadArchive, match="stands behind"):
        read(written([(2, 0, "a", b"", b""), (1, 0, "a", b"", b"")]))
