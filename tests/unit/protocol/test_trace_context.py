"""Finding a sampled `traceparent` in a block of headers."""

import pytest

from millstream.protocol.trace_context import (
    CONTEXT_SIZE,
    TraceContext,
    find_sampled,
    make_context,
    read_context,
)

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
CONTEXT = make_context(TRACE, SPAN).encode()


def found(block: bytes) -> bytes:
    """Return what is found in a block that lies somewhere in a chunk."""
    chunk = b"\r\n" + CONTEXT + block + CONTEXT
    at = find_sampled(chunk, 2 + len(CONTEXT), len(block))
    return chunk[at : at + CONTEXT_SIZE] if at >= 0 else b""


@pytest.mark.parametrize(
    "lines",
    [
        b"traceparent: " + CONTEXT,
        b"traceparent:" + CONTEXT,
        b"Traceparent: " + CONTEXT,
        b"TRACEPARENT:   " + CONTEXT,
        b"a: b\r\ntraceparent: " + CONTEXT + b"\r\nc: d",
        b"traceparent: " + CONTEXT + b"\r\ntraceparent: other",
    ],
)
def test_a_sampled_one(lines: bytes) -> None:
    assert found(b"NATS/1.0\r\n" + lines + b"\r\n\r\n") == CONTEXT


@pytest.mark.parametrize("flags", ["01", "03", "0b", "0f"])
def test_flags_of_sampled_traces(flags: str) -> None:
    assert found(b"NATS/1.0\r\ntraceparent: " + CONTEXT[:-2] + flags.encode() + b"\r\n\r\n")


@pytest.mark.parametrize(
    "lines",
    [
        b"",
        b"a: b",
        b"a: " + CONTEXT,
        b"tracestate: " + CONTEXT,
        b"xtraceparent: " + CONTEXT,
        b"traceparent : " + CONTEXT,
        b"traceparent: " + CONTEXT[:-1],
        b"traceparent: " + CONTEXT[:-2] + b"00",
        b"traceparent: " + CONTEXT[:-2] + b"0a",
        b"traceparent: " + CONTEXT + b"-more",
        b"traceparent: " + CONTEXT.replace(b"-", b"_"),
        b"traceparent: other\r\ntraceparent: " + CONTEXT,  # the first one counts
    ],
)
def test_none(lines: bytes) -> None:
    assert found(b"NATS/1.0\r\n" + lines + b"\r\n\r\n") == b""


def test_a_block_that_is_cut_off_at_any_byte() -> None:
    whole = b"NATS/1.0\r\ntraceparent: " + CONTEXT + b"\r\n\r\n"
    for size in range(len(whole) + 1):
        assert (find_sampled(whole[:size], 0, size) >= 0) == (size > whole.index(CONTEXT) + CONTEXT_SIZE)


def test_a_context_is_read_as_it_was_made() -> None:
    assert read_context(CONTEXT) == TraceContext(TRACE, SPAN)


@pytest.mark.parametrize(
    "text",
    [
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"0x-{TRACE}-{SPAN}-01",
        f"00-{TRACE[:-1]}é-{SPAN}-01",
        f"00-{TRACE[:-3]}-aa-{SPAN[:-1]}x-01",
    ],
)
def test_invalid_contexts(text: str) -> None:
    assert read_context(text.encode("latin-1")) is None
