"""Every key of nats-server's configuration is read or refused by name; `make oracle` asks it for its keys.

The keys are those of 2.15.1.  A block that is refused whole (clusters, MQTT, …) has none here.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from millstream.config import accounts, callout, jetstream, leaf, schema, tls, users, websocket
from millstream.config.fields import SettingField
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerKind, command_for

Table = Sequence[SettingField]
_ISSUER: Final = "ABJHLOVMPA4CI6R5KLNGOB4GSLNIY7IOUPAJC4YFNDLQVIOBYQGUWVLA"

# By block: a file with a place for a key, our table, and nats-server's keys.
BLOCKS: Final[dict[str, tuple[str, Table, str]]] = {
    "top level": (
        "%s",
        schema.TOP_LEVEL,
        "listen client_advertise port server_name host net debug trace trace_verbose trace_headers logtime "
        "logtime_utc mappings maps disable_sublist_cache no_sublist_cache accounts default_sentinel "
        "authorization http https http_port monitor_port https_port http_base_path cluster gateway leaf "
        "leafnodes store_dir storedir jetstream logfile log_file logfile_size_limit log_size_limit "
        "logfile_max_num log_max_num syslog remote_syslog pidfile pid_file ports_file_dir prof_port "
        "prof_block_rate max_control_line max_payload max_pending proxy_protocol max_connections max_conn "
        "max_traced_msg_len max_subscriptions max_subs max_sub_tokens max_subscription_tokens ping_interval "
        "ping_max tls ocsp allow_non_tls write_deadline write_timeout lame_duck_duration "
        "lame_duck_grace_period operator operators roots root root_operators root_operator resolver "
        "account_resolver accounts_resolver resolver_tls resolver_preload resolver_pinned_accounts "
        "no_auth_user system_account system no_system_account no_system no_sys_acc no_header_support trusted "
        "trusted_keys connect_error_reports reconnect_error_reports websocket ws mqtt server_tags "
        "server_metadata feature_flags default_js_domain ocsp_cache no_fast_producer_stall "
        "max_closed_clients proxies",
    ),
    "authorization": (
        "authorization { %s }",
        users._AUTHORIZATION,
        "user username pass password token timeout users default_permission default_permissions permissions "
        "auth_callout auth_hook proxy_required",
    ),
    "auth_callout": (
        "authorization { auth_callout { %s } }",
        callout._CALLOUT,
        "issuer account acc auth_users users xkey key allowed_accounts",
    ),
    "users": (
        "authorization { users [ { %s } ] }",
        users._USER,
        "nkey user username pass password permission permissions authorization allowed_connection_types "
        "connection_types clients proxy_required",
    ),
    "permissions": (
        "authorization { default_permissions { %s } }",
        users._PERMISSIONS,
        "pub publish import sub subscribe export publish_allow_responses allow_responses",
    ),
    "allow_responses": (
        "authorization { default_permissions { allow_responses { %s } } }",
        users._RESPONSES,
        "max max_msgs max_messages max_responses expires expiration ttl",
    ),
    "accounts": (
        "accounts { A { %s } }",
        accounts._ACCOUNT,
        "nkey imports exports jetstream users default_permissions mappings maps limits msg_trace trace_dest",
    ),
    "limits of an account": (
        "accounts { A { limits { %s } } }",
        accounts._LIMITS,
        "max_connections max_conn max_subscriptions max_subs max_payload max_pay max_leafnodes max_leafs",
    ),
    "msg_trace": ("accounts { A { msg_trace { %s } } }", accounts._TRACE, "dest sampling"),
    "exports": (
        "accounts { A { exports [ { %s } ] } }",
        accounts._EXPORT,
        "stream service response response_type threshold response_threshold response_max_time response_time "
        "accounts latency account_token_position allow_trace",
    ),
    "imports": (
        "accounts { A { imports [ { %s } ] } }",
        accounts._IMPORT,
        "stream service prefix to share allow_trace",
    ),
    "mappings": (
        "mappings { a: [ { %s } ] }",
        accounts._DESTINATION,
        "dest destination weight cluster",
    ),
    "jetstream": (
        "jetstream { %s }",
        jetstream._JETSTREAM,
        "strict store store_dir storedir sync sync_interval max_memory_store max_mem_store max_mem "
        "max_file_store max_file domain enable enabled key ek encryption_key prev_key prev_ek "
        "prev_encryption_key cipher extension_hint limits tpm unique_tag max_outstanding_catchup "
        "max_buffered_size max_buffered_msgs request_queue_limit info_queue_limit meta_compact "
        "meta_compact_size meta_compact_sync max_concurrent_io",
    ),
    "limits of jetstream": (
        "jetstream { limits { %s } }",
        jetstream._LIMITS,
        "max_ack_pending max_ha_assets max_request_batch duplicate_window batch",
    ),
    "batches": (
        "jetstream { limits { batch { %s } } }",
        jetstream._BATCH,
        "max_inflight_per_stream max_inflight_total max_msgs timeout",
    ),
    "jetstream of an account": (
        "accounts { A { jetstream { %s } } }",
        jetstream._ACCOUNT,
        "max_memory max_mem mem memory max_store max_file max_disk store disk max_streams streams "
        "max_consumers consumers max_bytes_required max_stream_bytes max_bytes mem_max_stream_bytes "
        "memory_max_stream_bytes disk_max_stream_bytes store_max_stream_bytes max_ack_pending "
        "cluster_traffic",
    ),
    "leafnodes": (
        "leafnodes { %s }",
        leaf._LEAF,
        "listen port host net authorization remotes reconnect reconnect_delay reconnect_interval "
        "dial_timeout tls leafnode_advertise advertise no_advertise min_version minimum_version compression "
        "isolate_leafnode_interest isolate write_deadline write_timeout",
    ),
    "authorization of leafnodes": (
        "leafnodes { authorization { %s } }",
        leaf._AUTHORIZATION,
        "user username pass password nkey timeout users account proxy_required",
    ),
    "users of leafnodes": (
        "leafnodes { authorization { users [ { %s } ] } }",
        leaf._USER,
        "user username pass password account proxy_required",
    ),
    "compression": (
        "leafnodes { compression { %s } }",
        leaf._COMPRESSION,
        "mode rtt_thresholds thresholds rtts rtt",
    ),
    "remotes": (
        "leafnodes { remotes [ { %s } ] }",
        leaf._REMOTE,
        "no_randomize dont_randomize url urls account local creds credentials nkey seed tls hub deny_imports "
        "deny_import deny_exports deny_export ws_compress ws_compression websocket_compress "
        "websocket_compression ws_no_masking websocket_no_masking jetstream_cluster_migrate "
        "js_cluster_migrate isolate_leafnode_interest isolate request_isolation compression "
        "first_info_timeout dial_timeout disabled proxy ignore_discovered_servers",
    ),
    "proxy": (
        "leafnodes { remotes [ { proxy { %s } } ] }",
        leaf._PROXY,
        "url username password timeout",
    ),
    "tls": (
        "tls { %s }",
        tls._TLS,
        "cert_file key_file ca_file insecure verify verify_and_map verify_cert_and_check_known_urls "
        "allow_insecure_cipher_suites cipher_suites curve_preferences timeout connection_rate_limit "
        "pinned_certs cert_store cert_match_by cert_match ca_certs_match handshake_first first immediate "
        "cert_match_skip_invalid ocsp_peer certs certificates min_version",
    ),
    "websocket": (
        "websocket { %s }",
        websocket._WEBSOCKET,
        "listen port host net advertise no_tls tls same_origin allowed_origins allowed_origin allow_origins "
        "allow_origin origins origin handshake_timeout compress compression authorization authentication "
        "jwt_cookie user_cookie pass_cookie token_cookie no_auth_user headers ping_interval",
    ),
}


@pytest.mark.parametrize("title", BLOCKS)
def test_every_key_is_read_or_refused_by_name(title: str) -> None:
    _, table, keys = BLOCKS[title]
    known = {name for each in table for name in each.names}
    assert not set(keys.split()) - known


@pytest.mark.oracle
@pytest.mark.parametrize("title", BLOCKS)
def test_nats_server_knows_these_keys(title: str, tmp_path: Path) -> None:
    place, _, keys = BLOCKS[title]
    unknown = {key for key in [*keys.split(), "colour"] if is_unknown(place, key, tmp_path / "server.conf")}
    assert unknown == {"colour"}


def is_unknown(place: str, key: str, file: Path) -> bool:
    """Ask nats-server whether it knows a key at a place of its configuration."""
    value = f'"{_ISSUER}"' if key == "issuer" else "1"
    file.write_text(place % f"{key}: {value}")
    command = [*command_for(ServerKind.NATS_SERVER), "-t", "-c", str(file)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    return "unknown field" in found.stderr.lower()
