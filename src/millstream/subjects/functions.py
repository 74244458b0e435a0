"""The functions that a transform's destination may call: their syntax and what they compute.

A call is a whole destination token, ``$n`` or ``{{name(arguments)}}``.  `read_call` parses it and checks
everything that does not depend on the source pattern; `compile_call` builds the function once the wildcards
it names have been found there.  Names, limits and error texts are nats-server's.  `subjects.transform`
combines the tokens of a destination.
"""

import random
import re
from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import Final

import msgspec

from millstream.base.decimals import read_integer
from millstream.base.errors import MillstreamError

_INTEGER: Final = re.compile(r"[+-]?0*[0-9]{1,19}")
_SEPARATOR: Final = re.compile(r",[\t\n\f\r ]*")
_INT32_MAX: Final = 2**31 - 1
_INT32_MIN: Final = -(2**31)

# Only the first letter of each word of a name may be upper or lower case.
_SPELLINGS: Final = {
    "wildcard": "[wW]ildcard",
    "partition": "[pP]artition",
    "splitfromleft": "[sS]plit[fF]rom[lL]eft",
    "splitfromright": "[sS]plit[fF]rom[rR]ight",
    "slicefromleft": "[sS]lice[fF]rom[lL]eft",
    "slicefromright": "[sS]lice[fF]rom[rR]ight",
    "right": "[rR]ight",
    "left": "[lL]eft",
    "split": "[sS]plit",
    "random": "[rR]andom",
}


@cache
def _calls() -> dict[str, re.Pattern[str]]:
    """Return the regular expression of a call for each function."""
    return {
        name: re.compile(rf"{{{{[\t\n\f\r ]*{spelling}[\t\n\f\r ]*\((.*)\)[\t\n\f\r ]*}}}}")
        for name, spelling in _SPELLINGS.items()
    }


class Fault(Enum):
    """The errors of a transform, with nats-server's texts."""

    BAD_SUBJECT = "invalid subject"
    BAD_TRANSFORM = "invalid mapping destination: invalid transform"
    UNKNOWN_FUNCTION = "invalid mapping destination: unknown function"
    OUT_OF_RANGE = "invalid mapping destination: wildcard index out of range"
    TOO_FEW = "invalid mapping destination: not enough arguments passed to the function"
    TOO_MANY = "invalid mapping destination: too many arguments passed to the function"
    BAD_ARGUMENT = "invalid mapping destination: function argument is invalid or in the wrong format"
    NOT_ALL_USED = "invalid mapping destination: not using all of the token wildcard(s)"
    NOT_FOR_IMPORTS = (
        "invalid mapping destination: "
        "the only mapping function allowed for import transforms is {{Wildcard()}}"
    )
    DUPLICATE = "duplicate entry"
    WEIGHT = "individual weights need to be <= 100"
    TOTAL_WEIGHT = "total weight needs to be <= 100"


class TransformError(MillstreamError):
    """A transform cannot be built."""

    def __init__(self, fault: Fault, token: str = "", *, joint: str = "in") -> None:
        self.fault = fault
        super().__init__(f"{fault.value} {joint} {token}" if token else fault.value)


# A compiled destination token: takes the source's tokens, returns text.
Step = Callable[[list[bytes]], bytes]


class FunctionCall(msgspec.Struct, frozen=True):
    """A destination token that is a function call, with its arguments parsed but not yet resolved."""

    name: str  # lower case
    wildcards: tuple[int, ...]  # the wildcards of the source that it uses, counted from 1
    number: int = 0  # number of partitions, number of bytes, …
    delimiter: str = ""


def looks_like_call(token: str) -> bool:
    return len(token) > 4 and token.startswith("{{") and token.endswith("}}")


def known_call(token: str) -> bool:
    """Return True if the token names an existing function, whatever its arguments."""
    return _parse(token) is not None


def read_call(token: str) -> FunctionCall | None:
    """Return the function call in a destination token, or None for a literal token; raise TransformError."""
    if len(token) > 1 and token[0] == "$":
        number = _integer(token[1:])
        return None if number is None else FunctionCall("wildcard", (number,))
    if not looks_like_call(token):
        return None
    parsed = _parse(token)
    if parsed is None:
        raise TransformError(Fault.UNKNOWN_FUNCTION, token)
    name, arguments = parsed
    if name == "wildcard":
        if arguments == [""]:
            raise TransformError(Fault.TOO_FEW, token)
        if len(arguments) > 1:
            raise TransformError(Fault.TOO_MANY, token)
        return FunctionCall(name, (_argument(token, arguments[0]),))
    if name == "random" and len(arguments) != 1:
        raise TransformError(Fault.TOO_FEW, token)  # there are too many; nats-server reports too few
    if name in ("partition", "random"):
        count = _argument(token, arguments[0])
        if count > _INT32_MAX:
            raise TransformError(Fault.BAD_ARGUMENT, token)
        count = (count - _INT32_MIN) % 2**32 + _INT32_MIN
        return FunctionCall(name, tuple(_argument(token, argument) for argument in arguments[1:]), count)
    if len(arguments) < 2:
        raise TransformError(Fault.TOO_FEW, token)
    if len(arguments) > 2:
        raise TransformError(Fault.TOO_MANY, token)
    wildcard = _argument(token, arguments[0])
    if name == "split":
        if " " in arguments[1]:
            raise TransformError(Fault.BAD_ARGUMENT, token)
        return FunctionCall(name, (wildcard,), delimiter=arguments[1])
    number = _argument(token, arguments[1])
    if not _INT32_MIN <= number <= _INT32_MAX:
        raise TransformError(Fault.BAD_ARGUMENT, token)
    return FunctionCall(name, (wildcard,), number)


def wildcard_number(token: str) -> int | None:
    """Return the number of the wildcard that the token stands for, or None if it is anything else."""
    if not token.startswith("$") and not looks_like_call(token):
        return None
    try:
        call = read_call(token)
    except TransformError:
        return None
    if call is None or call.name != "wildcard" or call.wildcards[0] < 1:
        return None
    return call.wildcards[0]


def compile_call(call: FunctionCall, positions: list[int], generator: random.Random) -> Step:
    """Return the function of a call; `positions` are the indexes of its wildcards in the source's tokens."""
    number = call.number
    if call.name == "random":
        return lambda tokens: _draw(generator, number)
    if call.name == "partition":
        if not positions:
            return lambda tokens: _partition(b".".join(tokens), number)
        return lambda tokens: _partition(b"".join([tokens[index] for index in positions]), number)
    position = positions[0]
    if call.name == "wildcard":
        return lambda tokens: tokens[position]
    if call.name == "split":
        delimiter = call.delimiter.encode()
        return lambda tokens: _split(tokens[position], delimiter)
    cut = _CUTS[call.name]

    def step(tokens: list[bytes]) -> bytes:
        token = tokens[position]
        return cut(token, number) if 0 < number < len(token) else token  # a shorter token stays whole

    return step


def _parse(token: str) -> tuple[str, list[str]] | None:
    for name, pattern in _calls().items():
        found = pattern.search(token)
        if found is not None:
            return name, _SEPARATOR.split(found[1])
    return None


def _argument(token: str, text: str) -> int:
    number = _integer(text.strip(" "))
    if number is None:
        raise TransformError(Fault.BAD_ARGUMENT, token)
    return number


def _integer(text: str) -> int | None:
    number = read_integer(text)
    return number if number is not None and -(2**63) <= number < 2**63 else None


def _partition(key: bytes, buckets: int) -> bytes:
    if buckets & 0xFFFFFFFF == 0:
        return b"0"
    digest = 0x811C9DC5  # FNV-1a, 32 bits
    for byte in key:
        digest = ((digest ^ byte) * 0x01000193) & 0xFFFFFFFF
    return b"%d" % (digest % (buckets & 0xFFFFFFFF))  # in nats-server a negative count wraps to a huge one


def _draw(generator: random.Random, ceiling: int) -> bytes:
    if ceiling == 0:
        return b"0"
    return b"%d" % (generator.getrandbits(31) % abs(ceiling))


def _split(token: bytes, delimiter: bytes) -> bytes:
    if delimiter:
        pieces = token.split(delimiter)
    else:  # split between all characters
        text = token.decode("utf-8", "surrogateescape")
        pieces = [character.encode("utf-8", "surrogateescape") for character in text]
    joined = pieces[0]
    for index, piece in enumerate(pieces[1:]):
        # One leading delimiter adds no empty token, two or more do; existing mappings rely on both.
        if piece and (index > 0 or joined):
            joined += b"."
        joined += piece
    return joined


def _split_from_left(token: bytes, size: int) -> bytes:
    return token[:size] + b"." + token[size:]


def _split_from_right(token: bytes, size: int) -> bytes:
    return token[:-size] + b"." + token[-size:]


def _slice_from_left(token: bytes, size: int) -> bytes:
    return b".".join([token[start : start + size] for start in range(0, len(token), size)])


def _slice_from_right(token: bytes, size: int) -> bytes:
    first = len(token) % size or size
    return b".".join(
        [token[:first], *[token[start : start + size] for start in range(first, len(token), size)]]
    )


def _left(token: bytes, size: int) -> bytes:
    return token[:size]


def _right(token: bytes, size: int) -> bytes:
    return token[-size:]


_CUTS: Final[dict[str, Callable[[bytes, int], bytes]]] = {
    "splitfromleft": _split_from_left,
    "splitfromright": _split_from_right,
    "slicefromleft": _slice_from_left,
    "slicefromright": _slice_from_right,
    "left": _left,
    "right": _right,
}
