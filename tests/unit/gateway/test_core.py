"""The parts of the front that need no socket: routes, rates, credentials, errors."""

import json
import logging
from pathlib import Path

import pytest

from millstream.gateway.auth import Authenticator, TokensFileError
from millstream.gateway.bounds import RateLimit
from millstream.gateway.credentials import Credentials, parse_authorization
from millstream.gateway.error_map import ascii_json, envelope, outcome_of, problem
from millstream.gateway.errors import (
    BadRequest,
    MethodNotAllowed,
    NotFound,
    TooManyRequests,
    Unauthorized,
)
from millstream.gateway.routes import Route, find
from millstream.gateway.settings import Auth
from millstream.http.access_log import AccessLog
from millstream.http.router import Router
from millstream.link.errors import BadMessage, LinkApiError
from millstream.link.frames import header_block


async def nothing(*_: object) -> None:
    pass


@pytest.fixture
def router() -> Router[Route]:
    router: Router[Route] = Router()
    for method, template in (("GET", "/a"), ("POST", "/a"), ("GET", "/a/{x}"), ("GET", "/a/{x}/b/{y}")):
        router.add(method, template, Route(method, template, nothing))
    return router


@pytest.mark.parametrize(
    ("path", "template", "parameters"),
    [
        ("/a", "/a", ()),
        ("/a/1", "/a/{x}", ("1",)),
        ("/a/1%202", "/a/{x}", ("1 2",)),
        ("/a/1/b/2", "/a/{x}/b/{y}", ("1", "2")),
        ("/a/%C3%BC", "/a/{x}", ("ü",)),
    ],
)
def test_paths_that_are_found(
    router: Router[Route], path: str, template: str, parameters: tuple[str, ...]
) -> None:
    route, _, found = find(router, "GET", path)
    assert (route.template, found) == (template, parameters)


@pytest.mark.parametrize("path", ["/", "", "/b", "/a/", "/a/1/", "/a//b", "/a/1/b", "/a/1%2F2", "//a"])
def test_paths_that_are_not(router: Router[Route], path: str) -> None:
    with pytest.raises(NotFound):
        find(router, "GET", path)


def test_a_path_of_another_method_tells_its_own(router: Router[Route]) -> None:
    with pytest.raises(MethodNotAllowed) as refusal:
        find(router, "PUT", "/a")
    assert refusal.value.allowed == ("GET", "HEAD", "POST")


def test_head_is_served_where_get_is(router: Router[Route]) -> None:
    assert find(router, "HEAD", "/a")[0].method == "GET"


def test_a_path_that_is_no_text_is_refused(router: Router[Route]) -> None:
    with pytest.raises(BadRequest):
        find(router, "GET", "/a/%ff")


def test_a_bucket_refills_with_time() -> None:
    rate = RateLimit(2.0, 3)
    for _ in range(3):
        rate.check("one", 0.0)
    with pytest.raises(TooManyRequests) as refusal:
        rate.check("one", 0.0)
    assert refusal.value.retry_after_s == 0.5
    rate.check("two", 0.0)
    rate.check("one", 0.5)


def test_credentials_do_not_show() -> None:
    credentials = parse_authorization("Basic YWxpY2U6c2VjcmV0")
    assert credentials == Credentials(user="alice", password="secret")
    assert "alice" not in repr(credentials)
    assert "secret" not in f"{credentials}"
    assert credentials.digest == Credentials(user="alice", password="secret").digest
    assert credentials.digest != Credentials(user="alices", password="ecret").digest


def test_a_password_may_have_a_colon() -> None:
    assert parse_authorization("basic YTpiOmM=") == Credentials(user="a", password="b:c")


def test_tokens_win_over_the_broker_and_required_means_required(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("one: {token: abc}\n")
    authenticator = Authenticator(Auth(required=True, tokens_file=file))
    assert authenticator.caller_of("Bearer abc").name == "one"
    assert authenticator.caller_of("Bearer other").credentials == Credentials(token="other")
    with pytest.raises(Unauthorized):
        authenticator.caller_of("")
    for text in (
        "- list",
        "one: {}",
        "one: {token: a, sha256: b}",
        "one: {sha256: xyz}",
        "one: {sha256: ab}",
        "one: {token: abc, nats: {}}",
        "one: {token: abc, nats: {usr: importer}}",
    ):
        file.write_text(text)
        with pytest.raises(TokensFileError):
            Authenticator(Auth(tokens_file=file))
    with pytest.raises(TokensFileError):
        Authenticator(Auth(tokens_file=file.with_name("missing")))


def test_tokens_that_were_taken_away_and_put_back_are_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millstream.gateway.auth._LOOK_AGAIN_S", -1.0)  # at every call
    file, aside = tmp_path / "tokens", tmp_path / "aside"
    file.write_text("one: {token: abc}\n")
    authenticator = Authenticator(Auth(pass_through=False, tokens_file=file))
    file.rename(aside)
    for _ in range(2):
        with pytest.raises(Unauthorized):
            authenticator.caller_of("Bearer abc")
    aside.rename(file)
    assert authenticator.caller_of("Bearer abc").name == "one"


def test_what_httpmq_leaves_out_is_left_out() -> None:
    told = json.loads(envelope("id", 500, "", ""))
    assert told == {"success": False, "request_id": "id", "error": {"code": 500}}


def test_a_problem_has_jetstreams_number() -> None:
    outcome = outcome_of(LinkApiError(404, 10059, "stream not found"))
    told = json.loads(problem("id", outcome, "/v2/x"))
    assert (told["status"], told["err_code"], told["detail"]) == (404, 10059, "stream not found")


def test_errors_that_nobody_expected_tell_nothing() -> None:
    outcome = outcome_of(ValueError("a password is in here"))
    assert (outcome.status, outcome.detail) == (500, "")


@pytest.mark.parametrize("text", ["plain", "größe", "𝄞 clef", '"quoted"\n', "\x7f\x00"])
def test_json_is_ascii_and_means_the_same(text: str) -> None:
    encoded = ascii_json({"text": text})
    assert encoded.isascii()
    assert json.loads(encoded) == {"text": text}


def test_headers_can_not_be_broken_out_of() -> None:
    assert header_block([("A", "1"), ("A", "2")]) == b"NATS/1.0\r\nA: 1\r\nA: 2\r\n\r\n"
    for name, value in (
        ("A\r\nB", "1"),
        ("A", "1\r\nB: 2"),
        ("", "1"),
        ("A:B", "1"),
        ("A B", "1"),
        ("Ä", "1"),
    ):
        with pytest.raises(BadMessage):
            header_block([(name, value)])


def test_authorization_stays_secret_whatever_the_settings_say() -> None:
    log = AccessLog(logging.getLogger("access"))
    assert b"authorization" in log._secret
