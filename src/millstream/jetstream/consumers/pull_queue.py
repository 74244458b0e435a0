"""The pull requests waiting at a consumer: who is served next, which status each gets, and when.

A state machine without I/O and clock: the caller passes the time, in nanoseconds.  Messages to be sent
collect in `statuses` and in `groups.changes`; the caller sends them, in order with messages, before its next
step.

A consumer uses it like this:

    a request came           pulls.ask(reply, body, headers, now, num_pending, waiting again);  deliver

    deliver                  while there is a message for the consumer:
                                 request = pulls.current(now, num_pending, num_ack_pending)
                                 if request is None: break
                                 if 0 < request.bytes_left < size: pulls.too_big(request); continue
                                 if its inbox has no interest:     pulls.gone(request); continue
                                 if its client is behind:          pulls.pass_over(request); continue
                                 send the message to request.reply
                                 pulls.served(request, size, now)
                             then pulls.exhausted(…), or pulls.expire(…) if only max_ack_pending stopped it
                             send `statuses` after each of these calls, if there are any

    at pulls.due()           deliver, and exhausted() whatever stopped it
    consumer deleted         pulls.deleted(…) until count is 0;  server stops: pulls.shut_down()

Call `current` only with a message at hand: it may pin a client.  Statuses and messages to one inbox must keep
their order, or a client considers its batch complete too early.

Always true:  `count` is the length of the queue;  without a call, nothing changes before `due()`.
Not here:     what a body means (`pull_request`), texts (`pull_statuses`), pins and policies (`groups`).
"""

from collections.abc import Callable

from millstream.jetstream.consumers import pull_statuses
from millstream.jetstream.consumers.groups import PriorityGroups, is_served
from millstream.jetstream.consumers.pull_request import PullRefused, PullRequest, parse_pull
from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.enums import PriorityPolicy

_SECOND = 1_000_000_000
_WALKED_AT_ONCE = 64  # requests; more than that are looked at in parts
_PLENTY = 2**40  # messages, more than any stream has; sums of them fit


class WaitingPulls:
    """The queue of one pull consumer, limited by its checked `config`.

    `has_interest(inbox)` returns True if there is a subscriber; it is called when the queue is walked, not
    for each message.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        has_interest: Callable[[bytes], bool],
        groups: PriorityGroups | None = None,
    ) -> None:
        self.statuses: list[tuple[bytes, bytes]] = []  # (inbox, header block) to send
        self.groups = PriorityGroups(config) if groups is None else groups
        self.count = 0
        self.last_asked_ns = 0  # when a request came that could have been served
        self._has_interest = has_interest
        self._head: PullRequest | None = None
        self._tail: PullRequest | None = None
        self._one_shots = 0  # requests that do not wait for more than there is
        self._due = 0  # nothing expires and no heartbeat is due before; 0: ever
        self._walked_ns = 0
        self._next: PullRequest | None = None  # where a walk in parts goes on
        self._next_due = 0  # of those that it has looked at
        self._claimant: PullRequest | None = None  # was pinned just now, for a message it does not have yet
        self.configure(config)

    def configure(self, config: ConsumerConfig) -> None:
        """Apply a new configuration; waiting requests keep waiting."""
        self.groups.configure(config)
        self._max_waiting = config.max_waiting
        self._max_batch = config.max_batch
        self._max_expires = config.max_expires
        self._max_bytes = config.max_bytes
        self._overflow = config.priority_policy is PriorityPolicy.OVERFLOW
        self._pinning = config.priority_policy is PriorityPolicy.PINNED_CLIENT
        self._ranked = config.priority_policy is PriorityPolicy.PRIORITIZED
        self._plain = not self._overflow and not self._pinning and not self.groups.pin_id

    # -- requests come ----------------------------------------------------------------------------

    def ask(
        self,
        reply: bytes,
        body: bytes,
        headers: bytes,
        now_ns: int,
        num_pending: int,
        num_redeliveries: int,
    ) -> bool:
        """Parse and add a request; return True if it waits now.  Otherwise its status is in `statuses`."""
        try:
            request = parse_pull(reply, body, headers, now_ns)
        except PullRefused as refused:
            self.statuses.append((reply, refused.status))
            return False
        return self.add(request, now_ns, num_pending, num_redeliveries)

    def add(self, request: PullRequest, now_ns: int, num_pending: int, num_redeliveries: int) -> bool:
        """Add a request; return True if it waits now.  Otherwise its status, if any, is in `statuses`.

        There are `num_pending` messages that were never delivered and `num_redeliveries` that wait for
        redelivery.
        """
        refusal = self._refusal(request, now_ns)
        if refusal is not None:
            self.statuses.append((request.reply, refusal))
            return False
        if self.count == self._max_waiting and now_ns - self._walked_ns > _SECOND:
            self._walk(now_ns, False)
        if request.no_wait:
            available = num_pending + num_redeliveries
            if available == 0:
                if request.expires_ns == 0:
                    self.last_asked_ns = now_ns
                    self.statuses.append((request.reply, pull_statuses.NO_MESSAGES))
                    return False
            elif self.count > 0:
                claimed = self._walk(now_ns, False)
                if available < claimed or claimed < 0:
                    self.last_asked_ns = now_ns
                    self.statuses.append((request.reply, pull_statuses.REQUESTS_PENDING))
                    return False
        if self.count == self._max_waiting:
            # Who has heartbeats misses them and asks again; told at once, it would ask again at once.
            if request.heartbeat_ns == 0:
                self.statuses.append((request.reply, pull_statuses.MAX_WAITING))
            return False
        self.last_asked_ns = now_ns
        if self.count == 0:
            self._due = 0
        self._insert(request)
        self._expect(request.expires_ns)
        self._expect(request.heartbeat_due_ns)
        return True

    def _refusal(self, request: PullRequest, now_ns: int) -> bytes | None:
        if 0 < self._max_batch < request.left:
            return pull_statuses.max_request_batch(self._max_batch)
        if request.expires_ns != 0 and 0 < self._max_expires < request.expires_ns - now_ns:
            return pull_statuses.max_request_expires(self._max_expires)
        if 0 < self._max_bytes < request.bytes_left:
            return pull_statuses.max_request_bytes(self._max_bytes)
        if request.formal:
            return self.groups.refusal(request, now_ns)
        return None

    # -- messages go ------------------------------------------------------------------------------

    def current(self, now_ns: int, num_pending: int, num_ack_pending: int) -> PullRequest | None:
        """Return the request that gets the message at hand; None if none may have it now.

        `num_pending` includes the message at hand, even if it is a redelivery and so not pending.  Ends
        requests that have expired or name an old pin.
        """
        request = self._head
        if request is None:
            return None
        if self._plain and (request.expires_ns == 0 or now_ns < request.expires_ns):
            return request
        return self._choose(now_ns, num_pending, num_ack_pending)

    def _choose(self, now_ns: int, num_pending: int, num_ack_pending: int) -> PullRequest | None:
        groups = self.groups
        groups.check_timeout(now_ns)
        claiming = self._pinning and not groups.pin_id
        passed_over = 0
        while self._head is not None:
            request = self._head
            if request.expires_ns != 0 and now_ns >= request.expires_ns:
                self._end(request, pull_statuses.request_timeout(request.left, request.bytes_left))
                continue
            stands_by = False
            if claiming and not request.pin_id:
                groups.claim(request, now_ns)
                self._claimant = request
            elif (claiming or groups.pin_id) and request.pin_id != groups.pin_id:
                if request.pin_id:
                    self._end(request, pull_statuses.wrong_pin_id(request.left, request.bytes_left))
                    continue
                stands_by = True
            elif self._overflow:
                stands_by = not is_served(request, num_pending, num_ack_pending)
            if not stands_by:
                return request
            self._unlink(request)
            self._append(request)
            passed_over += 1
            if passed_over >= self.count:
                break
        return None

    def run_length(self) -> int:
        """Return how many messages in a row may go to the request that `current` returned.

        They need no further call of `current`, and one call of `served` with their number and the sum of
        their sizes, which must not exceed its `bytes_left`.  Returns 1 where each message must be checked.
        """
        request = self._head
        if request is None:
            return 0
        if request.left <= 1 or self._overflow:
            return 1
        other = request.next
        if self._ranked:
            return 1 if other is not None and other.priority <= request.priority else request.left
        if self._pinning:
            while other is not None and other.pin_id != request.pin_id:
                other = other.next
        return 1 if other is not None else request.left

    def served(self, request: PullRequest, size: int, now_ns: int, messages: int = 1) -> None:
        """Count a message of `size` bytes, or a run of `messages`, sent to the request from `current`.

        The size includes subject, ack subject, headers and payload, without a `Nats-Pin-Id`.
        """
        self._claimant = None
        request.delivered += messages
        request.left -= messages
        if request.bytes_left > 0:
            request.bytes_left -= size
            if request.bytes_left <= 0:
                request.bytes_left = 0
                request.left = 0
        if request.left <= 0:
            self._unlink(request)
            if request.bytes_left > 0:
                status = pull_statuses.batch_completed(request.left, request.bytes_left)
                self.statuses.append((request.reply, status))
            return
        if request.heartbeat_ns > 0:
            request.heartbeat_due_ns = now_ns + request.heartbeat_ns
        if self.count > 1:
            self._unlink(request)
            self._insert(request)

    def too_big(self, request: PullRequest) -> None:
        """End a waiting request because the message at hand has more bytes than it has left."""
        if not request.waiting:
            return
        self._end(request, pull_statuses.too_big(request.left, request.bytes_left))
        self._forget_claim(request)

    def gone(self, request: PullRequest, imported: bool = False) -> None:
        """End a waiting request because its inbox has no subscriber.

        Sends no status, unless the inbox is `imported`: there, the consumer's account has a reply subject
        that may still lead to a subscriber.
        """
        if not request.waiting:
            return
        self._unlink(request)
        if imported:
            status = pull_statuses.interest_expired(request.left, request.bytes_left)
            self.statuses.append((request.reply, status))
        self._forget_claim(request)

    def pass_over(self, request: PullRequest) -> bool:
        """Let the next request go first, because the client is behind; return False if there is none.

        With a pinned client or priorities there is none.
        """
        if self._pinning or self._ranked or self.count < 2:
            return False
        self._unlink(request)
        self._append(request)
        return True

    def _forget_claim(self, request: PullRequest) -> None:
        if request is self._claimant:
            self._claimant = None
            self.groups.release()

    # -- time passes ------------------------------------------------------------------------------

    def exhausted(self, now_ns: int, last_dseq: int, last_sseq: int) -> bool:
        """End requests that do not wait, because there is nothing more to deliver to any of them.

        Also ends expired requests, and sends heartbeats with the consumer's position.  Returns True if a pin
        has just timed out, so that others may be served: deliver again.
        """
        unpinned = self.groups.check_timeout(now_ns) if not self._plain else False
        over = self._one_shots > 0 or 0 < self._due <= now_ns
        if self.count > 0 and over and self._walk_on(now_ns, True):
            self._beat(now_ns, last_dseq, last_sseq)
        return unpinned

    def expire(self, now_ns: int, last_dseq: int, last_sseq: int) -> bool:
        """Do the same as `exhausted` when there are messages that the consumer may not deliver."""
        unpinned = self.groups.check_timeout(now_ns) if not self._plain else False
        if self.count > 0 and 0 < self._due <= now_ns and self._walk_on(now_ns, False):
            self._beat(now_ns, last_dseq, last_sseq)
        return unpinned

    def due(self) -> int:
        """Return when `exhausted` next has something to do; 0: unknown.

        May be too early after requests were served, never too late.
        """
        due = self._due if self.count > 0 else 0
        pin_due = 0 if self._plain else self.groups.due_ns
        if pin_due != 0 and (due == 0 or pin_due < due):
            return pin_due
        return due

    def num_waiting(self, now_ns: int) -> int:
        """Return the number of waiting requests, without expired ones and those whose client is gone.

        Where many wait, some of these are found later.
        """
        if self.count > _WALKED_AT_ONCE:
            self._walk_on(now_ns, False)
        elif self.count > 0:
            self._walk(now_ns, False)
        return self.count

    def _walk(self, now_ns: int, ended: bool) -> int:
        """End requests that are over; return how many messages the others wait for."""
        self._walked_ns = now_ns
        self._due = 0
        self._next = None
        return self._look_at(self._head, self.count, now_ns, ended)

    def _walk_on(self, now_ns: int, ended: bool) -> bool:
        """Do the same for some requests, if they are many; returns whether all were looked at.

        Until then something is due at once.
        """
        if self.count <= _WALKED_AT_ONCE:
            self._walk(now_ns, ended)
            return True
        walked_due = self._due if self._due != 0 and self._due <= now_ns else now_ns
        self._due = 0 if self._next is None else self._next_due
        self._look_at(self._head if self._next is None else self._next, _WALKED_AT_ONCE, now_ns, ended)
        if self._next is None:
            self._walked_ns = now_ns
            return True
        self._next_due = self._due
        self._due = walked_due
        return False

    def _look_at(self, first: PullRequest | None, most: int, now_ns: int, ended: bool) -> int:
        """Look at requests from one on, at most so many; `_next` is the one behind them."""
        claimed = 0
        left = most
        following = first
        while following is not None and left > 0:
            left -= 1
            request = following
            following = request.next
            if request.expires_ns != 0 and now_ns >= request.expires_ns:
                self._end(request, pull_statuses.request_timeout(request.left, request.bytes_left))
            elif ended and request.no_wait and (request.expires_ns == 0 or request.delivered > 0):
                self._end(request, pull_statuses.NO_MESSAGES)
            elif not self._has_interest(request.reply):
                self._unlink(request)
            else:
                claimed += min(request.left, _PLENTY)
                self._expect(request.expires_ns)
                self._expect(request.heartbeat_due_ns)
        self._next = following
        return claimed

    def _beat(self, now_ns: int, last_dseq: int, last_sseq: int) -> None:
        if self._due == 0 or now_ns < self._due:
            return
        self._due = 0
        request = self._head
        while request is not None:
            if request.heartbeat_due_ns != 0 and now_ns >= request.heartbeat_due_ns:
                self.statuses.append((request.reply, pull_statuses.idle_heartbeat(last_dseq, last_sseq)))
                request.heartbeat_due_ns = now_ns + request.heartbeat_ns
            self._expect(request.expires_ns)
            self._expect(request.heartbeat_due_ns)
            request = request.next

    # -- the end ----------------------------------------------------------------------------------

    def deleted(self, most: int) -> None:
        """End at most so many requests: the consumer was deleted; call it until none waits."""
        left = most
        while self._head is not None and left > 0:
            self._end(self._head, pull_statuses.CONSUMER_DELETED)
            left -= 1

    def shut_down(self) -> None:
        """End all requests: the server stops.  An inbox with several requests gets one status."""
        last: dict[bytes, bytes] = {}
        while self._head is not None:
            request = self._head
            last[request.reply] = pull_statuses.server_shutdown(request.left, request.bytes_left)
            self._unlink(request)
        self.statuses.extend(last.items())

    # -- the queue --------------------------------------------------------------------------------

    def _end(self, request: PullRequest, status: bytes) -> None:
        self._unlink(request)
        self.statuses.append((request.reply, status))

    def _expect(self, when_ns: int) -> None:
        self._due = _earlier(self._due, when_ns)

    def _insert(self, request: PullRequest) -> None:
        """Insert the request after all others, or after those with the same or a higher priority."""
        if self._next is not None:  # it may be put before the place where a walk goes on
            self._next_due = _earlier(self._next_due, request.expires_ns)
            self._next_due = _earlier(self._next_due, request.heartbeat_due_ns)
        after = self._tail
        if self._ranked:
            while after is not None and after.priority > request.priority:
                after = after.previous
        self._put_after(after, request)

    def _append(self, request: PullRequest) -> None:
        self._put_after(self._tail, request)

    def _put_after(self, before: PullRequest | None, request: PullRequest) -> None:
        following = self._head if before is None else before.next
        request.previous = before
        request.next = following
        if before is None:
            self._head = request
        else:
            before.next = request
        if following is None:
            self._tail = request
        else:
            following.previous = request
        request.waiting = True
        self.count += 1
        if request.no_wait:
            self._one_shots += 1

    def _unlink(self, request: PullRequest) -> None:
        before = request.previous
        following = request.next
        if request is self._next:
            self._next = following
        if before is None:
            self._head = following
        else:
            before.next = following
        if following is None:
            self._tail = before
        else:
            following.previous = before
        request.next = request.previous = None
        request.waiting = False
        self.count -= 1
        if request.no_wait:
            self._one_shots -= 1


def _earlier(due: int, other: int) -> int:
    """The earlier of two times, of which 0 is none."""
    return other if other != 0 and (due == 0 or other < due) else due
