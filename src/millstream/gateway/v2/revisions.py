"""ETags of keys, which are their revisions, and the conditions of requests.

If-Match: "17"        only if the key is at revision 17          If-Match: *        only if it exists
If-None-Match: *      only if it does not exist
If-None-Match: "17"   answer 304 if it still is at revision 17   (GET)
"""

from __future__ import annotations

from millstream.buckets.kv import KeyValue
from millstream.gateway.errors import BadRequest, PreconditionFailed
from millstream.gateway.v2.calls import Call

_MOST_DIGITS = 19


def etag_of(revision: int) -> str:
    """Return the ETag of a revision."""
    return f'"{revision}"'


def revisions_in(condition: str) -> list[int]:
    """Return the revisions that a condition names; 400 if one is invalid."""
    found: list[int] = []
    for tag in condition.split(","):
        text = tag.strip().removeprefix("W/").strip('"')
        if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
            raise BadRequest(f"{tag.strip()!r} is no revision of a key")
        found.append(int(text))
    return found


async def expected_revision(call: Call, kv: KeyValue, key: str) -> int | None:
    """Return the revision that a write must replace: 0 for a new key, None for any; 412 if none matches."""
    match, none_match = call.header("if-match"), call.header("if-none-match")
    if match and none_match:
        raise BadRequest("give one of If-Match and If-None-Match")
    if none_match:
        if none_match != "*":
            raise BadRequest("a write takes If-None-Match with `*` only")
        return 0
    if not match:
        return None
    named = [] if match == "*" else revisions_in(match)
    if len(named) == 1 and named[0]:
        return named[0]
    present = await kv.get(key)
    if present is None or (named and present.revision not in named):
        raise PreconditionFailed(f"the key {key} is at no revision that If-Match names")
    return present.revision


def is_known(call: Call, revision: int) -> bool:
    """Return whether the caller of a GET has this revision; 412 if If-Match names another one."""
    match, none_match = call.header("if-match"), call.header("if-none-match")
    if match and match != "*" and revision not in revisions_in(match):
        raise PreconditionFailed(f"the key is at revision {revision}")
    return none_match == "*" or (bool(none_match) and revision in revisions_in(none_match))
