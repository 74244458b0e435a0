"""Imports lead back to their origin or not, for any graph of accounts."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.broker.options import AccountOptions, Export, ExportKind, Import
from millstream.broker.service_exports import ServiceExports
from millstream.broker.sharing import Sharing, local_subject
from millstream.subjects.match import collide, is_subset
from millstream.subjects.transform import destination_to_pattern

_NAMES = "ABCDE"
_SUBJECTS = st.sampled_from(["x", "y", "x.a", "x.*", ">"])
_IMPORTS = st.tuples(
    st.sampled_from(_NAMES), st.sampled_from(_NAMES), _SUBJECTS, st.sampled_from(["", "", "x", "y"])
)


def accounts(names: list[str]) -> dict[str, AccountOptions]:
    """Accounts that export everything."""
    exports = tuple(Export(kind=kind, subject=">") for kind in ExportKind)
    return {name: AccountOptions(name=name, exports=exports) for name in names}


def leads_back(
    accepted: dict[str, list[Import]], kind: ExportKind, account: str, subject: str, visited: set[str]
) -> bool:
    """The plain search: every way is walked, with the accounts on it."""
    for item in accepted[account]:
        local = destination_to_pattern(local_subject(item))
        answers_to = local if kind is ExportKind.STREAM else destination_to_pattern(item.subject)
        if collide(subject.encode(), answers_to.encode()):
            narrowed = local if is_subset(local.encode(), subject.encode()) else subject
            if item.account in visited or leads_back(
                accepted, kind, item.account, narrowed, visited | {account}
            ):
                return True
    return False


@given(st.lists(_IMPORTS, max_size=14), st.sampled_from(ExportKind))
def test_a_cycle_is_found_as_by_walking_every_way(
    wanted: list[tuple[str, str, str, str]], kind: ExportKind
) -> None:
    known = accounts(list(_NAMES))
    accepted: dict[str, list[Import]] = {name: [] for name in known}
    sharing = Sharing(known, accepted)
    for importer, exporter, subject, to in wanted:
        literal = "*" not in subject and ">" not in subject
        item = Import(kind=kind, account=exporter, subject=subject, to=to if literal else "")
        starts = {local_subject(item), subject} if kind is ExportKind.STREAM else {local_subject(item)}
        cyclic = any(leads_back(accepted, kind, exporter, start, {importer}) for start in starts)
        reason = sharing.reason_against(known[importer], item)
        assert (reason == "import forms a cycle") == cyclic
        if not reason:
            sharing.accept(importer, item)


@pytest.mark.parametrize("kind", list(ExportKind))
def test_diamonds_of_imports_are_searched_once(kind: ExportKind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each account imports from both of the stage before, so the number of ways doubles with each stage."""
    stages = 40
    known = accounts([f"{side}{stage}" for stage in range(stages) for side in "LR"])
    sharing = Sharing(known, {name: [] for name in known})
    visited = []
    followed = Sharing._followed
    monkeypatch.setattr(
        Sharing, "_followed", lambda self, *place: visited.append(place) or followed(self, *place)
    )
    for stage in range(1, stages):
        for importer in "LR":
            for exporter in "LR":
                item = Import(kind=kind, account=f"{exporter}{stage - 1}", subject="x")
                visited.clear()
                assert sharing.reason_against(known[f"{importer}{stage}"], item) == ""
                assert len(visited) <= 4 * stages
                sharing.accept(f"{importer}{stage}", item)


def test_a_chain_may_be_as_long_as_there_are_accounts() -> None:
    names = [f"A{number}" for number in range(2_000)]
    known = accounts(names)
    imports = {
        after: [Import(kind=ExportKind.SERVICE, account=before, subject="x")]
        for before, after in itertools.pairwise(names)
    }
    sharing = Sharing(known, {names[0]: [], **imports})
    back = Import(kind=ExportKind.SERVICE, account=names[-1], subject="x")
    assert sharing.reason_against(known[names[0]], back) == "import forms a cycle"


def test_an_import_is_not_compared_with_all_exports_and_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 2_000
    exports = tuple(Export(kind=ExportKind.STREAM, subject=f"s{number}.>") for number in range(count))
    known = {"A": AccountOptions(name="A", exports=exports), "B": AccountOptions(name="B")}
    sharing = Sharing(known, {"A": [], "B": []})
    items = [Import(kind=ExportKind.STREAM, account="A", subject=f"s{n}.>") for n in range(count)]
    compared = []
    for module in ("cover", "filter_index"):
        for name in ("is_subset", "collide"):
            monkeypatch.setattr(
                f"millstream.subjects.{module}.{name}",
                lambda *pair: compared.append(pair),
                raising=False,
            )
    for item in items:
        assert sharing.reason_against(known["B"], item) == ""
        sharing.accept("B", item)
        assert sharing.reason_against(known["B"], item) == "stream import already exists"
    assert not compared


@given(st.lists(_SUBJECTS, max_size=5), _SUBJECTS)
def test_the_first_export_that_covers_an_import_is_used(exported: list[str], subject: str) -> None:
    others = [Export(kind=ExportKind.SERVICE, subject=f"z.{number}") for number in range(20)]
    stream = Export(kind=ExportKind.STREAM, subject=">")
    exports = [
        Export(kind=ExportKind.SERVICE, subject=each, response_threshold_s=number)
        for number, each in enumerate(exported)
    ]
    first = next((e for e in exports if is_subset(subject.encode(), e.subject.encode())), None)
    wanted = first or Export(kind=ExportKind.SERVICE, subject=subject)
    assert ServiceExports([stream, *exports]).find(subject) == wanted
    assert ServiceExports([stream, *others, *exports]).find(subject) == wanted
