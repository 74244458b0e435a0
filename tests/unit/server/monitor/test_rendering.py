"""A document with listings is written as if it had been encoded at once."""

import itertools
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from millstream.base.slices import finish
from millstream.golang.json import escape_html
from millstream.server.monitor import json_page
from millstream.server.monitor.formats import indented
from millstream.server.monitor.json_page import Listing, render

DOCUMENTS: list[Any] = [
    {"a": 1},
    {"list": Listing([{"a": 1, "b": []}, {"a": 2, "b": [3]}]), "after": "x"},
    {"none": Listing([]), "one": Listing(["text"]), "two": Listing([1, 2])},
    {"deep": [{"in": {"side": Listing([{"more": Listing([{"x": [1, {}]}, "y"])}, {"more": Listing([])}])}}]},
    Listing([Listing([1]), Listing([]), {"k": Listing(["<&>"])}]),
    {"text": '"list": []\n[', "list": Listing(['{"', "\n", "\\", "a<b>&c", "\u2028\u2029\u2030"])},
    {"list": Listing([None, *({"n": [n, {}]} for n in range(100)), None, *"abc", None])},
    {"list": Listing([*range(40), {"k": Listing([*range(40)])}, *range(40), Listing([]), *range(3)])},
    Listing([[], {}, "", None, Listing([None]), 0]),
]


def whole(document: Any, *, pretty: bool) -> bytes:
    def hook(value: Any) -> Any:
        return [item for item in value.items if item is not None]

    text = escape_html(msgspec.json.encode(document, enc_hook=hook))
    return indented(text) if pretty else text


@pytest.mark.parametrize("pretty", [True, False])
@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_text_is_that_of_the_whole_document(document: Any, pretty: bool) -> None:
    assert b"".join(finish(render(document, pretty=pretty))) == whole(document, pretty=pretty)


def test_a_step_has_few_items_and_parts_are_of_a_size() -> None:
    document = {"list": Listing([None, *("x" * 100 for _ in range(5000)), None])}
    steps = list(render(document, pretty=True))
    assert sum(steps) == 5002
    assert max(steps) <= 32
    parts = finish(render(document, pretty=True))
    assert 10 < len(parts) < 100
    assert b"".join(parts) == whole(document, pretty=True)


def test_items_that_take_long_are_steps_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    now = itertools.count()  # a second later each time
    monkeypatch.setattr(json_page.time, "monotonic", lambda: float(next(now)))
    assert set(render({"list": Listing(range(50))}, pretty=True)) == {1}


def test_items_with_listings_are_made_when_they_are_written() -> None:
    made = []

    def items() -> Iterator[Any]:
        for number in range(10):
            made.append(number)
            yield {"number": number, "inside": Listing([number])}

    for written, _ in enumerate(render(Listing(items()), pretty=True)):
        assert len(made) <= written + 2  # the one that is written, and the next


def test_a_client_cannot_write_the_mark_of_a_listing() -> None:
    texts = ["\0listing", "listing", '"listing"']
    document = {"names": Listing(texts), "list": texts}
    assert b"".join(finish(render(document, pretty=False))) == whole(document, pretty=False)


def test_other_objects_are_refused() -> None:
    with pytest.raises(TypeError, match="object is no part of a document"):
        finish(render({"a": object()}, pretty=False))
