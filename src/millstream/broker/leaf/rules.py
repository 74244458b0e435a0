"""Rules for what may pass a link, in which direction.

Three sources of rules apply together: permissions, which the hub configures and tells the spoke; the deny
lists of the remote; and our own, which keep the JetStream API and the system's subjects of one server from
the clients of the other.  JetStream is reached through the subjects of its domain (``$JS.<domain>.API``).

    out   messages that we send, and subscriptions of the other server that we take
    in    messages that we take, and subscriptions of ours that the other server is told of
"""

from __future__ import annotations

import time
from typing import Final

from millstream.broker.options import Permissions, ResponseRule, SubjectRules
from millstream.broker.permissions import PermissionSet
from millstream.broker.router import CONSENSUS_PREFIX, GATEWAY_PREFIXES, REPLY_PREFIX
from millstream.protocol.ack_subject import ACK_START
from millstream.subjects.tokens import is_literal

LOOP_PREFIX: Final = b"$LDS."
JETSTREAM: Final = ("$JS.API.>", "$KV.>", "$OBJ.>")  # of another server without naming its domain
_SYSTEM: Final = ("$SYS.>",)
_CLUSTER: Final = ("$JSC.>",)  # between servers of a cluster
# Subjects that a server made for one answer: they come in whatever the permissions are, as with nats-server,
# but a spoke that may not publish to them is not told of them.
_BETWEEN_SERVERS: Final = (REPLY_PREFIX, ACK_START)
_NEVER: Final = (*GATEWAY_PREFIXES, CONSENSUS_PREFIX)


class LinkRules:
    """The rules of one link."""

    def __init__(
        self,
        out: SubjectRules,
        inward: SubjectRules,
        denied: tuple[tuple[str, ...], tuple[str, ...]],
        *,
        responses: ResponseRule | None = None,
        max_payload: int,
    ) -> None:
        """Take what is configured, and what is `denied` outwards and inwards in any case.

        Raises PermissionRuleError if a rule is not a subject.
        """
        self.max_payload = max_payload  # of a message that the other server takes
        self.changes = responses is not None  # what may be received depends on what was sent
        self._answers: PermissionSet | None = None
        if responses is not None:
            self._answers = PermissionSet(Permissions(publish=inward, allow_responses=responses))
        self._allowed = PermissionSet(Permissions(publish=SubjectRules(allow=out.allow)))
        self._configured = PermissionSet(Permissions(publish=out, subscribe=inward))
        # For answers of the server itself, which must not go where the other server may not publish.
        self.publishing: PermissionSet | None = None
        if inward.allow is not None or inward.deny:
            self.publishing = PermissionSet(Permissions(publish=inward))
        self._out = PermissionSet(Permissions(publish=combined(out, denied[0])))
        self._in = PermissionSet(Permissions(subscribe=combined(inward, denied[1])))

    def may_send(self, subject: bytes) -> bool:
        return not subject.startswith(_NEVER) and self._out.may_publish(subject, time.monotonic())

    def may_receive(self, subject: bytes) -> bool:
        """Return True if a message of the other server may come in."""
        if subject.startswith(_BETWEEN_SERVERS):
            return True
        if subject.startswith(_NEVER):
            return False
        if self._in.may_subscribe(subject):
            return True
        return self._answers is not None and self._answers.may_publish(subject, time.monotonic())

    def allow_response(self, reply: bytes) -> None:
        """Let the other server answer a message that it was sent."""
        if self._answers is not None:
            self._answers.allow_response(reply, time.monotonic())

    def may_ask_for(self, subject: bytes, queue: bytes | None) -> bool:
        """Return True if the other server may be told of a subscription."""
        if subject.startswith(LOOP_PREFIX):
            return True
        return not subject.startswith(_NEVER) and self._in.may_subscribe(subject, queue)

    def is_violated_by_message(self, subject: bytes) -> bool:
        """Return True if a message that may not come in breaks permissions that the other server knows."""
        return not self._configured.may_subscribe(subject)

    def is_violated_by_request(self, subject: bytes) -> bool:
        """Return True if a subscription that is not taken breaks permissions that the other server knows."""
        return not self._configured.may_publish(subject, time.monotonic())

    def is_in_allow_list(self, subject: bytes) -> bool:
        """Return True unless a configured list of what may be sent lacks the subject, whatever is denied."""
        return self._allowed.may_publish(subject, time.monotonic())

    def may_be_asked_for(self, subject: bytes) -> bool:
        """Return True if a subscription of the other server is taken; messages are checked in any case."""
        if subject.startswith(LOOP_PREFIX) or not is_literal(subject):
            return True
        return self.may_send(subject)


def combined(given: SubjectRules, *denied: tuple[str, ...]) -> SubjectRules:
    """Return rules that also deny other subjects."""
    return SubjectRules(allow=given.allow, deny=tuple(dict.fromkeys([*given.deny, *sum(denied, ())])))


def built_in(
    *, is_system: bool, domain: str, other_domain: str, shares_jetstream: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what is denied outwards and inwards, whatever is configured.

    With `shares_jetstream` (`default_js_domain` names the empty domain) clients of either server reach the
    JetStream API of the other one by its plain subjects.
    """
    jetstream = () if shares_jetstream else JETSTREAM
    both = (*_CLUSTER, *JETSTREAM) if is_system else (*_SYSTEM, *jetstream)
    own = (f"$JS.{domain}.API",) if domain and domain != other_domain else ()
    return (*both, *(f"{prefix}.>" for prefix in own)), both
