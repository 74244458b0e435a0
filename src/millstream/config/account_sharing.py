"""Check that the accounts' imports and exports fit together, and note where they do not."""

from collections.abc import Sequence

from millstream.broker.options import GLOBAL_ACCOUNT, AccountOptions, ExportKind, Import
from millstream.broker.sharing import Sharing
from millstream.config.accounts import AccountBlock
from millstream.config.errors import Location, Notes


def check_sharing(blocks: Sequence[AccountBlock], notes: Notes) -> None:
    """Note every export to an account that does not exist and every import that cannot work."""
    accounts = {block.account.name: block.account for block in blocks}
    accounts.setdefault(GLOBAL_ACCOUNT, AccountOptions(name=GLOBAL_ACCOUNT))
    sharing = Sharing(accounts, {name: [] for name in accounts})
    for block in blocks:
        for export in block.account.exports:
            for name in export.accounts or ():
                if name not in accounts:
                    at = block.places.get(id(export))
                    notes.error(f'"{name}" account not defined for {export.kind} export', at)
    for kind in (ExportKind.STREAM, ExportKind.SERVICE):
        for block in blocks:
            for item in block.account.imports:
                if item.kind is kind:
                    _check_import(block.account, item, sharing, notes, block.places.get(id(item)))


def _check_import(
    importer: AccountOptions, item: Import, sharing: Sharing, notes: Notes, at: Location | None
) -> None:
    if item.account not in sharing.accounts:
        notes.error(f'"{item.account}" account not defined for {item.kind} import', at)
        return
    reason = sharing.reason_against(importer, item)
    if reason:
        notes.error(f'Error adding {item.kind} import "{item.subject}": {reason}', at)
    else:
        sharing.accept(importer.name, item)
