"""Servers and files to make mistakes with."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.kits.certs import CertificateAuthority, IssuedCertificate
from tests.kits.reference import ServerKind, ServerProcess

PASSWORD = 'authorization { user: ops, password: "s3cret" }\n'
PIPELINE = """\
[nats]
servers = ["{server}"]
[[job]]
kind = "archive"
name = "orders"
streams = ["{stream}"]
table = "{folder}/table"
"""


@dataclass
class Site:
    """Ports and paths by the names that the table uses."""

    names: dict[str, str] = field(default_factory=dict)

    def filled(self, text: str) -> str:
        return text.format(**self.names)

    def write(self, folder: Path, name: str, text: str) -> None:
        path = folder / name
        path.write_text(text)
        self.names[name.replace(".", "_")] = str(path)


@contextmanager
def open_site(folder: Path) -> Iterator[Site]:
    """Running servers of every kind, and files with every mistake."""
    made = Site({"folder": str(folder)})
    authority = CertificateAuthority(folder)
    cert, other = authority.issue_for_loopback(), authority.issue("other", dns=["other.example"])
    made.names |= {
        "ca": str(authority.cert_file),
        "cert": str(cert.cert_file),
        "other_key": str(other.key_file),
    }
    with ExitStack() as stack:

        def start(name: str, config: str = "", *, jetstream: bool = True) -> None:
            server = ServerProcess(ServerKind.MILLSTREAM, config=config or None, jetstream=jetstream)
            made.names[name] = str(stack.enter_context(server).port)

        def tls(certificate: IssuedCertificate) -> str:
            files = f"cert_file: '{certificate.cert_file}', key_file: '{certificate.key_file}'"
            return f"tls {{ {files}, timeout: 60 }}\n"

        start("plain", jetstream=False)
        start("locked", PASSWORD)
        start("secure", tls(cert))
        start("misnamed", tls(other))
        store = folder / "store"
        owner = ServerProcess(ServerKind.MILLSTREAM, jetstream=True, store_dir=store)
        made.names |= {"js": str(stack.enter_context(owner).port), "store_in_use": str(store)}
        taken = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        made.names["taken"] = str(taken.getsockname()[1])
        with socket.socket() as free:  # bound and never listened on: nobody else gets it soon
            free.bind(("127.0.0.1", 0))
            made.names["free"] = str(free.getsockname()[1])
            made.names["web"] = str(stack.enter_context(_WebServer()).port)
            _write_files(made, folder)
            yield made


class _WebServer:
    """Answers everybody as a web server answers nonsense."""

    def __enter__(self) -> "_WebServer":
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")


def _write_files(made: Site, folder: Path) -> None:
    made.write(folder, "file", "neither a certificate nor a seed\n")
    made.write(folder, "unclosed.conf", "port: -1\njetstream {\n")
    made.write(folder, "mistyped.conf", "port: -1\nmax_payoad: 1MB\n")
    websocket = f"websocket {{ host: 127.0.0.1, port: {made.names['taken']}, no_tls: true }}\n"
    made.write(folder, "websocket.conf", f"host: 127.0.0.1\nport: -1\n{websocket}")
    made.write(folder, "broken.yaml", "nats:\n  server_uri: [\n")
    made.write(folder, "mistyped.yaml", "nats:\n  server_url: nats://127.0.0.1:4222\n")
    made.write(folder, "certless.yaml", f"gateway: {{tls: {{certificate: {folder}/none.pem}}}}\n")
    made.write(folder, "broken.toml", "[nats]\nservers = nats\n")

    def pipeline(name: str, port: str, stream: str = "ORDERS") -> None:
        server = f"nats://127.0.0.1:{made.names[port]}"
        made.write(folder, name, PIPELINE.format(server=server, stream=stream, folder=folder))

    pipeline("orders.toml", "js")
    pipeline("ordres.toml", "js", "ORDRES")
    pipeline("away.toml", "free")
    pipeline("locked.toml", "locked")
    pipeline("off.toml", "plain")
    made.write(
        folder, "mistyped.toml", PIPELINE.format(server="x", stream="A", folder="t") + "triger = '1s'\n"
    )
    java = folder / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    java.chmod(0o755)
    made.names["old_java"] = str(folder / "java")
    locked = folder / "locked_folder"
    locked.mkdir(mode=0o555)
    made.names["locked_folder"] = str(locked)
