"""An OpenID Connect issuer with real keys: signs tokens, and serves its documents on a port of its own."""

import base64
import json
import threading
import time
from collections.abc import Callable
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

AUDIENCE = "nats"
_ALGORITHMS: dict[str, type[jwt.algorithms.Algorithm]] = {
    "RSA": jwt.algorithms.RSAAlgorithm,
    "EC": jwt.algorithms.ECAlgorithm,
    "OKP": jwt.algorithms.OKPAlgorithm,
}


class IssuerKey:
    """A private key of one kind: RSA, EC or OKP."""

    def __init__(self, kind: str, kid: str, private: Any = None) -> None:
        self.kind = kind
        self.kid = kid
        self.private = private if private is not None else _private(kind)

    def public(self, **changes: Any) -> dict[str, Any]:
        """Return the public key as a JWK."""
        text = _ALGORITHMS[self.kind].to_jwk(self.private.public_key())
        key: dict[str, Any] = json.loads(text) if isinstance(text, str) else text
        return {**{name: key[name] for name in key if name != "key_ops"}, "kid": self.kid, **changes}


def _private(kind: str) -> Any:
    if kind == "RSA":
        return rsa.generate_private_key(65537, 2048)
    return ec.generate_private_key(ec.SECP256R1()) if kind == "EC" else ed25519.Ed25519PrivateKey.generate()


@cache
def shared_key(kind: str, kid: str) -> IssuerKey:
    """Return a key that all tests share: RSA keys take long to make."""
    return IssuerKey(kind, kid)


def claims(issuer: str, **changes: Any) -> dict[str, Any]:
    """Return good claims with changes; what is None is left out."""
    now = int(time.time())
    every = {"iss": issuer, "aud": AUDIENCE, "sub": "ann", "iat": now, "exp": now + 3600, **changes}
    return {name: value for name, value in every.items() if value is not None}


def signed(key: IssuerKey, algorithm: str, body: dict[str, Any], **header: Any) -> str:
    """Return a signed token, of whatever claims; `header` replaces or adds to its header, None removes."""
    every = {"typ": "JWT", "alg": algorithm, "kid": key.kid, **header}
    text = f"{part({name: value for name, value in every.items() if value is not None})}.{part(body)}"
    method = jwt.get_algorithm_by_name(algorithm)
    return f"{text}.{part(method.sign(text.encode(), key.private))}"


def part(data: Any) -> str:
    """Return one part of a token."""
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


class Issuer:
    """Serves discovery and keys over HTTP on the loopback interface; use it as a context manager."""

    def __init__(self, *keys: IssuerKey) -> None:
        self.keys = [key.public() for key in keys]
        self.fetches = 0
        self.hold: threading.Event | None = None  # answers wait for it
        self.documents: dict[str, Callable[[], Any]] = {
            "/.well-known/openid-configuration": lambda: {"issuer": self.url, "jwks_uri": f"{self.url}/keys"},
            "/keys": lambda: {"keys": self.keys},
        }
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.answer(self)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.hold is not None:
            self.hold.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        self.fetches += request.path == "/keys"
        if self.hold is not None:
            self.hold.wait(60)
        document = self.documents.get(request.path)
        if document is None:
            request.send_error(404)
            return
        found = document()
        body = found if isinstance(found, bytes) else json.dumps(found).encode()
        request.send_response(200)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)
