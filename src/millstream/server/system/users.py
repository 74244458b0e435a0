"""Information for clients about themselves and their account: the user, and the subscribers of a subject."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from millstream.base.slices import Pieces
from millstream.broker.connection import Connection
from millstream.server.monitor.formats import nanoseconds
from millstream.server.system.messages import user_of
from millstream.subjects.match import is_subset

if TYPE_CHECKING:
    from millstream.broker.accounts import Account
    from millstream.broker.options import Permissions, SubjectRules
    from millstream.broker.routes import Subscription


class SubjectPermission(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class ResponsePermission(msgspec.Struct, frozen=True, kw_only=True):
    max: int
    ttl: int  # nanoseconds


class UserPermissions(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    publish: SubjectPermission
    subscribe: SubjectPermission
    responses: ResponsePermission | None = None


class UserInfo(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    user: str
    account: str
    account_name: str
    permissions: UserPermissions | None = None


def user_info(asker: Connection | None, account: Account) -> UserInfo:
    """Return the requester's user and permissions; a program inside the server has no user."""
    if asker is None:
        return UserInfo(user="", account=account.name, account_name=account.name)
    identity = asker.session.identity
    permissions = identity.permissions if identity is not None else None
    return UserInfo(
        user=user_of(asker),
        account=asker.account.name,
        account_name=asker.account.tag,
        permissions=_shown(permissions) if permissions is not None else None,
    )


def _shown(permissions: Permissions) -> UserPermissions:
    responses = permissions.allow_responses
    return UserPermissions(
        publish=_rules(permissions.publish),
        subscribe=_rules(permissions.subscribe),
        responses=None
        if responses is None
        else ResponsePermission(max=responses.max_messages, ttl=nanoseconds(responses.expires_s)),
    )


def _rules(rules: SubjectRules) -> SubjectPermission:
    return SubjectPermission(allow=rules.allow or (), deny=rules.deny)


def count_subscribers(account: Account, question: bytes) -> Pieces[int]:
    """Count the clients' subscriptions for `subject` or `subject queue`, in pieces.

    For a literal subject these are the receivers of a message on it, for a pattern those within it.
    """
    words = question.strip().split(b" ")
    subject, queue = words[0], words[1] if len(words) > 1 else None
    count = 0
    for each in _candidates(account, subject):
        yield 1
        if each is not None and isinstance(each.owner, Connection) and queue in (None, each.queue):
            count += 1
    return count


def _candidates(account: Account, subject: bytes) -> Iterator[Subscription | None]:
    """Yield the subscriptions that match, and None for each that does not."""
    if any(token in (b"*", b">") for token in subject.split(b".")):
        for connection in list(account.connections.values()):
            for each in list(connection.subscriptions.values()):
                yield each if is_subset(each.subject, subject) else None
    else:
        matches = account.space.tree.match(subject)
        yield from matches.plain
        for members in matches.queues.values():
            yield from members
