"""Decide whether an import fits what its exporter offers.

Every import needs an account that exports the subject to the importer, and no chain of imports may lead
a message back to its origin.  Messages and rules are nats-server's.
"""

from collections.abc import Iterator, Mapping, Sequence

from millstream.broker.options import AccountOptions, Export, ExportKind, Import
from millstream.subjects.functions import TransformError
from millstream.subjects.match import collide, is_subset
from millstream.subjects.tokens import is_literal, valid_subject
from millstream.subjects.transform import SubjectTransform, destination_to_pattern, pattern_to_destination


class Sharing:
    """Accounts, and the imports that were already accepted."""

    def __init__(self, accounts: Mapping[str, AccountOptions], accepted: Mapping[str, list[Import]]) -> None:
        self.accounts = accounts
        self.accepted = accepted

    def reason_against(self, importer: AccountOptions, item: Import) -> str:
        """Return why the import from a known account is refused, or an empty string."""
        exporter = self.accounts[item.account]
        local = local_subject(item)
        if not _valid(item.subject) or not _valid(local):
            return "invalid subject"
        if not _authorized(importer, item, exporter):
            return f"{item.kind} import not authorized"
        if item.prefix and not is_literal(item.prefix.encode()):
            return "stream import prefix can not contain wildcard tokens"
        others = [other for other in self.accepted[importer.name] if other.kind is item.kind]
        others = [other for other in others if other.account == item.account]
        if item.kind is ExportKind.STREAM:
            leads_back = any(
                self._stream_leads_back(exporter.name, subject, {importer.name})
                for subject in (local, item.subject)
            )
            duplicate = any(other.subject == item.subject for other in others)
        else:
            pattern = local if is_literal(item.subject.encode()) else destination_to_pattern(local)
            leads_back = self._service_leads_back(exporter.name, pattern, {importer.name})
            duplicate = any(local_subject(other) == local for other in others)
        if leads_back:
            return "import forms a cycle"
        if duplicate:
            return f"{item.kind} import already exists"
        return _transform_problem(item, local)

    def _stream_leads_back(self, account: str, subject: str, visited: set[str]) -> bool:
        """Return True if the stream that `account` exports as `subject` originates in one of `visited`."""
        exports = (e.subject for e in self._exports(account) if e.kind is ExportKind.STREAM)
        if not any(is_subset(subject.encode(), export.encode()) for export in exports):
            return False
        for item in self._imports(account, ExportKind.STREAM):
            local = destination_to_pattern(local_subject(item))
            if collide(subject.encode(), local.encode()):
                narrowed = local if is_subset(local.encode(), subject.encode()) else subject
                if item.account in visited or self._stream_leads_back(
                    item.account, narrowed, visited | {account}
                ):
                    return True
        return False

    def _service_leads_back(self, account: str, subject: str, visited: set[str]) -> bool:
        """Return True if `account` forwards a request to `subject` to one of `visited`."""
        for item in self._imports(account, ExportKind.SERVICE):
            if collide(subject.encode(), destination_to_pattern(item.subject).encode()):
                local = destination_to_pattern(local_subject(item))
                narrowed = local if is_subset(local.encode(), subject.encode()) else subject
                if item.account in visited or self._service_leads_back(
                    item.account, narrowed, visited | {account}
                ):
                    return True
        return False

    def _imports(self, account: str, kind: ExportKind) -> Iterator[Import]:
        return (item for item in self.accepted.get(account, ()) if item.kind is kind)

    def _exports(self, account: str) -> tuple[Export, ...]:
        found = self.accounts.get(account)
        return found.exports if found is not None else ()


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


def _authorized(importer: AccountOptions, item: Import, exporter: AccountOptions) -> bool:
    exports = [export for export in exporter.exports if export.kind is item.kind]
    same = [export for export in exports if export.subject == item.subject]
    if same:
        return any(_approved(export, importer, item, ()) for export in same)
    tokens = item.subject.split(".")
    subject = item.subject.encode()
    return any(
        is_subset(subject, export.subject.encode()) and _approved(export, importer, item, tokens)
        for export in exports
    )


def _approved(export: Export, importer: AccountOptions, item: Import, tokens: Sequence[str]) -> bool:
    position = export.account_token_position
    if position:
        return position <= len(tokens) and tokens[position - 1] == importer.name
    if export.token_required:
        return item.activated
    return export.accounts is None or importer.name in export.accounts
