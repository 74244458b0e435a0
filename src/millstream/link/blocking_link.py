"""A connection to a NATS server for programs without an event loop; its methods are those of `link`.

    with BlockingLink(LinkOptions(servers=parse_servers("nats://127.0.0.1:4222"))) as link:
        link.publish("orders.new", b"hello")
        answer = link.request("help", b"?", timeout_s=1)
        info = link.ask(STREAM_INFO, "ORDERS")

To read many messages, take them out of `parser`::

    sid = link.subscribe("deliver.here")
    while not done:
        while (op := link.parser.next()) != Op.NEED_MORE:
            if op == Op.MSG:
                ...                    # offsets into link.parser.buffer
            else:
                link.take(op)          # PING, INFO, -ERR: the link's business
        link.fill(timeout_s=5)         # False: nothing came

A lost connection raises NotConnected and stays lost until ``reconnect``, because only the caller knows what
was in flight.  ``reconnect`` restores every subscription under its number.  While ``request`` waits, messages
of other subscriptions are kept for ``next_message``.

Only one thread may use it at a time.  `socket_line` has the socket, `blocking_publisher` a publish window.
"""

import copy
import random
import secrets
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

from millstream.jsapi.errors import not_enabled
from millstream.link.deliveries import Direct, LinkMessage, Receiver, copy_message
from millstream.link.dialogue import Dialogue
from millstream.link.errors import (
    AuthorizationViolation,
    ConnectionLost,
    JetStreamOff,
    LinkError,
    NoResponders,
    NotConnected,
    RequestTimeout,
    summary,
)
from millstream.link.frames import Headers, message_frame
from millstream.link.login import ServerInfo
from millstream.link.options import LinkOptions, ServerAddress
from millstream.link.parser import LinkOp, LinkParser
from millstream.link.servers import Backoff
from millstream.link.socket_line import SocketLine
from millstream.link.verbs import Answer, Verb, read_answer, read_fields, request_body, verb_of

_FIRST_WAIT_S: Final = 0.1
_LONGEST_WAIT_S: Final = 2.0


class Question:
    """A request that was sent; `BlockingLink.answer_to` waits for its answer."""

    __slots__ = ("outcome", "reply", "subject")

    def __init__(self, subject: str) -> None:
        self.subject: Final = subject
        self.reply = ""
        self.outcome: LinkMessage | LinkError | None = None

    def settle(self, outcome: LinkMessage | LinkError) -> None:
        self.outcome = outcome


class _Strays(Receiver):
    """Keeps the messages that came during a wait for something else."""

    def __init__(self) -> None:
        self.kept: Final[deque[LinkMessage]] = deque()

    def take(self, parser: LinkParser) -> bool:
        self.kept.append(copy_message(parser))
        return False


class BlockingLink:
    """A link that blocks; it has one connection at a time."""

    def __init__(self, options: LinkOptions) -> None:
        self.options: Final = options
        self.parser: Final = LinkParser()
        self.dialogue: Final = Dialogue(options)
        self.inbox: Final = self.dialogue.requests.inbox
        self.proof_key: Final = secrets.token_hex(16)  # known to the server alone
        self._strays: Final = _Strays()
        self._line: SocketLine | None = None
        self._broken: LinkError = NotConnected("not connected")
        self.dialogue.complaint = self._complain

    def __repr__(self) -> str:
        return f"<BlockingLink to {self.server or 'nobody'}>"

    def __enter__(self) -> Self:
        if self._line is None:
            self.connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- life ---------------------------------------------------------------------------------------

    @property
    def connected(self) -> bool:
        return self._line is not None

    @property
    def info(self) -> ServerInfo | None:
        """The INFO of the last server, or None before the first connection."""
        return self.dialogue.info if self.dialogue.server is not None else None

    @property
    def server(self) -> ServerAddress | None:
        """The last server that accepted us."""
        return self.dialogue.server

    @property
    def encrypted(self) -> bool:
        return self._line is not None and self._line.encrypted

    @property
    def peer(self) -> str:
        """The IP address of the server, or an empty string without a connection."""
        return self._line.peer if self._line is not None else ""

    def connect(self) -> None:
        """Try every server once, in random order; raises NotConnected with the answer of each."""
        if self._line is not None:
            return
        failures: list[LinkError] = []
        pool = self.dialogue.pool
        for server in pool.round():
            try:
                line = SocketLine(server, self.options, self.parser, pool.tls_name(server), self.proof_key)
            except NotConnected as error:
                failures.append(error)
                continue
            self._line = line
            self.dialogue.greeted(server, line.info)
            restored = self.dialogue.restored()
            if restored:
                self.send(restored)
            return
        raise summary(failures)

    def reconnect(self, within_s: float) -> None:
        """Reconnect and restore all subscriptions; tries for `within_s` with growing pauses.

        Refused credentials end the attempt at once, because waiting does not help.
        """
        self._drop()
        deadline = time.monotonic() + within_s
        pauses = Backoff(first_s=_FIRST_WAIT_S, longest_s=_LONGEST_WAIT_S, generator=random.Random())
        pauses.next_s()  # the first attempt is the one below
        while True:
            try:
                return self.connect()
            except AuthorizationViolation:
                raise
            except NotConnected as error:
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    raise NotConnected(f"no server came back within {within_s:g} s: {error}") from None
            time.sleep(min(left_s, pauses.next_s()))

    def close(self) -> None:
        """Close the connection; does nothing without one."""
        if self._line is not None:
            self._line.end()
        self._drop()
        self.dialogue.clear()

    def _drop(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None
        self.parser.clear()
        self._strays.kept.clear()
        self.dialogue.requests.fail_all(
            lambda subject: ConnectionLost(f"no answer to {subject}: {self._broken}")
        )

    def _fail(self, error: LinkError) -> LinkError:
        self._broken = error
        self._drop()
        return error

    def _connection(self) -> SocketLine:
        if self._line is None:
            raise copy.copy(self._broken)
        return self._line

    def _complain(self, error: LinkError) -> None:
        raise type(error)(f"{self.server}: {error}")

    # -- bytes --------------------------------------------------------------------------------------

    def send(self, data: bytes | memoryview, timeout_s: float | None = None) -> None:
        """Write all of `data`."""
        line = self._connection()
        try:
            line.send(data, timeout_s or self.options.request_timeout_s)
        except NotConnected as error:
            raise self._fail(error) from None

    def fill(self, timeout_s: float) -> bool:
        """Read once into `parser`; return False if nothing came within `timeout_s`."""
        line = self._connection()
        try:
            return line.fill(timeout_s)
        except NotConnected as error:
            raise self._fail(error) from None

    def take(self, op: int) -> None:
        """Process an operation that is not a message: PING, INFO, -ERR."""
        try:
            answer = self.dialogue.take(op, self.parser)
        except NotConnected as error:
            raise self._fail(error) from None
        if answer:
            self.send(answer)

    def take_message(self) -> None:
        """Dispatch the parser's current message: an answer, one for a handler, or a stray."""
        self.dialogue.dispatcher.take(self.parser)

    def work(self, timeout_s: float) -> bool:
        """Process buffered input, or read once; return False if nothing came within `timeout_s`."""
        run, parser = self.dialogue.dispatcher.run, self.parser
        waiting = parser.rest()
        op = run(parser)
        if op == LinkOp.NEED_MORE and parser.rest() == waiting:
            if not self.fill(timeout_s):
                return False
            op = run(parser)
        while op != LinkOp.NEED_MORE:
            self.take(op)
            op = run(parser)
        return True

    def _work_until(self, done: Callable[[], bool], what: str, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not done():
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not self.work(
                left_s
            ):  # a server that sends without a pause must not extend the wait
                raise RequestTimeout(f"{self.server}: {what} within {timeout_s:g} s")

    # -- messages -----------------------------------------------------------------------------------

    def publish(self, subject: str, payload: bytes = b"", *, reply: str = "", headers: Headers = b"") -> None:
        """Write one message, without waiting for anything."""
        self.send(message_frame(subject, payload, reply, headers, self.dialogue.info.max_payload))

    def subscribe(
        self, subject: str, queue: str = "", handler: Callable[[LinkParser], object] | None = None
    ) -> int:
        """Subscribe to a subject; return the number that each message has as `sid`.

        With a handler, messages go to it while the link works, and never to `next_message`.
        """
        self._connection()
        receiver = self._strays if handler is None else Direct(handler)
        sid, frame = self.dialogue.subscribe(subject, queue, receiver)
        self.send(frame)
        return sid

    def unsubscribe(self, sid: int) -> None:
        """End a subscription; messages on their way are dropped."""
        frame = self.dialogue.unsubscribe(sid)
        if frame and self.connected:
            self.send(frame)

    def next_message(self, timeout_s: float) -> LinkMessage | None:
        """Return the next message of any subscription without a handler, or None if none came in time."""
        kept = self._strays.kept
        deadline = time.monotonic() + timeout_s
        left_s = timeout_s
        while not kept:
            if not self.work(max(left_s, 0.0)) or (left_s <= 0 and not kept):
                return None
            left_s = deadline - time.monotonic()
        return kept.popleft()

    def flush(self, timeout_s: float | None = None) -> None:
        """Wait until the server has processed everything that was sent; raises RequestTimeout."""
        timeout_s = self.options.request_timeout_s if timeout_s is None else timeout_s
        wanted = self.dialogue.pongs + 1
        self.send(b"PING\r\n")
        self._work_until(lambda: self.dialogue.pongs >= wanted, "no PONG", timeout_s)

    # -- requests -----------------------------------------------------------------------------------

    def request(
        self, subject: str, payload: bytes = b"", headers: Headers = b"", timeout_s: float | None = None
    ) -> LinkMessage:
        """Send a request and return the first answer."""
        return self.answer_to(self.send_request(subject, payload, headers), timeout_s)

    def send_request(self, subject: str, payload: bytes = b"", headers: Headers = b"") -> Question:
        """Send a request without waiting; `answer_to` waits for its answer."""
        self._connection()
        inbox = self.dialogue.open_inbox()
        if inbox:
            self.send(inbox)
        question = Question(subject)
        question.reply = self.dialogue.requests.ask(subject, question.settle, 0.0, 0.0)
        try:
            self.publish(subject, payload, reply=question.reply, headers=headers)
        except LinkError:
            self.dialogue.requests.forget(question.reply)
            raise
        return question

    def answer_to(self, question: Question, timeout_s: float | None = None) -> LinkMessage:
        """Return the first answer to a question; may be called once for each."""
        timeout_s = self.options.request_timeout_s if timeout_s is None else timeout_s
        try:
            self._work_until(
                lambda: question.outcome is not None, f"no answer on {question.subject}", timeout_s
            )
        finally:
            self.dialogue.requests.forget(question.reply)  # a later answer is ignored
        outcome = question.outcome
        if isinstance(outcome, NoResponders):
            raise NoResponders(f"{self.server}: nobody answers on {question.subject}")
        if isinstance(outcome, LinkError):
            raise outcome
        assert outcome is not None
        return outcome

    def api(self, name: str, request: object = b"", timeout_s: float | None = None) -> dict[str, Any]:
        """Send the API request of this name, such as ``STREAM.INFO.ORDERS``; return the answer as a dict.

        Raises LinkApiError for an error of JetStream, and JetStreamOff if the server has no JetStream.
        """
        verb_of(name)
        return read_fields(self._ask(f"{self.options.api}.{name}", request, timeout_s), name)

    def ask(
        self, verb: Verb[Answer], *tokens: str, request: object = b"", timeout_s: float | None = None
    ) -> Answer:
        """Send an API request and return the answer in its type; raises as `api` does."""
        subject = verb.subject_for(self.options.api, tokens)
        return read_answer(self._ask(subject, request, timeout_s), verb)

    def _ask(self, subject: str, request: object, timeout_s: float | None) -> bytes:
        try:
            return self.request(subject, request_body(request), timeout_s=timeout_s).payload
        except NoResponders:
            raise JetStreamOff(not_enabled(str(self.server), self.options.domain)) from None
