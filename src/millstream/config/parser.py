"""Parse a configuration file and the files it includes into a tree.

    file   = entries | "{" entries "}"         the braces make plain JSON a configuration
    entry  = key [ "=" | ":" ] value  |  include name
    value  = scalar | "[" values "]" | "{" entries "}" | $NAME

Entries end at a line end, ``,`` or ``;``; list items at a line end or ``,``.  ``$NAME`` is a key that an
enclosing block has already set, otherwise an environment variable, whose text is parsed as a value.

Stricter than nats-server on purpose: an unclosed brace, a key without a value and a file that includes
itself are errors here.  Not here: the meaning of keys (config.schema).
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from millstream.base.reasons import file_reason
from millstream.config.errors import ConfigError, Location
from millstream.config.lexer import LINE_END, SEPARATORS, Reference, Scanner
from millstream.config.tree import Block, TreeEntry, TreeValue

MAX_DEPTH: Final = 100  # nested maps and lists; protects our own stack
BCRYPT_PREFIX: Final = "2a$"  # `$2a$…` is a password hash, not a variable


def parse_file(path: str | os.PathLike[str], environment: Mapping[str, str] | None = None) -> Block:
    """Parse a file; variables come from `environment`, by default that of the process."""
    return _parse_file(os.fspath(path), os.environ if environment is None else environment, ())


def parse_text(text: str, file: str = "", environment: Mapping[str, str] | None = None) -> Block:
    """Parse configuration text; locations in errors name `file`."""
    return _Parser(Scanner(text, file), os.environ if environment is None else environment, ()).parse()


def _parse_file(path: str, environment: Mapping[str, str], including: tuple[str, ...]) -> Block:
    try:
        text = Path(path).read_bytes().decode("utf-8-sig", "surrogateescape")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {file_reason(error)}") from error
    return _Parser(Scanner(text, path), environment, (*including, os.path.realpath(path))).parse()


class _Parser:
    def __init__(self, scanner: Scanner, environment: Mapping[str, str], including: tuple[str, ...]) -> None:
        self.scanner = scanner
        self.environment = environment
        self.including = including  # real paths of this file and of the files that include it
        self.scopes: list[Block] = []
        self.depth = 0

    def parse(self) -> Block:
        scanner = self.scanner
        root = Block()
        self.scopes.append(root)
        scanner.skip(lines=True)
        if scanner.peek() == "{":
            opened = scanner.location()
            scanner.position += 1
            self._entries(root, opened)
            scanner.skip(lines=True)
        while scanner.peek():
            if scanner.peek() == "}" and not scanner.text[scanner.position + 1 :].strip():
                break  # nats-server accepts one superfluous final brace too; hand-edited JSON often has it
            self._entry(root)
            self._end_of_entry(closing="}")
            scanner.skip(lines=True)
        return root

    def _entries(self, block: Block, opened: Location) -> None:
        """Parse entries up to and including the closing brace."""
        scanner = self.scanner
        while True:
            scanner.skip(lines=True)
            if not scanner.peek():
                raise ConfigError("the { that stands here is not closed", opened)
            if scanner.peek() == "}":
                scanner.position += 1
                return
            self._entry(block)
            self._end_of_entry(closing="")

    def _end_of_entry(self, closing: str) -> None:
        scanner = self.scanner
        scanner.skip(lines=False)
        character = scanner.peek()
        if not character or character == "}":
            # At the top level nats-server accepts a closing brace as the end of an entry.
            scanner.position += len(closing) if character else 0
        elif character in ",;" or character in LINE_END:
            scanner.position += 1
        else:
            scanner.fail(f"expected the value to end here, found {scanner.describe_next()}")

    def _entry(self, block: Block) -> None:
        scanner = self.scanner
        at = scanner.location()
        key, before_blank = scanner.read_key()
        if before_blank and key.lower() == "include":
            for entry in self._include(scanner.read_include(), at).values():
                block.put(entry)
            return
        scanner.skip(lines=True, comments=False)
        if scanner.peek() in SEPARATORS and scanner.peek():
            scanner.position += 1
            # In a map the value may be on the next line; at the top level it may not.
            scanner.skip(lines=len(self.scopes) > 1, comments=False)
        if not scanner.peek() or scanner.peek() in ",;}" or scanner.peek() in LINE_END:
            scanner.fail(f'the key "{key}" has no value')
        block.put(TreeEntry(key, self._value(), at))

    def _value(self) -> TreeValue:
        scanner = self.scanner
        at = scanner.location()
        if scanner.peek() in ("{", "["):
            self.depth += 1
            if self.depth > MAX_DEPTH:
                scanner.fail(f"more than {MAX_DEPTH} nested maps and lists")
            value = self._map(at) if scanner.peek() == "{" else self._list(at)
            self.depth -= 1
            return value
        scalar = scanner.read_scalar()
        return self._resolve(scalar, at) if isinstance(scalar, Reference) else TreeValue(scalar, at)

    def _map(self, at: Location) -> TreeValue:
        block = Block()
        self.scopes.append(block)
        self.scanner.position += 1
        self._entries(block, at)
        self.scopes.pop()
        return TreeValue(block, at)

    def _list(self, at: Location) -> TreeValue:
        scanner = self.scanner
        scanner.position += 1
        items: list[TreeValue] = []
        while True:
            scanner.skip(lines=True)
            if not scanner.peek():
                raise ConfigError("the [ that stands here is not closed", at)
            if scanner.peek() == "]":
                scanner.position += 1
                return TreeValue(items, at)
            items.append(self._value())
            scanner.skip(lines=False)
            if scanner.peek() == "," or (scanner.peek() and scanner.peek() in LINE_END):
                scanner.position += 1
            elif scanner.peek() not in ("]", ""):
                scanner.fail(f"expected ',' or ']' after a list item, found {scanner.describe_next()}")

    def _include(self, name: str, at: Location) -> Block:
        # As in nats-server, a name that begins with a slash is also relative to the including file's
        # folder.
        path = os.path.normpath(f"{os.path.dirname(self.scanner.file) or '.'}/{name}")
        if "\0" in path:
            raise ConfigError("include: the name of a file has no NUL", at)
        if os.path.realpath(path) in self.including:
            raise ConfigError(f"{name} includes itself", at)
        try:
            return _parse_file(path, self.environment, self.including)
        except ConfigError as error:
            if error.at is not None:
                raise
            raise ConfigError(f"include: {error.reason}", at) from error

    def _resolve(self, reference: Reference, at: Location) -> TreeValue:
        name = reference.name
        if name.startswith(BCRYPT_PREFIX):
            return TreeValue("$" + name, at)
        for scope in reversed(self.scopes):
            if (entry := scope.get(name)) is not None:
                entry.used = True
                return entry.value.moved(at)
        return self._from_environment(name, at, ())

    def _from_environment(self, name: str, at: Location, asking: tuple[str, ...]) -> TreeValue:
        if name in asking:
            raise ConfigError(f"the variable ${name} refers to itself", at)
        if name not in self.environment:
            raise ConfigError(f"the variable ${name} is neither a key above nor in the environment", at)
        text = self.environment[name]
        if not text.strip():
            return TreeValue("", at)
        parser = _EnvironmentParser(Scanner(text, f"${name}"), self.environment, (*asking, name))
        try:
            return parser.parse_value().moved(at)
        except ConfigError as error:
            raise ConfigError(f"the variable ${name} cannot be read: {error.reason}", at) from error


class _EnvironmentParser(_Parser):
    """Parses the value of an environment variable, which may refer to variables but not to keys."""

    def __init__(self, scanner: Scanner, environment: Mapping[str, str], asking: tuple[str, ...]) -> None:
        super().__init__(scanner, environment, ())
        self.asking = asking

    def parse_value(self) -> TreeValue:
        self.scanner.skip(lines=True, comments=False)
        value = self._value()
        self._end_of_entry(closing="}")
        return value

    def _resolve(self, reference: Reference, at: Location) -> TreeValue:
        if reference.name.startswith(BCRYPT_PREFIX):
            return TreeValue("$" + reference.name, at)
        return self._from_environment(reference.name, at, self.asking)
