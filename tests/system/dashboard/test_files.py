"""The files of the dashboard: how they are served, and what they must never contain."""

import re
from pathlib import Path

import pytest

import millstream.gateway.ui
from tests.kits.dashboard import Site

STATIC = Path(millstream.gateway.ui.__file__).parent / "static"
SCRIPTS = sorted(STATIC.rglob("*.js"))
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; frame-ancestors 'none'; form-action 'none'"
)
# Ways from a text to markup or to code.
DANGEROUS = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|srcdoc"
    r"|\beval\(|new Function|setAttribute\(\s*[\"'](on|style)|javascript:"
)
ELSEWHERE = re.compile(r"""["'`(](https?:)?//""")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.relative_to(STATIC).as_posix())
def test_no_script_makes_markup_or_code_of_a_text(path: Path) -> None:
    text = path.read_text()
    assert DANGEROUS.findall(text) == []
    others = [line for line in text.splitlines() if ELSEWHERE.search(line) and "www.w3.org" not in line]
    assert others == []
    assert max(map(len, text.splitlines())) < 400, "scripts are written here, not minified elsewhere"


def test_the_page_has_no_script_or_style_of_its_own() -> None:
    page = (STATIC / "index.html").read_text()
    assert "<style" not in page
    assert not re.search(r"<script[^>]*>[^<]", page)
    assert not re.search(r"\s(on\w+|style)=", page)
    assert "@import" not in (STATIC / "app.css").read_text()
    assert "url(" not in (STATIC / "app.css").read_text()


def test_every_module_that_is_imported_is_there() -> None:
    for path in SCRIPTS:
        for name in re.findall(r'(?:from|import)\s*\(?"(\.[^"]+)"', path.read_text()):
            assert (path.parent / name).resolve().is_file(), (path, name)


@pytest.mark.parametrize("prefix", ["/", "/mq"])
async def test_the_page_names_files_that_are_kept_for_ever(start_site, shared_server, prefix: str) -> None:  # type: ignore[no-untyped-def]
    site: Site = await start_site(shared_server(jetstream=True).client_url, prefix=prefix)
    start = prefix.rstrip("/")
    moved = await site.http.get(f"{start}/ui")
    assert (moved.status_code, moved.headers["location"]) == (302, f"{start}/ui/")
    page = await site.http.get(f"{start}/ui/")
    assert page.status_code == 200
    assert page.headers["content-security-policy"] == POLICY
    assert page.headers["cache-control"] == "no-cache"
    assert page.headers["x-content-type-options"] == "nosniff"
    again = await site.http.get(f"{start}/ui/", headers={"If-None-Match": page.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    places = re.findall(r'(?:href|src)="\./([^"]+)"', page.text)
    assert len(places) > 3
    for place in places:
        file = await site.http.get(f"{start}/ui/{place}", headers={"Accept-Encoding": "gzip"})
        assert file.status_code == 200
        assert "immutable" in file.headers["cache-control"]
        assert file.headers["content-security-policy"] == POLICY
    old = await site.http.get(f"{start}/ui/another-version/app.js")
    assert old.status_code == 404
    version = places[0].partition("/")[0]
    for path in ("nothing.js", "../app.js", "..%2Froutes.py", "views/..%2F..%2Froutes.py", "views"):
        assert (await site.http.get(f"{start}/ui/{version}/{path}")).status_code in (404, 400)
    head = await site.http.head(f"{start}/ui/")
    assert (head.status_code, head.content) == (200, b"")
    assert (await site.http.post(f"{start}/ui/")).status_code == 405
