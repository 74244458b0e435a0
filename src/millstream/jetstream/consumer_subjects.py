"""The subjects of acks and flow control, and of the answers that mirrors and sources get.

Each exists in two forms.  Version 2 adds the domain and a hash of the account, so that consumers of the same
name elsewhere cannot be confused.  Both forms are understood always; which one is sent is configured.

    $JS.ACK.<stream>.<consumer>.…    $JS.ACK.<domain>.<account>.<stream>.<consumer>.…
    $JS.FC.<stream>.<consumer>.…     $JS.FC.<domain>.<account>.<stream>.<consumer>.…
    $JSC.R.<unique>                  $JSC.R.<domain>.<account>.<stream>.<consumer>.<unique>

The last names the origin's stream and consumer, and the domain that the origin is reached in.
"""

from functools import cached_property
from typing import Final

import msgspec

from millstream.base.ids import short_hash
from millstream.jsapi.names import FLOW_CONTROL_PREFIX, SOURCE_REPLY_PREFIX
from millstream.protocol.ack_subject import ACK_START

_NO_DOMAIN: Final = "_"
_FLOW_START: Final = FLOW_CONTROL_PREFIX.encode()


class SubjectForms(msgspec.Struct, frozen=True):
    """The forms to send; False: version 1."""

    ack_fc_v2: bool = False
    api_reply_v2: bool = False


class ConsumerSubjects:
    """The subjects of the consumers of one account."""

    def __init__(self, account: str, domain: str = "", forms: SubjectForms | None = None) -> None:
        self._name = account
        self._domain = domain or _NO_DOMAIN
        self.forms = forms or SubjectForms()

    @cached_property
    def _account(self) -> str:  # not at the start: hashes are imported later
        return short_hash(self._name)

    @cached_property
    def _home(self) -> bytes:
        return f"{self._domain}.{self._account}.".encode()

    def acks(self, stream: str, consumer: str) -> bytes:
        """Return what the reply subjects of a consumer's deliveries begin with."""
        return self._start(ACK_START, stream, consumer)

    def all_acks(self, stream: str, consumer: str) -> tuple[bytes, bytes]:
        """Return the patterns of a consumer's acks in both forms."""
        one, two = self._both(ACK_START, stream, consumer)
        return one + b">", two + b"*.*.*.*.>"

    def flow_control(self, stream: str, consumer: str) -> bytes:
        """Return what the reply subjects of a consumer's flow control requests begin with."""
        return self._start(_FLOW_START, stream, consumer)

    def all_flow_control(self, stream: str, consumer: str) -> tuple[bytes, bytes]:
        """Return the patterns of answers to flow control requests in both forms."""
        one, two = self._both(_FLOW_START, stream, consumer)
        return one + b"*", two + b"*"

    def api_reply(self, api_prefix: str, stream: str, consumer: str, unique: str) -> str:
        """Return the subject for the answer to a request to an origin, whose API begins with `api_prefix`."""
        if not self.forms.api_reply_v2:
            return SOURCE_REPLY_PREFIX + unique
        domain = api_prefix.split(".")[1:2] or [_NO_DOMAIN]
        return f"{SOURCE_REPLY_PREFIX}{domain[0]}.{self._account}.{stream}.{consumer}.{unique}"

    def _start(self, prefix: bytes, stream: str, consumer: str) -> bytes:
        return self._both(prefix, stream, consumer)[self.forms.ack_fc_v2]

    def _both(self, prefix: bytes, stream: str, consumer: str) -> tuple[bytes, bytes]:
        name = b"%b.%b." % (stream.encode(), consumer.encode())
        return prefix + name, prefix + self._home + name
