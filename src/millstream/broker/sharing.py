"""Decide whether an import fits what its exporter offers.

Every import needs an account that exports the subject to the importer, and no chain of imports may lead
a message back to its origin.  Messages and rules are nats-server's.

Accounts may have thousands of exports and imports, so they are looked up and not compared with each other.
The search for a way back visits each account once for each subject, whatever the number of ways to it: it
keeps which accounts lie behind.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from millstream.broker.options import AccountOptions, Export, ExportKind, Import
from millstream.subjects.cover import Cover
from millstream.subjects.filter_index import FilterIndex
from millstream.subjects.functions import TransformError
from millstream.subjects.match import is_subset
from millstream.subjects.tokens import is_literal, valid_subject
from millstream.subjects.transform import SubjectTransform, destination_to_pattern, pattern_to_destination

_Place = tuple[str, str]  # an account and a subject


class _Offers:
    """The exports of one kind of an account."""

    __slots__ = ("by_subject", "cover")

    def __init__(self, exports: list[Export]) -> None:
        self.by_subject: dict[bytes, list[Export]] = {}
        for export in exports:
            self.by_subject.setdefault(export.subject.encode(), []).append(export)
        self.cover = Cover(self.by_subject)


class Sharing:
    """Accounts, and the imports that were already accepted."""

    def __init__(self, accounts: Mapping[str, AccountOptions], accepted: Mapping[str, list[Import]]) -> None:
        self.accounts = accounts
        self._accepted = accepted
        self._offers: dict[tuple[str, ExportKind], _Offers] = {}
        self._imports: dict[tuple[str, ExportKind], FilterIndex] = {}  # by the subjects that they answer to
        self._taken: set[tuple[str, ExportKind, str, str]] = set()  # by importer and exporter

    def accept(self, importer: str, item: Import) -> None:
        """Add an import, which has no reason against it."""
        self._accepted[importer].append(item)
        self._taken.add(_identity(importer, item))
        index = self._imports.get((importer, item.kind))
        if index is not None:
            index.add((_answers_to(item),), item)

    def reason_against(self, importer: AccountOptions, item: Import) -> str:
        """Return why the import from a known account is refused, or an empty string."""
        exporter = self.accounts[item.account]
        local = local_subject(item)
        if not _valid(item.subject) or not _valid(local):
            return "invalid subject"
        if not _authorized(importer, item, self._exports(exporter.name, item.kind)):
            return f"{item.kind} import not authorized"
        if item.prefix and not is_literal(item.prefix.encode()):
            return "stream import prefix can not contain wildcard tokens"
        if item.kind is ExportKind.STREAM:
            leads_back = any(
                _leads_back(self._origins, (exporter.name, subject), importer.name)
                for subject in (local, item.subject)
            )
        else:
            pattern = local if is_literal(item.subject.encode()) else destination_to_pattern(local)
            leads_back = _leads_back(self._responders, (exporter.name, pattern), importer.name)
        if leads_back:
            return "import forms a cycle"
        if _identity(importer.name, item) in self._taken:
            return f"{item.kind} import already exists"
        return _transform_problem(item, local)

    def _origins(self, account: str, subject: str) -> Iterator[_Place]:
        """Yield where the streams originate that `account` exports as `subject`."""
        if self._exports(account, ExportKind.STREAM).cover.of(subject.encode()):
            yield from self._followed(account, subject, ExportKind.STREAM)

    def _responders(self, account: str, subject: str) -> Iterator[_Place]:
        """Yield where `account` forwards requests to `subject`."""
        return self._followed(account, subject, ExportKind.SERVICE)

    def _followed(self, account: str, subject: str, kind: ExportKind) -> Iterator[_Place]:
        index = self._imports.get((account, kind))
        if index is None:
            index = self._imports[account, kind] = FilterIndex()
            for item in self._accepted.get(account, ()):
                if item.kind is kind:
                    index.add((_answers_to(item),), item)
        for group in index.colliding(subject.encode()):
            for item in group:
                local = destination_to_pattern(local_subject(item))
                yield item.account, local if is_subset(local.encode(), subject.encode()) else subject

    def _exports(self, account: str, kind: ExportKind) -> _Offers:
        offers = self._offers.get((account, kind))
        if offers is None:
            found = self.accounts.get(account)
            exports = found.exports if found is not None else ()
            offers = self._offers[account, kind] = _Offers([each for each in exports if each.kind is kind])
        return offers


class _Visit:
    """A place on the path of a search, and the accounts before it and behind it, as bits."""

    __slots__ = ("before", "behind", "place", "ways")

    def __init__(self, place: _Place, ways: Iterator[_Place], before: int) -> None:
        self.place = place
        self.ways = ways
        self.before = before
        self.behind = 0


def _leads_back(following: Callable[[str, str], Iterator[_Place]], start: _Place, origin: str) -> bool:
    """Return True if a chain of imports from `start` comes to `origin`, or to another account twice.

    Not recursive: a chain may be as long as there are accounts.
    """
    bits = {origin: 1}
    known: dict[_Place, int] = {}  # the accounts behind places from which no chain comes to one twice
    path = [_Visit(start, following(*start), 1)]
    while path:
        visit = path[-1]
        place = next(visit.ways, None)
        if place is None:
            known[visit.place] = visit.behind
            path.pop()
            if path:
                path[-1].behind |= visit.behind
            continue
        there = bits.setdefault(place[0], 1 << len(bits))
        visit.behind |= there
        before = visit.before | bits.setdefault(visit.place[0], 1 << len(bits))
        if there & visit.before or known.get(place, 0) & before:
            return True
        if place in known:
            visit.behind |= known[place]
        else:
            path.append(_Visit(place, following(*place), before))
    return False


def _answers_to(item: Import) -> bytes:
    """Return the subjects by which chains of imports lead through this one."""
    subject = local_subject(item) if item.kind is ExportKind.STREAM else item.subject
    return destination_to_pattern(subject).encode()


def _identity(importer: str, item: Import) -> tuple[str, ExportKind, str, str]:
    """Return what two imports of an account must not have in common."""
    subject = item.subject if item.kind is ExportKind.STREAM else local_subject(item)
    return importer, item.kind, item.account, subject


def local_subject(item: Import) -> str:
    """Return the subject under which the importing account sees the import."""
    if item.prefix:
        return f"{item.prefix.removesuffix('.')}.{item.subject}"
    return item.to or item.subject


def _valid(subject: str) -> bool:
    return valid_subject(subject.encode())


def _transform_problem(item: Import, local: str) -> str:
    """Return why a wildcard import under another name cannot be mapped back, or an empty string."""
    if local == item.subject or is_literal(item.subject.encode()):
        return ""
    try:
        if item.kind is ExportKind.STREAM:
            SubjectTransform(item.subject, pattern_to_destination(local), strict=True)
        else:
            # A request travels from the local subject to the exporter's.
            SubjectTransform(destination_to_pattern(local), pattern_to_destination(item.subject), strict=True)
    except TransformError as error:
        return f'failed to create mapping transform from "{item.subject}" to "{local}": {error}'
    return ""


def _authorized(importer: AccountOptions, item: Import, offers: _Offers) -> bool:
    subject = item.subject.encode()
    same = offers.by_subject.get(subject)
    if same:
        return any(_approved(export, importer, item, ()) for export in same)
    tokens = item.subject.split(".")
    return any(
        _approved(export, importer, item, tokens)
        for pattern in offers.cover.of(subject)
        for export in offers.by_subject[pattern]
    )


def _approved(export: Export, importer: AccountOptions, item: Import, tokens: Sequence[str]) -> bool:
    position = export.account_token_position
    if position:
        return position <= len(tokens) and tokens[position - 1] == importer.name
    if export.token_required:
        return item.activated
    return export.accounts is None or importer.name in export.accounts
