"""Every key that nats-server 2.15 reads in a block is read, or refused with a reason: none is unknown.

The list has the keys as nats-server spells them, aliases joined by `|`.  Blocks that are refused as a whole
(`cluster`, `gateway`, `mqtt`, …) are listed by their name alone.
"""

from collections.abc import Sequence

import pytest

from millstream.config import accounts, jetstream, leaf, operator, schema, tls, users, websocket
from millstream.config.fields import SettingField

TOP_LEVEL = """
accounts allow_non_tls authorization client_advertise cluster connect_error_reports debug
default_js_domain default_sentinel disable_sublist_cache|no_sublist_cache feature_flags gateway host|net
http http_base_path http_port|monitor_port https https_port jetstream lame_duck_duration
lame_duck_grace_period leaf|leafnodes listen logfile|log_file logfile_max_num|log_max_num
logfile_size_limit|log_size_limit logtime logtime_utc mappings|maps max_closed_clients
max_connections|max_conn max_control_line max_payload max_pending max_sub_tokens|max_subscription_tokens
max_subscriptions|max_subs max_traced_msg_len mqtt no_auth_user no_fast_producer_stall no_header_support
no_system_account|no_system|no_sys_acc ocsp ocsp_cache
operator|operators|roots|root|root_operators|root_operator pidfile|pid_file ping_interval ping_max port
ports_file_dir prof_block_rate prof_port proxies proxy_protocol reconnect_error_reports remote_syslog
resolver|account_resolver|accounts_resolver resolver_pinned_accounts resolver_preload resolver_tls
server_metadata server_name server_tags store_dir|storedir syslog system_account|system tls trace
trace_headers trace_verbose trusted|trusted_keys websocket|ws write_deadline write_timeout
"""
AUTHORIZATION = """
user|username pass|password token timeout users default_permission|default_permissions|permissions
auth_callout|auth_hook proxy_required
"""
USER = """
nkey user|username pass|password permission|permissions|authorization
allowed_connection_types|connection_types|clients proxy_required
"""
ACCOUNT = """
nkey imports exports jetstream users default_permissions mappings|maps limits msg_trace|trace_dest
"""
EXPORT = """
stream service response|response_type threshold|response_threshold|response_max_time|response_time
accounts latency account_token_position allow_trace
"""
JETSTREAM = """
enabled|enable strict store|store_dir|storedir sync|sync_interval max_memory_store|max_mem_store|max_mem
max_file_store|max_file domain key|ek|encryption_key prev_key|prev_ek|prev_encryption_key cipher
extension_hint limits tpm unique_tag max_outstanding_catchup max_buffered_size max_buffered_msgs
request_queue_limit info_queue_limit meta_compact meta_compact_size meta_compact_sync max_concurrent_io
"""
JETSTREAM_OF_ACCOUNT = """
max_memory|max_mem|mem|memory max_store|max_file|max_disk|store|disk max_streams|streams
max_consumers|consumers max_bytes_required|max_stream_bytes|max_bytes
mem_max_stream_bytes|memory_max_stream_bytes disk_max_stream_bytes|store_max_stream_bytes max_ack_pending
cluster_traffic
"""
TLS = """
cert_file key_file ca_file insecure verify verify_and_map verify_cert_and_check_known_urls
allow_insecure_cipher_suites cipher_suites curve_preferences timeout connection_rate_limit pinned_certs
cert_store cert_match_by cert_match ca_certs_match handshake_first|first|immediate
cert_match_skip_invalid ocsp_peer certs|certificates min_version
"""
WEBSOCKET = """
listen port host|net advertise no_tls tls same_origin
allowed_origins|allowed_origin|allow_origins|allow_origin|origins|origin handshake_timeout
compress|compression authorization|authentication jwt_cookie user_cookie pass_cookie token_cookie
no_auth_user headers ping_interval
"""

LEAF = """
listen port host|net authorization remotes reconnect|reconnect_delay|reconnect_interval dial_timeout tls
leafnode_advertise|advertise no_advertise min_version|minimum_version compression
isolate_leafnode_interest|isolate write_deadline write_timeout
"""
REMOTE = """
no_randomize|dont_randomize url|urls account|local creds|credentials nkey|seed tls hub
deny_imports|deny_import deny_exports|deny_export
ws_compress|ws_compression|websocket_compress|websocket_compression ws_no_masking|websocket_no_masking
jetstream_cluster_migrate|js_cluster_migrate isolate_leafnode_interest|isolate request_isolation compression
first_info_timeout dial_timeout disabled proxy ignore_discovered_servers
"""

BLOCKS: dict[str, tuple[str, Sequence[SettingField]]] = {
    "top level": (TOP_LEVEL, schema.TOP_LEVEL),
    "authorization": (AUTHORIZATION, users._AUTHORIZATION),
    "authorization of websocket": ("user|username pass|password token timeout", users.SIMPLE_AUTHORIZATION),
    "user": (USER, users._USER),
    "permissions": (
        "pub|publish|import sub|subscribe|export publish_allow_responses|allow_responses",
        users._PERMISSIONS,
    ),
    "responses": (
        "max|max_msgs|max_messages|max_responses expires|expiration|ttl",
        users._RESPONSES,
    ),
    "account": (ACCOUNT, accounts._ACCOUNT),
    "limits of an account": (
        "max_connections|max_conn max_subscriptions|max_subs max_payload|max_pay max_leafnodes|max_leafs",
        accounts._LIMITS,
    ),
    "trace": ("dest sampling", accounts._TRACE),
    "export": (EXPORT, accounts._EXPORT),
    "import": ("stream service prefix to share allow_trace", accounts._IMPORT),
    "source of an import": ("account subject", accounts._SOURCE),
    "mapping": ("dest|destination weight cluster", accounts._DESTINATION),
    "jetstream": (JETSTREAM, jetstream._JETSTREAM),
    "limits": ("max_ack_pending max_ha_assets max_request_batch duplicate_window batch", jetstream._LIMITS),
    "batch": ("max_inflight_per_stream max_inflight_total max_msgs timeout", jetstream._BATCH),
    "jetstream of an account": (JETSTREAM_OF_ACCOUNT, jetstream._ACCOUNT),
    "resolver": ("type dir limit allow_delete hard_delete interval timeout", operator._FOLDER),
    "tls": (TLS, tls._TLS),
    "pair of certificates": ("cert_file key_file", tls._PAIR),
    "leafnodes": (LEAF, leaf._LEAF),
    "remote": (REMOTE, leaf._REMOTE),
    "authorization of leafnodes": (
        "user|username pass|password nkey timeout users account proxy_required",
        leaf._AUTHORIZATION,
    ),
    "user of leafnodes": ("user|username pass|password nkey account proxy_required", leaf._USER),
    "websocket": (WEBSOCKET, websocket._WEBSOCKET),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_every_key_of_a_block_is_known(name: str) -> None:
    keys, fields = BLOCKS[name]
    known = {key for field in fields for key in field.names}
    assert {key for names in keys.split() for key in names.split("|")} <= known


@pytest.mark.parametrize("name", BLOCKS)
def test_aliases_are_one_setting(name: str) -> None:
    keys, fields = BLOCKS[name]
    of = {key: field for field in fields for key in field.names}
    for names in keys.split():
        first, *others = names.split("|")
        assert all(of[other] is of[first] for other in others), names
