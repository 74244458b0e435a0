"""Every mistake that the page names: what is done, the line that it gives, and the exit code.

`line` is the text as `docs/troubleshooting.md` has it, where words in capitals stand for names and numbers;
`advice` is the other half of the page's row.  `command` has fields of `Site` in braces.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SERVE = "Starting a server"
CONNECT = "Connecting"
GATEWAY = "The gateway"
MOVE = "Moving streams"
PIPELINE = "Pipelines"

_LISTEN = "-a 127.0.0.1 -p -1"
_IN_USE = "Address already in use; stop the program that uses the port, or choose another one"
_REFUSED = "Connection refused; start the server, or check the address"
_START_ONE = "Nobody listens there. `millstream serve -js` starts a server on port 4222."
_NO_FILE = "No such file or directory; check the path"
_OFF = "JetStream is not enabled on HOST:PORT; start the server with -js, or millstream.Server with store_dir"
_OFF_ADVICE = (
    "JetStream is off by default, as in nats-server. nats-py says `ServiceUnavailableError: code=None` then."
)
_WRONG_LOGIN = "refused the credentials: Authorization Violation; check the user, password, token or key"
_GET_JAVA = "install it (Debian: openjdk-17-jre-headless), or set JAVA_HOME to where it is"


@dataclass(frozen=True)
class Mistake:
    """One row of the page, and how to make it."""

    section: str
    command: str
    line: str
    advice: str
    code: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)
    is_logged: bool = False  # by a server, as the last line of its log
    goes_on: bool = False  # a gateway that waits for NATS; it is stopped
    without: str = ""  # a package that is not installed
    unprivileged: bool = False

    def __str__(self) -> str:
        return f"{self.command.split()[0]}: {self.line[:60]}"


def _serve(flags: str, line: str, advice: str, *, logged: bool = True, **more: Any) -> Mistake:
    return Mistake(SERVE, f"serve {flags}", line, advice, is_logged=logged, **more)


MISTAKES = (
    # -- starting a server
    _serve(
        "-a 127.0.0.1 -p {taken}",
        f"cannot listen for clients on HOST:PORT: {_IN_USE} (-p, or port in the configuration)",
        "Another server runs there. `-p -1` picks a free port.",
    ),
    _serve(
        f"{_LISTEN} -m {{taken}}",
        f"cannot listen for monitoring on HOST:PORT: {_IN_USE} (-m)",
        "The same for monitoring.",
    ),
    _serve(
        "-c {websocket_conf}",
        f"cannot listen for websocket clients on HOST:PORT: {_IN_USE} (websocket.port in the configuration)",
        "The same for NATS over WebSocket.",
    ),
    _serve(
        f"{_LISTEN} -js -sd {{folder}}/arrow --arrow_port {{taken}}",
        f"cannot listen for readers of Arrow on HOST:PORT: {_IN_USE} (--arrow_port)",
        "The same for the Arrow endpoint. Without the flag a free port is picked.",
    ),
    _serve(
        "-a 127.0.0.1 -p 80",
        "cannot listen for clients on HOST:PORT: Permission denied; ports below 1024 need a privilege: "
        "choose another one (-p, or port in the configuration)",
        "Listen on a port from 1024 on, or give the process `CAP_NET_BIND_SERVICE`.",
        unprivileged=True,
    ),
    _serve(
        "-a 203.0.113.9 -p -1",
        "cannot listen for clients on HOST:PORT: Cannot assign requested address; this machine has no such "
        "address",
        "`-a` is an address of this machine, or `0.0.0.0` for all of them.",
    ),
    _serve(
        "-a nosuch.invalid -p -1",
        "cannot listen for clients on HOST:PORT: REASON; check the name of the host",
        "`-a` is a name that resolves to an address of this machine.",
    ),
    _serve(
        "-c {folder}/none.conf",
        f"cannot read FILE: {_NO_FILE}",
        "Paths are relative to the folder that the command is run in.",
        logged=False,
    ),
    _serve(
        "-c {folder}",
        "cannot read FILE: Is a directory; give the path of a file",
        "`-c` is one file; it can `include` others.",
        logged=False,
    ),
    _serve(
        "-c {unclosed_conf}",
        "FILE:LINE:COLUMN: the { that stands here is not closed",
        "The place is where the block begins.",
        logged=False,
    ),
    _serve(
        "-c {mistyped_conf}",
        'FILE:LINE:COLUMN: unknown field "FIELD"; did you mean "FIELD"?',
        "Fields are those of nats-server. `millstream serve -t -c FILE` checks a file.",
        logged=False,
    ),
    _serve(
        "--prot 4222",
        "flag provided but not defined: --prot; did you mean --port? See --help",
        "Flags are those of nats-server.",
        logged=False,
    ),
    _serve(
        f"{_LISTEN} -js -sd {{file}}",
        "cannot create FOLDER: Not a directory; a file stands where a folder is needed",
        "`-sd` is a folder.",
    ),
    _serve(
        f"{_LISTEN} -js -sd {{locked_folder}}/store",
        "cannot create FOLDER: Permission denied; check the owner of the folder",
        "The user of the server must own the store.",
        unprivileged=True,
    ),
    _serve(
        f"{_LISTEN} -js -sd {{store_in_use}}",
        "cannot open FOLDER: another server uses this store; stop it, or choose another store_dir",
        "Each server has a store of its own.",
    ),
    _serve(
        f"{_LISTEN} -l {{folder}}/none/server.log",
        f"cannot open the log file FILE: {_NO_FILE}",
        "The folder of a log file must be there.",
        logged=False,
    ),
    _serve(
        f"{_LISTEN} -P {{folder}}/none/pid",
        f"Could not write pidfile: FILE: {_NO_FILE}",
        "The folder of a pid file must be there.",
    ),
    _serve(
        f"{_LISTEN} --tls --tlscert {{folder}}/none.pem --tlskey {{folder}}/none.pem",
        f"tls: cannot read the certificate in 'FILE': {_NO_FILE}",
        "Give the path of the certificate.",
        logged=False,
    ),
    _serve(
        f"{_LISTEN} --tls --tlscert {{file}} --tlskey {{file}}",
        "tls: 'FILE' holds no certificate in PEM",
        "Certificates and keys are PEM: text between `-----BEGIN` and `-----END`.",
        logged=False,
    ),
    _serve(
        f"{_LISTEN} --tls --tlscert {{cert}} --tlskey {{other_key}}",
        "tls: the key in 'FILE' does not belong to the certificate in 'FILE'",
        "Certificate and key are made together.",
        logged=False,
    ),
    # -- connecting: every command that is a client
    Mistake(
        CONNECT,
        "backup {folder}/out -s nats://127.0.0.1:{free}",
        f"cannot connect to SERVER: {_REFUSED}",
        _START_ONE,
    ),
    Mistake(
        CONNECT,
        "backup {folder}/out -s nosuch.invalid",
        "cannot connect to SERVER: REASON; check the name of the host",
        "The name does not resolve.",
    ),
    Mistake(
        CONNECT,
        "backup {folder}/out -s nats://127.0.0.1:abc",
        "'SERVER' is no address of a server, which is like nats://127.0.0.1:4222",
        "The port is a number.",
        code=2,
    ),
    Mistake(
        CONNECT,
        "backup {folder}/out -s http://127.0.0.1:{js}",
        "'SERVER': the address of a server begins with nats:// or tls://",
        "HTTP is for the gateway and for monitoring.",
        code=2,
    ),
    Mistake(
        CONNECT,
        "backup {folder}/out -s nats://127.0.0.1:{web}",
        "cannot connect to SERVER: it does not speak NATS; check the port (REASON)",
        "That is the port of something else: monitoring, the gateway, a web server.",
    ),
    Mistake(
        CONNECT,
        "backup {folder}/out -s nats://127.0.0.1:{plain}",
        _OFF,
        _OFF_ADVICE,
    ),
    Mistake(
        CONNECT,
        "backup {folder}/out -s nats://127.0.0.1:{locked}",
        "SERVER asks for credentials, and none were given: Authorization Violation",
        "Give `--user` and `--password`, `--token`, `--creds` or `--nkey`, or their environment variables.",
    ),
    Mistake(
        CONNECT,
        "backup {folder}/out -s nats://ops:wr0ng@127.0.0.1:{locked}",
        f"SERVER {_WRONG_LOGIN}",
        "The server's log names the user that was refused.",
    ),
    Mistake(
        CONNECT,
        "backup {folder}/out --creds {folder}/none.creds",
        f"cannot read the credentials in FILE: {_NO_FILE}",
        "Give the path of the file.",
    ),
    Mistake(
        CONNECT,
        "backup {folder}/out --creds {file}",
        "the credentials file FILE cannot be used: there is no user seed in the credentials",
        "A `.creds` file has a JWT and a seed, as `nsc` writes it.",
    ),
    Mistake(
        CONNECT,
        "backup {folder}/out --nkey {file}",
        "the nkey file FILE cannot be used: an nkey seed has 58 characters and starts with 'S'",
        "The file holds the seed alone.",
    ),
    Mistake(
        CONNECT,
        "backup {folder}/out --user a --token b",
        "give one way to log in, not --user and --token",
        "What a flag says replaces what variables and NATS contexts say.",
        code=2,
    ),
    Mistake(
        CONNECT,
        "backup {folder}/out --context nosuch",
        'there is no NATS context "KEY": FILE',
        "`nats context ls` lists them; see [connecting](connecting.md).",
        code=2,
    ),
    Mistake(
        CONNECT,
        "backup {folder}/out -s tls://127.0.0.1:{secure}",
        "cannot connect to SERVER: its certificate is not trusted: REASON; give the certificate of the "
        "authority that signed it",
        "`--tlsca FILE`.",
    ),
    Mistake(
        CONNECT,
        "backup {folder}/out -s nats://127.0.0.1:{misnamed} --tlsca {ca}",
        "cannot connect to SERVER: its certificate is for another name: REASON; connect by a name that it "
        "has",
        "Use the host name of the certificate, or sign one with this name or address.",
    ),
    Mistake(
        CONNECT,
        "backup {folder}/out -s tls://127.0.0.1:{js}",
        "cannot connect to SERVER: TLS was asked for, and the server does not offer it; switch TLS on "
        "there, or connect without",
        "Nothing was sent in the clear.",
    ),
    Mistake(
        CONNECT,
        "backup {folder}/out -s nats://127.0.0.1:{js} --tlsfirst --tlsca {ca}",
        "cannot connect to SERVER: it does not answer with TLS; connect without TLS, or check the port",
        "`--tlsfirst` is for servers with `handshake_first`.",
    ),
    Mistake(
        CONNECT,
        "backup {folder}/out --tlsca {file}",
        "'FILE' holds no certificate in PEM",
        "`--tlsca` is the certificate of an authority.",
    ),
    # -- moving streams
    Mistake(
        MOVE,
        "backup {folder}/out ORDRES -s nats://127.0.0.1:{js}",
        "there is no stream STREAM on HOST:PORT",
        "Without names, all streams are meant.",
    ),
    Mistake(
        MOVE,
        "restore {folder}/none -s nats://127.0.0.1:{js}",
        "FOLDER: there is no such folder",
        "Give the folder that `backup` wrote.",
    ),
    Mistake(
        MOVE,
        "restore {folder} -s nats://127.0.0.1:{js}",
        "FOLDER: there is no backup here",
        "Give the folder that `backup` wrote.",
    ),
    Mistake(
        MOVE,
        "promote -s nats://127.0.0.1:{js} --to nats://127.0.0.1:{free}",
        f"cannot connect to SERVER: {_REFUSED}",
        _START_ONE,
    ),
    Mistake(
        MOVE,
        "promote -s nats://127.0.0.1:{js}",
        "Invalid value for --to: say where to, for example nats://cluster:4222; see millstream promote "
        "--help",
        "A wrong command line names the page of help.",
        code=2,
    ),
    Mistake(
        MOVE,
        "bakup",
        "No such command 'bakup'. Did you mean 'backup'? See millstream --help",
        "`millstream --install-completion` lets the shell complete commands and options.",
        code=2,
    ),
    # -- the gateway
    Mistake(
        GATEWAY,
        "gateway -p 0 -s nats://127.0.0.1:{free}",
        f"cannot connect to SERVER: {_REFUSED}; trying again every NUMBER s",
        "It is logged once; the gateway serves as soon as NATS is there. `/healthz` says whether it is.",
        code=0,
        goes_on=True,
    ),
    Mistake(
        GATEWAY,
        "gateway -p 0 -s foo.invalid",
        "cannot connect to SERVER: REASON; check the name of the host; trying again every NUMBER s",
        "`-s` is like `nats://127.0.0.1:4222`.",
        code=0,
        goes_on=True,
    ),
    Mistake(
        GATEWAY,
        "gateway -p 0 -s nats://127.0.0.1:{locked}",
        "SERVER asks for credentials, and none were given: Authorization Violation; only callers with "
        "credentials of their own are served",
        "Give the gateway a user in `nats` of its file, or `--creds`.",
        code=0,
        goes_on=True,
    ),
    Mistake(
        GATEWAY,
        "gateway -p 0 -s nats://127.0.0.1:{plain}",
        _OFF,
        _OFF_ADVICE,
        code=0,
        goes_on=True,
    ),
    Mistake(
        GATEWAY,
        "gateway -p {taken}",
        f"cannot listen for HTTP callers on HOST:PORT: {_IN_USE} (--port, or listen_port in the file)",
        "Another gateway runs there. `--port 0` picks a free port.",
    ),
    Mistake(
        GATEWAY,
        "gateway -c {folder}/none.yaml",
        f"cannot read FILE: {_NO_FILE}",
        "Paths are relative to the folder that the command is run in.",
    ),
    Mistake(
        GATEWAY,
        "gateway -c {broken_yaml}",
        "FILE:LINE:COLUMN: not YAML: REASON",
        "Look at the indentation, and at brackets and quotes.",
    ),
    Mistake(
        GATEWAY,
        "gateway -c {mistyped_yaml}",
        'FILE: nats: unknown key "KEY"; did you mean "KEY"?',
        "[The gateway](gateway.md) lists the keys.",
    ),
    Mistake(
        GATEWAY,
        "gateway -p 0 -c {certless_yaml}",
        f"gateway.tls: cannot read the certificate in 'FILE': {_NO_FILE}",
        "Give the path of the certificate.",
    ),
    Mistake(
        GATEWAY,
        "gateway -p 0 --creds {file}",
        "the credentials file FILE cannot be used: there is no user seed in the credentials",
        "A `.creds` file has a JWT and a seed, as `nsc` writes it.",
    ),
    Mistake(
        GATEWAY,
        "gateway -p 70000",
        "Invalid value for '--port' / '-p': Input should be less than or equal to 65535; see millstream "
        "gateway --help",
        "Ports are 1 to 65535.",
        code=2,
    ),
    Mistake(
        GATEWAY,
        "gateway",
        "PACKAGE is not installed; get what is missing with: pip install 'millstream[gateway]'",
        "The broker alone needs no HTTP server, so the gateway is an extra.",
        without="h2",
    ),
    # -- pipelines
    Mistake(
        PIPELINE,
        "pipeline run {orders_toml}",
        "PACKAGE is not installed; get what is missing with: pip install 'millstream[spark]'",
        "Spark is an extra.",
        without="pyspark",
    ),
    Mistake(
        PIPELINE,
        "pipeline run {orders_toml}",
        f"Spark needs Java 17 or later, and there is none in JAVA_HOME, which is FOLDER; {_GET_JAVA}",
        "`java -version` says what there is.",
        environment={"JAVA_HOME": "{folder}"},
    ),
    Mistake(
        PIPELINE,
        "pipeline run {orders_toml}",
        f"Spark needs Java 17 or later, and there is none; {_GET_JAVA}",
        "`java -version` says what there is.",
        environment={"PATH": "{folder}", "JAVA_HOME": ""},
    ),
    Mistake(
        PIPELINE,
        "pipeline run {orders_toml}",
        f"Spark needs Java 17 or later, and FILE is REASON; {_GET_JAVA}",
        "`java -version` says what there is.",
        environment={"JAVA_HOME": "{old_java}"},
    ),
    Mistake(
        PIPELINE,
        "pipeline check {folder}/none.toml",
        f"FILE: {_NO_FILE}",
        "Give the path of the pipeline.",
    ),
    Mistake(
        PIPELINE,
        "pipeline check {broken_toml}",
        "FILE:LINE:COLUMN: not TOML: REASON",
        "Texts are in quotes, lists in brackets.",
    ),
    Mistake(
        PIPELINE,
        "pipeline check {mistyped_toml}",
        'FILE:LINE: job "JOB": unknown key "KEY"; did you mean "KEY"?',
        "[Pipelines](pipelines.md) lists the keys of each kind of job.",
    ),
    Mistake(
        PIPELINE,
        "pipeline check {ordres_toml}",
        'FILE:LINE: job "JOB": there is no stream STREAM on SERVER; create it, or check the name',
        "Names of streams are case-sensitive.",
    ),
    Mistake(
        PIPELINE,
        "pipeline run {ordres_toml}",
        'FILE:LINE: job "JOB": there is no stream STREAM on SERVER; create it, or check the name',
        "Names of streams are case-sensitive.",
    ),
    Mistake(
        PIPELINE,
        "pipeline check {away_toml}",
        f"FILE: cannot connect to HOST:PORT: {_REFUSED}",
        _START_ONE,
    ),
    Mistake(
        PIPELINE,
        "pipeline check {locked_toml}",
        "FILE: HOST:PORT asks for credentials, and none were given: Authorization Violation",
        "Set `user` and `password_file` in `[nats]`, or the environment variables.",
    ),
    Mistake(
        PIPELINE,
        "pipeline check {locked_toml}",
        f"FILE: HOST:PORT {_WRONG_LOGIN}",
        "The server's log names the user that was refused.",
        environment={"NATS_USER": "ops", "NATS_PASSWORD": "wr0ng"},
    ),
    Mistake(
        PIPELINE,
        "pipeline check {off_toml}",
        f"FILE: {_OFF}",
        _OFF_ADVICE,
    ),
    Mistake(
        PIPELINE,
        "pipeline run {orders_toml} --job none",
        'FILE: there is no job "JOB"; there are JOB',
        "`--job` is the `name` of a job of the file.",
        code=2,
    ),
)
