"""A pull request: what its body asks for, and how much of it is open.

The body has four forms: nothing (one message), a number of messages, a JSON object, or any other text (one
message).  Most requests are simple JSON objects of a library, which are decoded in one call.  Everything else
goes to the decoder that knows all of Go's rules and errors, so the fast path never differs from it.

Compiled, because there is one request per batch of messages.  Not here: who is served when (`pull_queue`).
"""

from typing import Annotated, Final

import msgspec

from millstream.base.decimals import read_integer
from millstream.base.errors import UNREADABLE_JSON, MillstreamError
from millstream.golang.json import FEW_VALUES
from millstream.jetstream.consumers import pull_statuses
from millstream.jsapi import headers as names
from millstream.jsapi import requests
from millstream.jsapi.codec import JsonError, decode_lenient
from millstream.jsapi.limits import API_LEVEL
from millstream.protocol import headers as header_block

UNRANKED: Final = 2**31 - 1  # the priority of a request that can not name one, behind all others

_UNRANKED = UNRANKED
_MOST: Final = 2**63 - 1
_LARGEST_HEARTBEAT: Final = 2**62  # so that the next one is a time that can be told
_REQUIRED_LEVEL: Final = names.REQUIRED_API_LEVEL.encode()
# What Go calls white space.
_BLANKS: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)

_Number = Annotated[int, msgspec.Meta(ge=-(2**63), le=_MOST)]


class _PlainBody(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    batch: _Number = 0
    expires: _Number = 0
    no_wait: bool = False
    max_bytes: _Number = 0
    idle_heartbeat: _Number = 0
    group: str = ""
    min_pending: _Number = 0
    min_ack_pending: _Number = 0
    id: str = ""
    priority: _Number = 0


_decode_plain = msgspec.json.Decoder(_PlainBody).decode


class PullRefused(MillstreamError):
    """The request is not accepted; `status` is the header block for its inbox."""

    def __init__(self, status: bytes) -> None:
        super().__init__(status.partition(b"\r\n")[0].decode(errors="replace"))
        self.status = status


class PullRequest:
    """One request, from parsing until it is done.

    `WaitingPulls` maintains the counts; others only read them.  `left` may be zero or less if the request
    asked for that: it still gets one message.  `bytes_left` is zero without a bound.
    """

    def __init__(
        self,
        reply: bytes,
        batch: int,
        max_bytes: int,
        expires_ns: int,
        heartbeat_ns: int,
        no_wait: bool,
        now_ns: int,
    ) -> None:
        self.reply = reply  # the inbox
        self.left = batch  # messages that it may still get
        self.bytes_left = max_bytes  # of them; 0 or less: any number
        self.delivered = 0  # messages it got
        self.expires_ns = expires_ns  # when it ends; 0: never
        self.heartbeat_ns = heartbeat_ns  # after so much silence it wants a sign of life; 0 or less: never
        self.heartbeat_due_ns = now_ns + heartbeat_ns if heartbeat_ns > 0 else 0
        self.no_wait = no_wait
        self.formal = False  # came as JSON, so the rules of priority groups hold for it
        self.group = ""
        self.min_pending = 0
        self.min_ack_pending = 0
        self.priority = _UNRANKED
        self.pin_id = ""  # sent by the client, or given to it with the first message
        self.waiting = False  # it is in a queue
        self.next: PullRequest | None = None  # of the queue, which alone sets them
        self.previous: PullRequest | None = None


def parse_pull(reply: bytes, body: bytes, headers: bytes, now_ns: int) -> PullRequest:
    """Parse a message to `CONSUMER.MSG.NEXT` or the rest of a `+NXT`; raise PullRefused.

    `headers` is the whole block, empty if there is none or it does not matter.
    """
    if headers and _level_is_too_high(headers):
        raise PullRefused(pull_statuses.REQUIRED_API_LEVEL)
    if not body:
        return PullRequest(reply, 1, 0, 0, 0, False, now_ns)
    if body[0] == 123:  # {
        try:
            return _formal(reply, _decode_plain(body), now_ns)
        except UNREADABLE_JSON:
            pass
    elif len(body) <= 18 and body.isdigit():
        return PullRequest(reply, int(body), 0, 0, 0, False, now_ns)
    return _parse_odd(reply, body, now_ns)


def _parse_odd(reply: bytes, body: bytes, now_ns: int) -> PullRequest:
    body = body.decode(errors="surrogateescape").strip(_BLANKS).encode(errors="surrogateescape")
    if body[:1] == b"{":
        try:
            asked = decode_lenient(body, requests.NextRequest, FEW_VALUES)
        except JsonError as error:
            raise PullRefused(pull_statuses.bad_request(str(error))) from None
        return _formal(reply, asked, now_ns)
    batch = read_integer(body)
    if batch is None or not -_MOST <= batch <= _MOST:
        batch = 1
    return PullRequest(reply, batch, 0, 0, 0, False, now_ns)


def _formal(reply: bytes, asked: _PlainBody | requests.NextRequest, now_ns: int) -> PullRequest:
    expires = asked.expires
    heartbeat = asked.idle_heartbeat
    if heartbeat > 0:
        if _wrapped(2 * heartbeat) > expires:
            raise PullRefused(pull_statuses.bad_request(pull_statuses.HEARTBEAT_TOO_LARGE))
        heartbeat = min(heartbeat, _LARGEST_HEARTBEAT)
    if expires != 0:
        expires = min(now_ns + expires, _MOST) or 1  # 0 would be never
    request = PullRequest(
        reply, max(asked.batch, -_MOST), asked.max_bytes, expires, heartbeat, asked.no_wait, now_ns
    )
    request.formal = True
    request.group = asked.group
    request.min_pending = asked.min_pending
    request.min_ack_pending = asked.min_ack_pending
    request.priority = asked.priority
    request.pin_id = asked.id
    return request


def _wrapped(number: int) -> int:
    """Return twice a Go integer with Go's overflow."""
    return number if number <= _MOST else number - 2**64


def _level_is_too_high(block: bytes) -> bool:
    wanted = header_block.find(block, _REQUIRED_LEVEL)
    if not wanted:
        return False
    level = read_integer(wanted)
    return level is None or level > API_LEVEL
