"""Read a range as Arrow from Millstream: the server builds the columns and sends them over HTTP.

Each task requests the endpoint's address and a ticket over NATS, because tickets are short-lived and each
machine may see another address.  The rows equal those read over the wire, which is used if the endpoint is
unusable and the user did not insist on it.  The response states what it covers: `through` with each batch,
and a mark in the last one, so an interrupted response is never taken for a complete one.

Any client in the account may answer a request, so an offer is accepted only if it is signed with a key that
this connection gave to its server alone (`millstream_key` in CONNECT).  It must name the machine that the
connection goes to, or one that the user listed; and if the connection is encrypted, the offered endpoint must
be too.
"""

import hmac
import http.client
import logging
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlsplit

import msgspec

from millstream.base.errors import UNREADABLE_JSON
from millstream.base.owned import visible
from millstream.link.blocking_link import BlockingLink
from millstream.link.errors import LinkError, NoResponders, RequestTimeout
from millstream.link.login import tls_context
from millstream.tables.readers.loss import report
from millstream.tables.stream_range import StreamRange

logger: Final = logging.getLogger("millstream.tables")

_SUBJECT: Final = "$MILLSTREAM.ARROW.INFO"
_VERSION: Final = 1
_OK: Final = 200
_LONGEST_REFUSAL: Final = 2048
_NONSENSE: Final = (LookupError, TypeError, ValueError)  # raised while reading a malformed response
_CONNECT_S: Final = 10.0  # shorter than the time-out for rows, because the wire is an alternative


class ArrowUnusable(Exception):
    """Raised if there is no endpoint for this task or user; the wire may work."""


class ArrowBroken(Exception):
    """The response ended too early; a retry may succeed."""


class _Answer(msgspec.Struct):
    version: int = 0
    urls: list[str] = []
    ticket: str = ""
    proof: str = ""


_ANSWER: Final = msgspec.json.Decoder(_Answer)


@dataclass(frozen=True, slots=True)
class Offer:
    url: str
    ticket: str


def find_offer(link: BlockingLink, hosts: Sequence[str] = ()) -> Offer | None:
    """Return where the server serves ranges as Arrow; None if it does not, like nats-server, or not to us.

    `hosts` may serve Arrow besides the machine that `link` is connected to.
    """
    try:
        question = link.send_request(_SUBJECT)
        answer = link.answer_to(question)
    except (NoResponders, RequestTimeout):
        return None
    except LinkError as error:
        if "permissions violation" in str(error).lower():
            return None
        raise
    try:
        told = _ANSWER.decode(answer.payload)
    except UNREADABLE_JSON:
        logger.warning("an answer on %s is not an offer of Arrow and is ignored", _SUBJECT)
        return None
    if told.version != _VERSION or not told.urls:
        return None
    offer = Offer(told.urls[0], told.ticket)
    problem = _doubt(offer, told.proof, question.reply.encode(), link, hosts)
    if problem:
        logger.warning("the offer of Arrow at %s is ignored: %s", visible(offer.url), problem)
        return None
    return offer


def _doubt(offer: Offer, proof: str, inbox: bytes, link: BlockingLink, hosts: Sequence[str]) -> str:
    """Return why an offer is not to be trusted; empty if it is."""
    text = b"\n".join((inbox, offer.url.encode(), offer.ticket.encode()))
    expected = hmac.new(link.proof_key.encode(), text, "sha256").hexdigest()
    if not hmac.compare_digest(expected.encode(), proof.encode()):
        return "it is not signed by the server, so anybody may have sent it"
    try:
        parts = urlsplit(offer.url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "it is no address"
    if parts.scheme not in ("http", "https") or not port:
        return "it is no address"
    if not offer.ticket.isascii() or not offer.ticket.isprintable():
        return "its ticket is none"
    if link.encrypted and parts.scheme != "https":
        return "the connection is encrypted, and this is not"
    known = {each.lower() for each in hosts} | ({link.server.host.lower()} if link.server else set())
    if host.lower() in known:
        return ""
    if not _is_at(host, link.peer):
        return f"it is not on the machine of {link.server}; the option arrow.hosts allows others"
    return ""


def _is_at(host: str, peer: str) -> bool:
    """Return True if a host is the machine with the address `peer`."""
    try:
        found = {info[4][0] for info in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        return False
    return peer.removeprefix("::ffff:") in {str(each).removeprefix("::ffff:") for each in found}


class ArrowReader:
    """Reads one range; after a failure, reading continues after `through`."""

    def __init__(
        self,
        link: BlockingLink,
        partition: StreamRange,
        form: Any,
        *,
        with_headers: bool,
        timeout_s: float,
        fail: bool,
        hosts: Sequence[str] = (),
    ) -> None:
        self._hosts = hosts
        self.through = partition.low - 1
        self.gaps: list[tuple[int, int]] = []  # missing sequences; only of a dense range
        self._link = link
        self._partition = partition
        self._form = form
        self._with_headers = with_headers
        self._timeout_s = timeout_s
        self._fail = fail
        self._seen = partition.low - 1

    def batches(self) -> Iterator[Any]:
        """Yield the rest of the range; raise ArrowUnusable or ArrowBroken."""
        import pyarrow as pa

        offer = find_offer(self._link, self._hosts)
        if offer is None:
            raise ArrowUnusable("the server does not offer Arrow to this process")
        connection = self._connect(offer)
        try:
            response = self._ask(connection, offer)
            if not self._is_right_stream(response):
                self.through = self._partition.high
                return
            with pa.ipc.open_stream(response) as stream:
                yield from self._rows(stream)
        except (OSError, http.client.HTTPException, pa.ArrowException, *_NONSENSE) as error:
            raise ArrowBroken(f"{offer.url}: {error or type(error).__name__}") from error
        finally:
            connection.close()

    def _connect(self, offer: Offer) -> http.client.HTTPConnection:
        parts = urlsplit(offer.url)
        host = parts.hostname or ""
        patience_s = min(self._timeout_s, _CONNECT_S)
        if parts.scheme == "https":
            context = tls_context(self._link.options)
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, parts.port, timeout=patience_s, context=context
            )
        else:
            connection = http.client.HTTPConnection(host, parts.port, timeout=patience_s)
        try:
            connection.connect()
        except TimeoutError:  # usually a firewall, so a retry would not help
            connection.close()
            raise ArrowUnusable(f"{offer.url} cannot be reached") from None
        except OSError as error:
            connection.close()
            raise ArrowBroken(f"{offer.url}: {error}") from error
        connection.sock.settimeout(self._timeout_s)
        return connection

    def _ask(self, connection: http.client.HTTPConnection, offer: Offer) -> http.client.HTTPResponse:
        partition = self._partition
        query = f"from={self.through + 1}&to={partition.high}&columns={','.join(self._columns())}"
        if partition.filters:
            query += f"&subjects={','.join(quote(subject, safe='') for subject in partition.filters)}"
        connection.request(
            "GET",
            f"/arrow/v1/streams/{quote(partition.stream, safe='')}?{query}",
            headers={"Authorization": f"Bearer {offer.ticket}"},
        )
        response = connection.getresponse()
        if response.status != _OK:
            text = visible(response.read(_LONGEST_REFUSAL).decode(errors="replace").strip())
            raise ArrowUnusable(f"{offer.url} answered {response.status}: {text}")
        return response

    def _columns(self) -> list[str]:
        wanted = [name for name in self._form.names if name != "headers" or self._with_headers]
        return wanted if "seq" in wanted else [*wanted, "seq"]

    def _is_right_stream(self, response: http.client.HTTPResponse) -> bool:
        """Return True if it is the stream that was planned; report messages that it has lost since."""
        partition = self._partition
        created = response.headers["Millstream-Created"]
        first = int(response.headers["Millstream-Stream-First"])
        last = int(response.headers["Millstream-Last"])
        low, high = self.through + 1, partition.high
        if partition.id and created != partition.id:
            why = f"it was deleted and created again at {created}"
            report(partition.stream, [(low, high)], why, fail=self._fail)
            return False
        why = f"its first message is {first} now, the rest was purged or went by its limits"
        report(partition.stream, [(low, min(first - 1, high))], why, fail=self._fail)
        self._seen = max(self._seen, min(first - 1, high))
        report(
            partition.stream,
            [(max(last + 1, low), high)],
            f"its last sequence is {last} now",
            fail=self._fail,
        )
        return True

    def _rows(self, stream: Any) -> Iterator[Any]:
        while True:
            try:
                found = stream.read_next_batch_with_custom_metadata()
            except StopIteration:
                raise ArrowBroken("the answer ended before its last batch") from None
            about = {key.decode(): value.decode() for key, value in (found.custom_metadata or {}).items()}
            if "millstream.error" in about:
                raise ArrowBroken(about["millstream.error"])
            if "millstream.damaged" in about:
                damaged = [(int(seq), int(seq)) for seq in about["millstream.damaged"].split(",")]
                why = "the server found their records damaged"
                report(self._partition.stream, damaged, why, fail=self._fail)
            self._look_for_gaps(found.batch, int(about["millstream.through"]))
            if found.batch.num_rows:
                yield self._formed(found.batch)
            self.through = max(self.through, int(about["millstream.through"]))
            if "millstream.end" in about:
                self.through = self._partition.high
                return

    def _formed(self, batch: Any) -> Any:
        """Return the batch in Spark's schema."""
        import pyarrow as pa

        arrays = []
        for field in self._form:
            if field.name == "headers" and not self._with_headers:
                arrays.append(_empty_maps(field.type, batch.num_rows))
            else:
                arrays.append(batch.column(field.name))
        return pa.RecordBatch.from_arrays(arrays, schema=self._form)

    def _look_for_gaps(self, batch: Any, through: int) -> None:
        if not self._partition.dense or self._partition.filters:
            return
        seqs = batch.column("seq")
        count = len(seqs)
        if count and seqs[0].as_py() == self._seen + 1 and seqs[-1].as_py() == self._seen + count:
            self._seen += count
        for seq in seqs.to_pylist() if count and seqs[-1].as_py() != self._seen else ():
            if seq > self._seen + 1:
                self.gaps.append((self._seen + 1, seq - 1))
            self._seen = seq
        if through > self._seen:
            self.gaps.append((self._seen + 1, through))
            self._seen = through


def _empty_maps(kind: Any, count: int) -> Any:
    """Return `count` empty maps; building them from Python lists takes microseconds each."""
    import pyarrow as pa

    entries = pa.array([], pa.struct([kind.key_field, kind.item_field]))
    return pa.Array.from_buffers(
        kind, count, [None, pa.py_buffer(bytes(4 * (count + 1)))], children=[entries]
    )
