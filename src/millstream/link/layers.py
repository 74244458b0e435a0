"""Layers of connection options: how options from several places combine.

A `Layer` holds the options of one place.  `together` combines layers, the strongest first; the first value of
an option counts.  Options that exclude each other are taken from one layer: a token on the command line
replaces a user of the environment and is not a second login.  A password is the exception: it may complete
the user of a stronger layer if its own layer names no other user.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from millstream.link.errors import BadLinkOptions
from millstream.link.fields import Field, OptionKind, read_value
from millstream.link.options import (
    FIELDS,
    Contradiction,
    LinkOptions,
    LinkTlsOptions,
    parse_servers,
    replace_values,
)

_CHOICES: Final = {each.path: each.names.choice for each in FIELDS if each.names.choice[0]}
_LOGIN: Final = _CHOICES["user"][0]
_ADDRESS: Final = "address"  # the way to log in of nats://user:password@host
TLS: Final = "tls"  # the value True: encrypt, with or without further options


@dataclass(slots=True)
class Layer:
    """The values of one place by field path, with the name under which each was given."""

    values: dict[str, Any] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Layer({', '.join(self.values)})"

    def put(self, option: Field, raw: object, word: str) -> None:
        """Add an option unless it is empty; raises BadLinkOptions if it cannot be read."""
        if raw in ("", None, [], ()):
            return
        try:
            value = read_value(option.names.kind, raw)
        except ValueError as error:
            shown = str(error) if not option.names.secret else "cannot be read"
            raise BadLinkOptions(f"{word} {shown}") from None
        if option.names.kind is OptionKind.SERVERS:
            value = parse_servers(value)
            if not value:
                return
        self.values[option.path] = value
        self.words[option.path] = word

    def choices(self) -> set[tuple[str, str]]:
        """Return the choices that this layer makes among options that exclude each other."""
        made = {each.names.choice for each in FIELDS if each.names.choice[0] and self.values.get(each.path)}
        if any(server.user for server in self.values.get("servers", ())):
            made.add((_LOGIN, _ADDRESS))
        return made


def together(layers: Iterable[Layer]) -> LinkOptions:
    """Return the combined options of layers, the strongest first; raises BadLinkOptions if they conflict."""
    found = Layer()
    decided: set[tuple[str, str]] = set()
    for layer in layers:
        groups = dict(decided)
        other_user = "user" in layer.values and layer.values["user"] != found.values.get("user")
        for path, value in layer.values.items():
            group, way = _CHOICES.get(path, ("", ""))
            if path in found.values or (group in groups and groups[group] != way):
                continue
            if path == "password" and group in groups and other_user:
                continue
            found.values[path] = value
            found.words[path] = layer.words.get(path, path)
        decided |= {each for each in layer.choices() if each[0] not in groups}
    return _made(found)


def _made(layer: Layer) -> LinkOptions:
    values = dict(layer.values)
    encrypted = values.pop(TLS, False)
    try:
        base = LinkOptions(tls=LinkTlsOptions()) if encrypted else LinkOptions()
        return replace_values(base, values)
    except Contradiction as error:
        raise BadLinkOptions(error.in_words(layer.words)) from None
