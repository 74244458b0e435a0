"""Answers to malformed and forbidden operations, and whether the connection ends.

Each case is the bytes after CONNECT, the bytes of the answer, and how it ends: `STAYS` means that a PING
is still answered, `ENDS` that the server closes the connection after the answer.
"""

import pytest

from tests.kits.conformance.clients import Dial
from tests.kits.reference import ServerProcess

STAYS = True
ENDS = False

QUIET = b'CONNECT {"verbose":false,"pedantic":false}\r\n'
HEADERS = b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n'
PEDANTIC = b'CONNECT {"verbose":false,"pedantic":true}\r\n'

UNKNOWN = b"-ERR 'Unknown Protocol Operation'\r\n"
TOO_LONG = b"-ERR 'maximum control line exceeded'\r\n"
TOO_LARGE = b"-ERR 'Maximum Payload Violation'\r\n"
INVALID = b"-ERR 'Invalid Subject'\r\n"
INVALID_PUBLISH = b"-ERR 'Invalid Publish Subject'\r\n"
NOTHING = b""

CASES = {
    "connect defaults are verbose": (b"CONNECT {}\r\n", b"+OK\r\n", STAYS),
    "connect with unknown keys": (b'CONNECT {"verbose":false,"wombat":[1]}\r\n', NOTHING, STAYS),
    "connect key in another case": (b'CONNECT {"VERBOSE":false}\r\n', NOTHING, STAYS),
    "connect with a name that is no UTF-8": (
        b'CONNECT {"verbose":false,"name":"M\xfcller"}\r\n',
        NOTHING,
        STAYS,
    ),
    "connect with half a surrogate pair": (b'CONNECT {"verbose":false,"name":"\\ud800"}\r\n', NOTHING, STAYS),
    "connect with an endless number": (b'CONNECT {"verbose":false,"wombat":1e999}\r\n', NOTHING, STAYS),
    "connect with null": (b"CONNECT null\r\n", b"+OK\r\n", STAYS),
    "connect with a protocol of 23 digits": (
        b'CONNECT {"protocol":99999999999999999999999}\r\n',
        NOTHING,
        ENDS,
    ),
    "connect without argument": (b"CONNECT\r\n", NOTHING, ENDS),
    "connect with bad JSON": (b"CONNECT {bad\r\n", NOTHING, ENDS),
    "connect with an array": (b"CONNECT []\r\n", NOTHING, ENDS),
    "connect with a value of the wrong type": (b'CONNECT {"verbose":"yes"}\r\n', NOTHING, ENDS),
    "connect with protocol 2": (b'CONNECT {"protocol":2}\r\n', b"-ERR 'invalid client protocol'\r\n", ENDS),
    "connect with protocol -1": (b'CONNECT {"protocol":-1}\r\n', b"-ERR 'invalid client protocol'\r\n", ENDS),
    "no responders without headers": (
        b'CONNECT {"no_responders":true}\r\n',
        b"-ERR 'no responders requires headers support'\r\n",
        ENDS,
    ),
    "connect naming an account": (
        b'CONNECT {"account":"$G"}\r\n',
        b"-ERR 'Authorization Violation'\r\n",
        ENDS,
    ),
    "credentials nobody asked for": (
        b'CONNECT {"verbose":false,"user":"a","pass":"b","auth_token":"c","nkey":"d","jwt":"e"}\r\n',
        NOTHING,
        STAYS,
    ),
    "pub without arguments": (QUIET + b"PUB\r\n", UNKNOWN, ENDS),
    "pub of an empty line": (QUIET + b"PUB \r\n", NOTHING, ENDS),
    "pub without size": (QUIET + b"PUB foo\r\n", NOTHING, ENDS),
    "pub with four arguments": (QUIET + b"PUB foo a b 2\r\nhi\r\n", NOTHING, ENDS),
    "pub with a size that is no number": (QUIET + b"PUB foo x\r\n", NOTHING, ENDS),
    "pub with a negative size": (QUIET + b"PUB foo -1\r\n", NOTHING, ENDS),
    "pub with a signed size": (QUIET + b"PUB foo +1\r\n", NOTHING, ENDS),
    "pub with a size of ten digits": (QUIET + b"PUB foo 1234567890\r\n", NOTHING, ENDS),
    "pub with leading zeros": (QUIET + b"PUB foo 00002\r\nhi\r\n", NOTHING, STAYS),
    "pub of nothing": (QUIET + b"PUB foo 0\r\n\r\n", NOTHING, STAYS),
    "payload ended by LF": (QUIET + b"PUB foo 2\r\nhi\nPING\r\n", UNKNOWN, ENDS),
    "payload longer than said": (QUIET + b"PUB foo 2\r\nhixx\r\n", UNKNOWN, ENDS),
    "payload ended by CR and no LF": (QUIET + b"PUB foo 2\r\nhi\rxPING\r\n", UNKNOWN, ENDS),
    "payload of the largest size": (
        QUIET + b"PUB foo 1048576\r\n" + b"a" * 1048576 + b"\r\n",
        NOTHING,
        STAYS,
    ),
    "payload one byte too long": (QUIET + b"PUB foo 1048577\r\n", TOO_LARGE, ENDS),
    "headers and payload one byte too long": (HEADERS + b"HPUB foo 20 1048577\r\n", TOO_LARGE, ENDS),
    "hpub without headers negotiated": (QUIET + b"HPUB foo 2 4\r\nhihi\r\n", NOTHING, ENDS),
    "hpub before connect": (b"HPUB foo 2 4\r\nhihi\r\n", NOTHING, ENDS),
    "hpub without arguments": (HEADERS + b"HPUB\r\n", UNKNOWN, ENDS),
    "hpub of an empty line": (HEADERS + b"HPUB \r\n", NOTHING, ENDS),
    "hpub with one size": (HEADERS + b"HPUB foo 4\r\nhihi\r\n", NOTHING, ENDS),
    "hpub with five arguments": (HEADERS + b"HPUB foo a b 4 4\r\nhihi\r\n", NOTHING, ENDS),
    "hpub with more header than total": (HEADERS + b"HPUB foo 5 4\r\nhihi\r\n", NOTHING, ENDS),
    "hpub with a negative header size": (HEADERS + b"HPUB foo -1 4\r\nhihi\r\n", NOTHING, ENDS),
    "sub without arguments": (QUIET + b"SUB\r\n", UNKNOWN, ENDS),
    "sub of an empty line": (QUIET + b"SUB \r\n", NOTHING, ENDS),
    "sub without sid": (QUIET + b"SUB foo\r\n", NOTHING, ENDS),
    "sub with four arguments": (QUIET + b"SUB a b c d\r\n", NOTHING, ENDS),
    "sub to an empty token in the middle": (QUIET + b"SUB foo..bar 1\r\n", INVALID, STAYS),
    "sub to an empty token at the end": (QUIET + b"SUB foo. 1\r\n", INVALID, STAYS),
    "sub to an empty token at the start": (QUIET + b"SUB .foo 1\r\n", INVALID, STAYS),
    "sub to > before the end": (QUIET + b"SUB foo.>.x 1\r\n", INVALID, STAYS),
    "sub to a star inside a token": (QUIET + b"SUB fo*o.b> 1\r\n", NOTHING, STAYS),
    "sub with the internal queue": (
        QUIET + b"SUB foo _sys_ 1\r\n",
        b'-ERR \'Permissions Violation for Subscription to "foo" using queue "_sys_"\'\r\n',
        STAYS,
    ),
    "unsub without arguments": (QUIET + b"UNSUB\r\n", UNKNOWN, ENDS),
    "unsub of an empty line": (QUIET + b"UNSUB \r\n", NOTHING, ENDS),
    "unsub with three arguments": (QUIET + b"UNSUB 1 2 3\r\n", NOTHING, ENDS),
    "unsub with a count that is no number": (QUIET + b"UNSUB 1 x\r\n", NOTHING, STAYS),
    "unsub with a negative count": (QUIET + b"UNSUB 1 -1\r\n", NOTHING, STAYS),
    "unsub of nothing known": (QUIET + b"UNSUB 99\r\n", NOTHING, STAYS),
    "pedantic pub to a wildcard": (PEDANTIC + b"PUB foo.* 0\r\n\r\n", INVALID_PUBLISH, STAYS),
    "pedantic pub to an empty token": (PEDANTIC + b"PUB foo..b 0\r\n\r\n", INVALID_PUBLISH, STAYS),
    "pedantic pub to a trailing dot": (PEDANTIC + b"PUB foo. 0\r\n\r\n", INVALID_PUBLISH, STAYS),
    "pedantic pub to a wildcard with a bad payload": (
        PEDANTIC + b"PUB foo.* 2\r\nhixx\r\n",
        INVALID_PUBLISH + UNKNOWN,
        ENDS,
    ),
    "pedantic pub to a wildcard of a reserved name": (
        PEDANTIC + b"PUB $GR.* 0\r\n\r\n",
        INVALID_PUBLISH + b"-ERR 'Permissions Violation for Publish to \"$GR.*\"'\r\n",
        STAYS,
    ),
    "pedantic pub to a wildcard, too long": (PEDANTIC + b"PUB foo.* 1048577\r\n", TOO_LARGE, ENDS),
    "pedantic pub with a wildcard reply": (PEDANTIC + b"PUB foo b.* 0\r\n\r\n", NOTHING, STAYS),
    "pedantic pub to a star inside a token": (PEDANTIC + b"PUB x* 0\r\n\r\n", NOTHING, STAYS),
    "unknown operation": (QUIET + b"FOO\r\n", UNKNOWN, ENDS),
    "operation cut short": (QUIET + b"P\r\n", UNKNOWN, ENDS),
    "blank line": (QUIET + b"\r\n", UNKNOWN, ENDS),
    "http request": (b"GET / HTTP/1.0\r\n\r\n", UNKNOWN, ENDS),
    "msg from a client": (QUIET + b"MSG foo 1 2\r\nhi\r\n", UNKNOWN, ENDS),
    "hmsg from a client": (QUIET + b"HMSG foo 1 2 2\r\nhi\r\n", UNKNOWN, ENDS),
    "route operation": (QUIET + b"RS+ $G foo\r\n", UNKNOWN, ENDS),
    "leaf operation": (QUIET + b"LS+ foo\r\n", UNKNOWN, ENDS),
    "account operation": (QUIET + b"A+ foo\r\n", UNKNOWN, ENDS),
    "ok from a client": (QUIET + b"+OK\r\n", NOTHING, STAYS),
    "err from a client": (QUIET + b"-ERR 'sorry'\r\n", NOTHING, ENDS),
    "err from a client without a blank": (QUIET + b"-ERRx\r\n", UNKNOWN, ENDS),
    "err from a client without text": (QUIET + b"-ERR\r\n", UNKNOWN, ENDS),
    "size followed by a CR too many": (QUIET + b"PUB foo 2\r\r\nhi\r\n", NOTHING, ENDS),
    "info from a client": (QUIET + b"INFO {}\r\n", NOTHING, STAYS),
    "info with null": (QUIET + b"INFO null\r\n", NOTHING, STAYS),
    "info with bytes that are no UTF-8": (QUIET + b'INFO {"server_id":"\xff"}\r\n', NOTHING, STAYS),
    "bad info from a client": (QUIET + b"INFO {x\r\n", NOTHING, ENDS),
    "pong nobody waits for": (QUIET + b"PONG\r\n", NOTHING, STAYS),
    "control line of the largest size": (QUIET + b"PUB " + b"a" * 4094 + b" 0\r\n\r\n", NOTHING, STAYS),
    "control line one byte too long": (QUIET + b"PUB " + b"a" * 4095 + b" 0\r\n\r\n", TOO_LONG, ENDS),
    "endless control line": (QUIET + b"SUB " + b"a" * 5000, TOO_LONG, ENDS),
    "connect too long": (b'CONNECT {"name":"' + b"a" * 5000 + b'"}\r\n', TOO_LONG, ENDS),
    "ping with a long tail": (QUIET + b"PING " + b"a" * 5000 + b"\r\n", NOTHING, STAYS),
    "publish to the gateway's replies": (
        QUIET + b"PUB _GR_.a 0\r\n\r\n",
        b"-ERR 'Permissions Violation for Publish to \"_GR_.a\"'\r\n",
        STAYS,
    ),
    "publish to the old gateway's replies": (
        QUIET + b"PUB $GR.a 0\r\n\r\n",
        b"-ERR 'Permissions Violation for Publish to \"$GR.a\"'\r\n",
        STAYS,
    ),
    "publish to the raft groups": (
        QUIET + b"PUB $NRG.a 0\r\n\r\n",
        b"-ERR 'Permissions Violation for Publish to \"$NRG.a\"'\r\n",
        STAYS,
    ),
    "publish to the service replies": (QUIET + b"PUB _R_.a 0\r\n\r\n", NOTHING, STAYS),
    "reply to the service replies": (
        QUIET + b"PUB a _R_.x 0\r\n\r\n",
        b"-ERR 'Permissions Violation for Publish with Reply of \"_R_.x\"'\r\n",
        STAYS,
    ),
    "reply to a JetStream ack": (
        QUIET + b"PUB a $JS.ACK.a.b 0\r\n\r\n",
        b"-ERR 'Permissions Violation for Publish with Reply of \"$JS.ACK.a.b\"'\r\n",
        STAYS,
    ),
    "reply to the gateway's replies": (
        QUIET + b"PUB a _GR_.a 0\r\n\r\n",
        b"-ERR 'Permissions Violation for Publish with Reply of \"_GR_.a\"'\r\n",
        STAYS,
    ),
    "reply to the old gateway's replies": (
        QUIET + b"PUB a $GR.a 0\r\n\r\n",
        b"-ERR 'Permissions Violation for Publish with Reply of \"$GR.a\"'\r\n",
        STAYS,
    ),
    "reply to the raft groups": (QUIET + b"PUB a $NRG.a 0\r\n\r\n", NOTHING, STAYS),
    "publish to a JetStream ack": (QUIET + b"PUB $JS.ACK.a 0\r\n\r\n", NOTHING, STAYS),
}


@pytest.mark.parametrize("case", CASES)
def test_answer_and_end(server: ServerProcess, dial: Dial, case: str) -> None:
    sent, answer, stays = CASES[case]
    client = dial(server)
    client.read_info()
    if stays:
        assert client.round_trip(sent) == answer
    else:
        client.send(sent)
        assert client.read_until_closed() == answer
