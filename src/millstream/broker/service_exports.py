"""The services that an account exports, found by the subject of an import without comparing it with each."""

from collections.abc import Iterable
from typing import Final

from millstream.broker.options import AccountOptions, Export, ExportKind
from millstream.subjects.cover import Cover


class ServiceExports:
    """The service exports of one account, in the order of its configuration."""

    def __init__(self, exports: Iterable[Export]) -> None:
        self._by_pattern: Final[dict[bytes, Export]] = {}
        for export in exports:
            if export.kind is ExportKind.SERVICE:
                self._by_pattern.setdefault(export.subject.encode(), export)
        self._positions = {pattern: position for position, pattern in enumerate(self._by_pattern)}
        self._cover = Cover(self._by_pattern)

    def find(self, subject: str) -> Export:
        """Return the export that an import of `subject` uses: the first that covers it."""
        found = self._cover.of(subject.encode())
        if not found:
            return Export(kind=ExportKind.SERVICE, subject=subject)
        return self._by_pattern[min(found, key=self._positions.__getitem__)]


class Offers:
    """The services of accounts whose imports are prepared together."""

    def __init__(self) -> None:
        self._by_account: dict[str, ServiceExports] = {}

    def of(self, account: AccountOptions) -> ServiceExports:
        found = self._by_account.get(account.name)
        if found is None:
            found = self._by_account[account.name] = ServiceExports(account.exports)
        return found
