"""The flags of `consumer add` and `consumer edit`, and a consumer's configuration for people."""

from __future__ import annotations

import re
from typing import Any, Final

from millstream.cli.endings import UsageError
from millstream.cli.output.readings import read_moment
from millstream.cli.output.texts import duration_text, limit_text, list_text, time_text
from millstream.cli.settings import Changes, Setting, SettingForm

_ACKS: Final = {"explicit": "explicit", "all": "all", "none": "none"}
_POLICIES: Final = {"all": "all", "new": "new", "last": "last", "subject": "last_per_subject"}

SETTINGS: Final = (
    Setting(
        "filter_subjects",
        "--filter",
        SettingForm.LIST,
        "Only messages that match; several times.",
        metavar="SUBJECT",
    ),
    Setting(
        "deliver",
        "--deliver",
        SettingForm.TEXT,
        "First message to deliver.",
        metavar="all|new|last|subject|SEQUENCE|TIME",
    ),
    Setting("ack_policy", "--ack", SettingForm.CHOICE, "Ack policy.", _ACKS),
    Setting("ack_wait", "--wait", SettingForm.DURATION, "Redeliver without an ack after this time."),
    Setting("max_deliver", "--max-deliver", SettingForm.LIMIT, "Maximum number of deliveries of a message."),
    Setting("backoff", "--backoff", SettingForm.DURATIONS, "Pauses before the second, third … delivery."),
    Setting("max_ack_pending", "--max-pending", SettingForm.LIMIT, "Maximum number of pending messages."),
    Setting("description", "--description", SettingForm.TEXT, "What the consumer is for."),
    Setting(
        "deliver_subject",
        "--target",
        SettingForm.TEXT,
        "Push to this subject, instead of pull.",
        metavar="SUBJECT",
    ),
    Setting(
        "deliver_group",
        "--deliver-group",
        SettingForm.TEXT,
        "Push to one of this queue group.",
        metavar="NAME",
    ),
    Setting("idle_heartbeat", "--heartbeat", SettingForm.DURATION, "Push: send heartbeats when idle."),
    Setting(
        "flow_control", "--flow-control", SettingForm.SWITCH, "Push: wait for slow clients (flow control)."
    ),
    Setting("rate_limit_bps", "--bps", SettingForm.SIZE, "Push: maximum bits a second.", metavar="NUMBER"),
    Setting(
        "replay_policy",
        "--replay",
        SettingForm.CHOICE,
        "How fast.",
        {"instant": "instant", "original": "original"},
    ),
    Setting("headers_only", "--headers-only", SettingForm.SWITCH, "Headers without payloads."),
    Setting("max_waiting", "--max-waiting", SettingForm.LIMIT, "Pull: maximum number of waiting requests."),
    Setting("max_batch", "--max-pull-batch", SettingForm.LIMIT, "Pull: maximum messages in a request."),
    Setting("max_expires", "--max-pull-expire", SettingForm.DURATION, "Pull: maximum duration of a request."),
    Setting("max_bytes", "--max-pull-bytes", SettingForm.SIZE, "Pull: maximum bytes in a request."),
    Setting(
        "inactive_threshold",
        "--inactive-threshold",
        SettingForm.DURATION,
        "Delete it when unused for this time.",
    ),
    Setting("num_replicas", "--replicas", SettingForm.LIMIT, "Servers that keep its state, in a cluster."),
    Setting("mem_storage", "--memory", SettingForm.SWITCH, "Keep its state in memory."),
    Setting(
        "sample_freq",
        "--sample",
        SettingForm.TEXT,
        "Publish the time to the ack, for this percentage.",
        metavar="PERCENT",
    ),
    Setting("pause_until", "--pause", SettingForm.MOMENT, "Begin paused: until a time, or for a duration."),
    Setting(
        "priority_groups", "--group", SettingForm.LIST, "Priority group of clients that pull.", metavar="NAME"
    ),
    Setting(
        "priority_policy",
        "--priority",
        SettingForm.CHOICE,
        "Policy of the priority group.",
        {"overflow": "overflow", "pinned": "pinned_client", "prioritized": "prioritized"},
    ),
    Setting(
        "priority_timeout", "--pinned-ttl", SettingForm.DURATION, "Time that a silent client stays pinned."
    ),
    Setting("metadata", "--metadata", SettingForm.PAIRS, "Notes for programs; several times."),
)


def config_changes(changes: Changes) -> Changes:
    """Return the fields of the server's API, where one filter has another field than several."""
    changes = dict(changes)
    if "deliver" in changes:
        changes |= _start(changes.pop("deliver"))
    filters = changes.get("filter_subjects")
    if filters is not None and len(filters) == 1:
        del changes["filter_subjects"]
        changes["filter_subject"] = filters[0]
    return changes


def _start(text: str) -> Changes:
    word = text.strip().lower()
    if word in _POLICIES:
        return {"deliver_policy": _POLICIES[word]}
    if re.fullmatch(r"\d+", word):
        if word == "0":
            raise UsageError("--deliver: sequences begin with 1")
        return {"deliver_policy": "by_start_sequence", "opt_start_seq": int(word)}
    try:
        when = read_moment(text, "--deliver")
    except UsageError:
        known = ", ".join(_POLICIES)
        raise UsageError(f"--deliver: {text!r} is none of {known}, no sequence and no time") from None
    return {"deliver_policy": "by_start_time", "opt_start_time": when}


def config_section(config: dict[str, Any]) -> dict[str, str]:
    """Return a configuration for people."""
    push = config.get("deliver_subject")
    filters = config.get("filter_subjects") or [config.get("filter_subject") or ">"]
    section = {
        "Kind": f"push to {push}" if push else "pull",
        "Durable": "yes" if config.get("durable_name") else "no",
        "Filter": list_text(filters, 20),
        "Delivers": _begin(config),
        "Ack policy": str(config.get("ack_policy", "none")),
        "Ack wait": duration_text(config.get("ack_wait")),
        "Maximum deliveries": limit_text(config.get("max_deliver")),
        "Maximum ack pending": limit_text(config.get("max_ack_pending")),
    }
    if config.get("description"):
        section = {"Description": str(config["description"]), **section}
    for title, text in (
        ("Backoff", ", ".join(map(duration_text, config.get("backoff") or []))),
        ("Deliver group", config.get("deliver_group")),
        ("Rate limit", f"{config['rate_limit_bps']} bit/s" if config.get("rate_limit_bps") else ""),
        ("Maximum waiting pulls", limit_text(config.get("max_waiting")) if not push else ""),
        ("Inactive threshold", duration_text(config.get("inactive_threshold")).removeprefix("-")),
        ("Replay", config.get("replay_policy") if config.get("replay_policy") != "instant" else ""),
        ("Headers only", "yes" if config.get("headers_only") else ""),
        ("Priority", f"{config.get('priority_policy')} {list_text(config.get('priority_groups'))}"
         if config.get("priority_groups") else ""),
    ):  # fmt: skip
        if text:
            section[title] = str(text)
    for key, value in (config.get("metadata") or {}).items():
        if not key.startswith("_nats."):
            section[f"Metadata {key}"] = str(value)
    return section


def _begin(config: dict[str, Any]) -> str:
    policy = str(config.get("deliver_policy", "all"))
    if policy == "by_start_sequence":
        return f"from sequence {config.get('opt_start_seq')}"
    if policy == "by_start_time":
        return f"from {time_text(config.get('opt_start_time'))}"
    return policy.replace("_", " ")
