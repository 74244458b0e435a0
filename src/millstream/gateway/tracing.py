"""Spans of messages that callers publish in a sampled trace.

A caller names its trace in the HTTP header `traceparent`.  The span of the gateway lasts until the message is
stored, and the message names that span in its own `traceparent`, so that the spans of the server follow it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from millstream.otel.spans import FinishedSpan, SpanKind, SpanQueue, new_span_id
from millstream.protocol.trace_context import CONTEXT_SIZE, TraceContext, find_sampled, make_context

if TYPE_CHECKING:
    from millstream.protocol.headers import Pairs

HEADER: Final = "traceparent"
_LINE: Final = "\r\ntraceparent:"


@contextmanager
def publishing(
    queue: SpanQueue | None, caller: str, subject: str, headers: Pairs, size: int
) -> Iterator[None]:
    """Record the publication that the context encloses, if its trace is to be recorded.

    `caller` is the caller's `traceparent`; one among the headers of the message is preferred.
    """
    context = _context(queue, caller, headers) if queue is not None else None
    if queue is None or context is None:
        yield
        return
    span_id, began, error = new_span_id(), time.time_ns(), ""
    headers[:] = [pair for pair in headers if pair[0].lower() != HEADER]
    headers.append((HEADER, make_context(context.trace_id, span_id)))
    try:
        yield
    except BaseException as caught:
        error = type(caught).__name__
        raise
    finally:
        queue.record(
            FinishedSpan(
                "publish",
                SpanKind.PRODUCER,
                context,
                span_id,
                began,
                max(time.time_ns(), began),
                {
                    "messaging.operation.name": "publish",
                    "messaging.destination.name": subject,
                    "messaging.message.body.size": size,
                },
                error,
            )
        )


def _context(queue: SpanQueue, caller: str, headers: Pairs) -> TraceContext | None:
    text = next((value for name, value in headers if name.lower() == HEADER), caller)
    if not text:
        return None
    line = f"{_LINE}{text}\r\n".encode("latin-1", errors="replace")
    at = find_sampled(line, 0, len(line))
    return queue.context(line[at : at + CONTEXT_SIZE]) if at >= 0 else None
