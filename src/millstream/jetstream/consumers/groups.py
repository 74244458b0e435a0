"""Priority groups: which of several waiting clients a consumer prefers, and the pin of a single one.

    none            everybody in turn
    overflow        a request may be served only when many messages are pending, or unacknowledged
    pinned_client   one client gets everything; the others stand by until its pin ends
    prioritized     0 is served before 1, and so on to 9

A pin is an id that the server generates.  The client served first gets it with every message and names it in
its next requests; each such request extends it by `priority_timeout`.  As in nats-server, there is one pin
however many groups are configured.

Not here: the queue (`pull_queue`), and the check of a configuration.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from millstream.base.ids import nuid
from millstream.golang.time import ZERO_TIME, Time
from millstream.jetstream.consumers import pull_statuses
from millstream.jetstream.consumers.pull_request import PullRequest
from millstream.jsapi.consumer_types import ConsumerConfig, PriorityGroupState
from millstream.jsapi.enums import PriorityPolicy

LOWEST_PRIORITY: Final = 9

TIMEOUT: Final = "timeout"
ADMIN: Final = "admin"


class PinChange(NamedTuple):
    """An advisory to send: pinned if there is a `pin_id`, unpinned if there is a `reason`."""

    group: str
    pin_id: str = ""
    reason: str = ""


class PriorityGroups:
    """The priority groups of one consumer.  `changes` collects advisories; the sender clears it."""

    def __init__(self, config: ConsumerConfig, new_pin: Callable[[], str] = nuid) -> None:
        self._new_pin = new_pin
        self.changes: list[PinChange] = []
        self.pin_id = ""  # of the client that gets everything; empty if there is none
        self.pinned_ns = 0
        self.due_ns = 0  # when the pin ends; 0: there is none
        self._pinned_group = ""
        self.configure(config)

    def configure(self, config: ConsumerConfig) -> None:
        """Apply a configuration; a pin stays until it times out, whatever the policy."""
        self.policy = config.priority_policy
        self._names: Sequence[str] = tuple(config.priority_groups)
        self._timeout_ns = config.priority_timeout

    def refusal(self, request: PullRequest, now_ns: int) -> bytes | None:
        """Return the status for a request that violates the policy, or None.

        A request that names the pin extends it.  Requests that are not JSON are exempt.
        """
        if not request.formal:
            return None
        policy = self.policy
        if (request.min_pending or request.min_ack_pending) and policy is not PriorityPolicy.OVERFLOW:
            return pull_statuses.bad_request(pull_statuses.NOT_OVERFLOW)
        if request.pin_id and policy is not PriorityPolicy.PINNED_CLIENT:
            return pull_statuses.bad_request(pull_statuses.NOT_PINNED_CLIENT)
        if not 0 <= request.priority <= LOWEST_PRIORITY:
            return pull_statuses.bad_request(pull_statuses.PRIORITY_RANGE)
        if policy is PriorityPolicy.NONE:
            return None
        if not request.group:
            return pull_statuses.bad_request(pull_statuses.GROUP_MISSING)
        if request.group not in self._names:
            return pull_statuses.bad_request(pull_statuses.GROUP_INVALID)
        self.check_timeout(now_ns)
        if self.pin_id and request.pin_id:
            if request.pin_id != self.pin_id:
                return pull_statuses.PIN_ID_MISMATCH
            self.due_ns = now_ns + self._timeout_ns
        return None

    # -- the pin ----------------------------------------------------------------------------------

    def claim(self, request: PullRequest, now_ns: int) -> None:
        """Pin the client of a request that is about to be served; one without a group gets no pin."""
        if not request.group:
            return
        self.pin_id = request.pin_id = self._new_pin()
        self.pinned_ns = now_ns
        self.due_ns = now_ns + self._timeout_ns
        self._pinned_group = request.group
        self.changes.append(PinChange(request.group, pin_id=self.pin_id))

    def release(self) -> None:
        """Drop the pin without an advisory."""
        self.pin_id = ""
        self.pinned_ns = self.due_ns = 0

    def check_timeout(self, now_ns: int) -> bool:
        """End the pin if its client was silent for too long; return True if it was."""
        if self.due_ns == 0 or now_ns < self.due_ns:
            return False
        self.release()
        self.changes.append(PinChange(self._pinned_group, reason=TIMEOUT))
        return True

    def unpin(self, group: str) -> None:
        """End the pin on request; the advisory is sent even if there was none."""
        self.release()
        self.changes.append(PinChange(group, reason=ADMIN))

    def state(self) -> list[PriorityGroupState]:
        """Return the state for a consumer's info: the first group stands for all."""
        if not self._names:
            return []
        pinned = Time(self.pinned_ns) if self.pinned_ns else ZERO_TIME
        return [PriorityGroupState(group=self._names[0], pinned_client_id=self.pin_id, pinned_ts=pinned)]


def is_served(request: PullRequest, num_pending: int, num_ack_pending: int) -> bool:
    """Return True if an overflow request is served: one of its bounds is reached, or it has none."""
    if request.min_pending <= 0 and request.min_ack_pending <= 0:
        return True
    if 0 < request.min_pending <= num_pending:
        return True
    return 0 < request.min_ack_pending <= num_ack_pending
