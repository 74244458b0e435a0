"""A document with listings is written as if it had been encoded at once."""

from typing import Any

import msgspec
import pytest

from millstream.base.slices import finish
from millstream.golang.json import escape_html
from millstream.server.monitor.formats import indented
from millstream.server.monitor.json_page import Listing, render

DOCUMENTS: list[Any] = [
    {"a": 1},
    {"list": Listing([{"a": 1, "b": []}, {"a": 2, "b": [3]}]), "after": "x"},
    {"none": Listing([]), "one": Listing(["text"]), "two": Listing([1, 2])},
    {"deep": [{"in": {"side": Listing([{"more": Listing([{"x": [1, {}]}, "y"])}, {"more": Listing([])}])}}]},
    Listing([Listing([1]), Listing([]), {"k": Listing(["<&>"])}]),
    {"text": '"list": []\n[', "list": Listing(['{"', "\n", "\\", "a<b>&c"])},
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


def test_every_item_is_a_piece_of_work_and_parts_are_of_a_size() -> None:
    document = {"list": Listing([None, *("x" * 100 for _ in range(5000)), None])}
    assert sum(1 for _ in render(document, pretty=True)) == 5002
    parts = finish(render(document, pretty=True))
    assert 10 < len(parts) < 100
    assert b"".join(parts) == whole(document, pretty=True)


def test_a_client_cannot_write_the_mark_of_a_listing() -> None:
    texts = ["\0listing", "listing", '"listing"']
    document = {"names": Listing(texts), "list": texts}
    assert b"".join(finish(render(document, pretty=False))) == whole(document, pretty=False)


def test_other_objects_are_refused() -> None:
    with pytest.raises(TypeError, match="object is no part of a document"):
        finish(render({"a": object()}, pretty=False))
