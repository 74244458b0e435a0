"""A connection to a NATS server for programs without an event loop.

``request`` and ``api`` ask and wait; ``publish`` and ``subscribe`` only write.  Whoever reads many messages
takes them out of `parser` himself::

    link = BlockingLink(LinkOptions(servers=parse_servers("nats://127.0.0.1:4222")))
    link.connect()
    sid = link.subscribe("deliver.here")
    while not done:
        while (op := link.parser.next()) != Op.NEED_MORE:
            if op == Op.MSG:
                ...                    # offsets into link.parser.buffer
            else:
                link.take(op)          # PING, INFO, -ERR: the link's business
        link.fill(timeout_s=5)         # False: nothing came

A connection that breaks raises NotConnected and stays broken until ``reconnect``: what was in flight is for
the caller to know.  ``reconnect`` subscribes anew to everything, under the same numbers.  While ``request``
waits, messages of other subscriptions are kept in `strays`.

One thread at a time.  Not here: a window of unanswered publishes (`publishing`).
"""

import contextlib
import random
import secrets
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import msgspec

from millstream.base.errors import UNREADABLE_JSON
from millstream.base.reasons import connection_reason
from millstream.jsapi.errors import not_enabled
from millstream.link.errors import (
    ApiError,
    AuthorizationViolation,
    LinkError,
    NoResponders,
    NotConnected,
    ProtocolViolation,
    RequestTimeout,
)
from millstream.link.frames import message_frame, subscription_frame
from millstream.link.login import (
    ServerInfo,
    connect_frames,
    known_servers,
    new_inbox,
    read_info,
    refusal,
    tls_context,
    wants_tls,
)
from millstream.link.options import LinkOptions, ServerAddress
from millstream.link.parser import Op, Parser

_ROOM: Final = 512 * 1024  # bytes asked for at once
_RECEIVE_BUFFER: Final = 4 * 1024 * 1024  # of the socket: the server goes on while a batch is worked on
_NO_RESPONDERS: Final = 503
_FIRST_WAIT_S: Final = 0.1
_LONGEST_WAIT_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Message:
    """One message, copied out of the parser."""

    subject: bytes
    sid: int
    reply: bytes
    headers: bytes
    payload: bytes
    status: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a request."""

    payload: bytes
    headers: bytes = b""
    status: int = 0


class Question(NamedTuple):
    """A request that is not answered yet."""

    subject: str
    inbox: bytes


class BlockingLink:
    """One connection at a time; see the module."""

    def __init__(self, options: LinkOptions) -> None:
        self.options: Final = options
        self.parser: Final = Parser()
        self.strays: Final[deque[Message]] = deque()
        self.info: ServerInfo | None = None
        self.server: ServerAddress | None = None
        self.inbox: Final = new_inbox(options)
        self.proof_key: Final = secrets.token_hex(16)  # known to the server alone
        self._socket: socket.socket | None = None
        self._broken: LinkError | None = None
        self._sids = 0
        self._subscriptions: dict[int, tuple[str, str]] = {}
        self._handlers: dict[int, Callable[[Parser], object]] = {}
        self._requests = 0
        self._pongs = 0
        self._inbox_sid = 0
        self._answers: dict[bytes, Reply | None] = {}  # by the inbox of what was asked; None: not yet

    def __repr__(self) -> str:
        return f"<BlockingLink to {self.server or 'nobody'}>"

    def __enter__(self) -> Self:
        if self._socket is None:
            self.connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- life ---------------------------------------------------------------------------------------

    @property
    def connected(self) -> bool:
        return self._socket is not None

    @property
    def encrypted(self) -> bool:
        return isinstance(self._socket, ssl.SSLSocket)

    @property
    def peer(self) -> str:
        """The address of the server's machine; empty if there is no connection."""
        try:
            return str(self._socket.getpeername()[0]) if self._socket is not None else ""
        except OSError:
            return ""

    def connect(self) -> None:
        """Try every server once, in random order; NotConnected tells what each of them said."""
        if self._socket is not None:
            return
        failures: list[LinkError] = []
        servers = known_servers(self.options, self.info)
        random.shuffle(servers)
        for server in servers:
            try:
                self._open(server)
            except NotConnected as error:
                failures.append(error)
            except (OSError, ProtocolViolation) as error:
                failures.append(NotConnected(f"cannot connect to {server}: {_reason(error)}"))
            else:
                self._broken = None
                return
        kind = next(
            (type(error) for error in failures if isinstance(error, AuthorizationViolation)), NotConnected
        )
        raise kind("; ".join(str(error) for error in failures))

    def reconnect(self, within_s: float) -> None:
        """Connect again, trying for `within_s` with growing pauses; what was subscribed is again.

        Bad credentials end it at once: waiting does not make them better.
        """
        self._drop()
        deadline = time.monotonic() + within_s
        wait_s = _FIRST_WAIT_S
        while True:
            try:
                return self.connect()
            except AuthorizationViolation:
                raise
            except NotConnected as error:
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    raise NotConnected(f"no server came back within {within_s:g} s: {error}") from None
            time.sleep(min(left_s, wait_s * random.uniform(0.5, 1.0)))
            wait_s = min(wait_s * 2, _LONGEST_WAIT_S)

    def close(self) -> None:
        """End the connection; harmless if there is none."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)  # what was written still arrives
        self._drop()
        self._subscriptions.clear()
        self._handlers.clear()
        self._inbox_sid = 0

    def _open(self, server: ServerAddress) -> None:
        timeout_s = self.options.connect_timeout_s
        deadline = time.monotonic() + timeout_s
        self.parser.clear()
        self._answers.clear()
        raw = socket.create_connection((server.host, server.port), timeout_s)
        self._socket = raw
        self.server = server
        try:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with contextlib.suppress(OSError):
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
            first = self.options.tls is not None and self.options.tls.first
            if first:
                self._encrypt(server)
            self._await_op(Op.INFO, deadline, server)
            self.info = read_info(self.parser.line())
            if not first and wants_tls(self.options, server, self.info):
                if self.parser.rest():
                    raise ProtocolViolation("the server spoke in the clear where TLS should begin")
                self._encrypt(server)
            self.send(connect_frames(self.options, server, self.info, self.proof_key))
            self._await_op(Op.PONG, deadline, server)
            for sid, (subject, queue) in self._subscriptions.items():
                self.send(subscription_frame(subject, queue, sid))
        except (LinkError, OSError):
            self._drop()
            raise

    def _encrypt(self, server: ServerAddress) -> None:
        assert self._socket is not None
        context = tls_context(self.options)
        self._socket = context.wrap_socket(self._socket, server_hostname=server.host)

    def _await_op(self, wanted: Op, deadline: float, server: ServerAddress) -> None:
        while True:
            op = self.parser.next()
            if op == wanted:
                return
            if op == Op.ERR:
                raise refusal(server, self.parser.line(), self.options)
            if op == Op.NEED_MORE:
                try:
                    left_s = deadline - time.monotonic()
                    come = left_s > 0 and self.fill(left_s)
                except NotConnected:
                    raise NotConnected(
                        f"cannot connect to {server}: it closed the connection during the login; check the "
                        "credentials, and TLS"
                    ) from None
                if not come:
                    raise NotConnected(
                        f"cannot connect to {server}: it did not say {wanted.name} in time; check that it is "
                        "a NATS server"
                    )
            elif op == Op.INFO:
                self.info = read_info(self.parser.line())

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self.parser.clear()
        self.strays.clear()

    def _fail(self, error: LinkError) -> LinkError:
        self._drop()
        self._broken = error
        return error

    def _connection(self) -> socket.socket:
        if self._socket is None:
            raise NotConnected(str(self._broken) if self._broken else "not connected")
        return self._socket

    # -- bytes --------------------------------------------------------------------------------------

    def send(self, data: bytes | memoryview, timeout_s: float | None = None) -> None:
        """Write all of `data`."""
        connection = self._connection()
        try:
            connection.settimeout(max(timeout_s or self.options.request_timeout_s, 0.001))
            connection.sendall(data)
        except TimeoutError:
            raise self._fail(NotConnected(f"{self.server} does not read what we send")) from None
        except OSError as error:
            raise self._fail(self._lost(error)) from None

    def fill(self, timeout_s: float) -> bool:
        """Read once into `parser`; False if nothing came within `timeout_s`."""
        connection = self._connection()
        with self.parser.room(_ROOM) as room:
            try:
                connection.settimeout(max(timeout_s, 0.000001))
                count = connection.recv_into(room)
            except (TimeoutError, ssl.SSLWantReadError):
                return False
            except OSError as error:
                raise self._fail(self._lost(error)) from None
        if count == 0:
            raise self._fail(NotConnected(f"{self.server} closed the connection"))
        self.parser.filled(count)
        return True

    def _lost(self, error: OSError) -> NotConnected:
        return NotConnected(f"the connection to {self.server} broke: {connection_reason(error)}")

    def take(self, op: int) -> None:
        """Do what the link does about an operation that is not a message."""
        if op == Op.PING:
            self.send(b"PONG\r\n")
        elif op == Op.PONG:
            self._pongs += 1
        elif op == Op.INFO:
            self.info = read_info(self.parser.line())
        elif op == Op.ERR:
            line = self.parser.line()
            if line.strip(b"'").lower().startswith(b"permissions violation"):
                raise LinkError(f"{self.server}: {line.decode(errors='replace').strip(chr(39))}")
            assert self.server is not None
            raise self._fail(refusal(self.server, line, self.options))

    def take_message(self) -> None:
        """Hand on the message that the parser stands at: an answer, one for a handler, or a stray."""
        parser = self.parser
        handler = self._handlers.get(parser.sid)
        if handler is not None:
            handler(parser)
        elif parser.sid == self._inbox_sid:
            inbox = parser.subject()
            if inbox in self._answers and self._answers[inbox] is None:
                self._answers[inbox] = Reply(parser.payload(), parser.headers(), parser.status())
        elif parser.sid in self._subscriptions:
            self.strays.append(copy_message(parser))

    # -- messages -----------------------------------------------------------------------------------

    def subscribe(
        self, subject: str, queue: str = "", handler: Callable[[Parser], object] | None = None
    ) -> int:
        """Ask for the messages of a subject; the number is `parser.sid` of each.

        With a handler they go there, while the link works, and never among the strays.
        """
        self._sids += 1
        self.send(subscription_frame(subject, queue, self._sids))
        if handler is not None:
            self._handlers[self._sids] = handler
        self._subscriptions[self._sids] = (subject, queue)
        return self._sids

    def unsubscribe(self, sid: int) -> None:
        """No more of them; what is under way may still come."""
        self._handlers.pop(sid, None)
        if self._subscriptions.pop(sid, None) is not None and self.connected:
            self.send(b"UNSUB %d\r\n" % sid)

    def publish(
        self,
        subject: str,
        payload: bytes = b"",
        *,
        reply: str = "",
        headers: bytes | Mapping[str, str] = b"",
    ) -> None:
        """Write one message, without waiting for anything."""
        self.send(message_frame(subject, payload, reply, headers))

    def next_message(self, timeout_s: float) -> Message | None:
        """The next message of any subscription, or None if none came in time."""
        if self.strays:
            return self.strays.popleft()
        deadline = time.monotonic() + timeout_s
        while True:
            op = self.parser.next()
            if op == Op.MSG:
                self.take_message()
                if self.strays:
                    return self.strays.popleft()
            elif op != Op.NEED_MORE:
                self.take(op)
            elif ((left_s := deadline - time.monotonic()) <= 0 and timeout_s > 0) or not self.fill(left_s):
                return None

    def request(
        self,
        subject: str,
        payload: bytes = b"",
        headers: bytes | Mapping[str, str] = b"",
        timeout_s: float | None = None,
    ) -> Reply:
        """Ask, and wait for the first answer."""
        return self.answer_to(self.ask(subject, payload, headers), timeout_s)

    def ask(self, subject: str, payload: bytes = b"", headers: bytes | Mapping[str, str] = b"") -> Question:
        """Ask without waiting: `answer_to` is where the answer will be."""
        if not self._inbox_sid:
            self._inbox_sid = self.subscribe(f"{self.inbox}.*")
        self._requests += 1
        inbox = f"{self.inbox}.{self._requests}"
        self.publish(subject, payload, reply=inbox, headers=headers)
        question = Question(subject, inbox.encode())
        self._answers[question.inbox] = None
        return question

    def answer_to(self, question: Question, timeout_s: float | None = None) -> Reply:
        """Wait for the first answer.  Only once for each question."""
        timeout_s = self.options.request_timeout_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + timeout_s
        answers, key = self._answers, question.inbox
        try:
            self._work_until(
                lambda: answers.get(key) is not None, deadline, f"no answer on {question.subject}", timeout_s
            )
        finally:
            answer = answers.pop(key, None)  # one that comes later is not waited for any more
        assert answer is not None
        if answer.status == _NO_RESPONDERS and not answer.payload:
            raise NoResponders(f"{self.server}: nobody answers on {question.subject}")
        return answer

    def ping(self, timeout_s: float | None = None) -> None:
        """Return when the server has dealt with all that was sent; RequestTimeout if it does not."""
        timeout_s = self.options.request_timeout_s if timeout_s is None else timeout_s
        wanted = self._pongs + 1
        self.send(b"PING\r\n")
        deadline = time.monotonic() + timeout_s
        self._work_until(lambda: self._pongs >= wanted, deadline, "no PONG", timeout_s)

    def work(self, timeout_s: float) -> bool:
        """Deal with all that has come, or read once; False if nothing came within `timeout_s`."""
        op = self.parser.next()
        if op == Op.NEED_MORE:
            if not self.fill(timeout_s):
                return False
            op = self.parser.next()
        while op != Op.NEED_MORE:
            if op == Op.MSG:
                self.take_message()
            else:
                self.take(op)
            op = self.parser.next()
        return True

    def _work_until(self, done: Callable[[], bool], deadline: float, what: str, timeout_s: float) -> None:
        while not done():
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not self.work(left_s):  # a server that never falls silent waits for nobody
                raise RequestTimeout(f"{self.server}: {what} within {timeout_s:g} s")

    def api(
        self, name: str, request: Mapping[str, Any] | bytes = b"", timeout_s: float | None = None
    ) -> dict[str, Any]:
        """Ask the JetStream API: ``api("STREAM.INFO.ORDERS")``; ApiError if the answer is an error."""
        body = request if isinstance(request, bytes) else msgspec.json.encode(request)
        try:
            answer = self.request(f"{self.options.api}.{name}", body, timeout_s=timeout_s)
        except NoResponders:
            raise NoResponders(not_enabled(str(self.server), self.options.domain)) from None
        try:
            fields = msgspec.json.decode(answer.payload)
        except UNREADABLE_JSON:
            fields = None
        if not isinstance(fields, dict):
            raise ProtocolViolation(f"{self.server}: the answer to {name} is no JSON object")
        error = fields.get("error")
        if error:
            raise ApiError(
                int(error.get("code", 0)),
                int(error.get("err_code", 0)),
                str(error.get("description", "")),
                name,
            )
        return fields


def _reason(error: OSError | ProtocolViolation) -> str:
    if isinstance(error, ProtocolViolation):
        return f"it does not speak NATS; check the port ({error})"
    return connection_reason(error)


def copy_message(parser: Parser) -> Message:
    """The message that a parser stands at."""
    return Message(
        parser.subject(), parser.sid, parser.reply(), parser.headers(), parser.payload(), parser.status()
    )
