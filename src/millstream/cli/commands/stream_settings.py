"""The flags of `stream add` and `stream edit`, and a stream's configuration for people."""

from __future__ import annotations

from typing import Any, Final

from millstream.cli.output.texts import duration_text, limit_text, list_text
from millstream.cli.settings import Changes, Setting, SettingForm

RETENTION: Final = {
    "limits": "limits",
    "interest": "interest",
    "work": "workqueue",
    "workq": "workqueue",
    "workqueue": "workqueue",
}
STORAGE: Final = {"file": "file", "memory": "memory"}

SETTINGS: Final = (
    Setting(
        "subjects",
        "--subjects",
        SettingForm.LIST,
        "Subjects to store; commas, or several times.",
        metavar="SUBJECT",
    ),
    Setting("description", "--description", SettingForm.TEXT, "What the stream is for."),
    Setting("storage", "--storage", SettingForm.CHOICE, "Storage of messages.", STORAGE),
    Setting("retention", "--retention", SettingForm.CHOICE, "Retention of messages.", RETENTION),
    Setting(
        "discard",
        "--discard",
        SettingForm.CHOICE,
        "Message to discard when full.",
        {"old": "old", "new": "new"},
    ),
    Setting(
        "discard_new_per_subject",
        "--discard-per-subject",
        SettingForm.SWITCH,
        "Apply the discard policy to each subject.",
    ),
    Setting("max_msgs", "--max-msgs", SettingForm.LIMIT, "Maximum number of messages."),
    Setting("max_bytes", "--max-bytes", SettingForm.SIZE, "Maximum size in bytes."),
    Setting("max_age", "--max-age", SettingForm.DURATION, "Remove messages after this time; 0 keeps them."),
    Setting(
        "max_msgs_per_subject",
        "--max-msgs-per-subject",
        SettingForm.LIMIT,
        "Maximum number of messages per subject.",
    ),
    Setting("max_msg_size", "--max-msg-size", SettingForm.SIZE, "The largest message."),
    Setting("max_consumers", "--max-consumers", SettingForm.LIMIT, "Maximum number of consumers."),
    Setting(
        "duplicate_window", "--dupe-window", SettingForm.DURATION, "Time that message ids are remembered."
    ),
    Setting("num_replicas", "--replicas", SettingForm.LIMIT, "Servers that keep a copy, in a cluster."),
    Setting("placement.cluster", "--cluster", SettingForm.TEXT, "Place it in this cluster.", metavar="NAME"),
    Setting("placement.tags", "--tag", SettingForm.LIST, "Place it on servers with this tag.", metavar="TAG"),
    Setting(
        "compression", "--compression", SettingForm.CHOICE, "Compress files.", {"none": "none", "s2": "s2"}
    ),
    Setting("no_ack", "--no-ack", SettingForm.SWITCH, "Send no acks to publishers."),
    Setting("allow_direct", "--allow-direct", SettingForm.SWITCH, "Let clients read it without a consumer."),
    Setting(
        "allow_rollup_hdrs", "--allow-rollup", SettingForm.SWITCH, "Let a message replace those before it."
    ),
    Setting("allow_msg_ttl", "--allow-msg-ttl", SettingForm.SWITCH, "Allow messages with a TTL."),
    Setting("allow_atomic", "--allow-batch", SettingForm.SWITCH, "Let batches be published as one."),
    Setting("allow_msg_schedules", "--allow-schedules", SettingForm.SWITCH, "Let messages be delayed."),
    Setting("allow_msg_counter", "--allow-counter", SettingForm.SWITCH, "Let messages be counters."),
    Setting("deny_delete", "--deny-delete", SettingForm.SWITCH, "Nobody may delete single messages."),
    Setting("deny_purge", "--deny-purge", SettingForm.SWITCH, "Nobody may purge it."),
    Setting("mirror.name", "--mirror", SettingForm.TEXT, "A copy of this stream.", metavar="STREAM"),
    Setting("sources", "--source", SettingForm.LIST, "Copy from this stream, too.", metavar="STREAM"),
    Setting(
        "republish.src",
        "--republish-source",
        SettingForm.TEXT,
        "Publish again what matches.",
        metavar="SUBJECT",
    ),
    Setting(
        "republish.dest", "--republish-destination", SettingForm.TEXT, "… to this subject.", metavar="SUBJECT"
    ),
    Setting(
        "subject_transform.src", "--transform-source", SettingForm.TEXT, "Rename subjects.", metavar="SUBJECT"
    ),
    Setting(
        "subject_transform.dest",
        "--transform-destination",
        SettingForm.TEXT,
        "… to this one.",
        metavar="SUBJECT",
    ),
    Setting("first_seq", "--first-sequence", SettingForm.LIMIT, "Begin with this sequence."),
    Setting("metadata", "--metadata", SettingForm.PAIRS, "Notes for programs; several times."),
)


def config_changes(changes: Changes) -> Changes:
    """Return the fields of the server's API, where a source is an object with a name."""
    if "sources" in changes:
        changes["sources"] = [{"name": name} for name in changes["sources"] if isinstance(name, str)]
    return changes


def config_section(config: dict[str, Any]) -> dict[str, str]:
    """Return a configuration for people."""
    section = {
        "Subjects": list_text(config.get("subjects"), 20) or "-",
        "Storage": str(config.get("storage", "file")),
        "Retention": str(config.get("retention", "limits")),
        "Discard": str(config.get("discard", "old")),
        "Replicas": str(config.get("num_replicas", 1)),
        "Maximum messages": limit_text(config.get("max_msgs")),
        "Maximum bytes": limit_text(config.get("max_bytes"), size=True),
        "Maximum age": duration_text(config.get("max_age")).replace("-", "unlimited"),
        "Maximum per subject": limit_text(config.get("max_msgs_per_subject")),
        "Maximum message size": limit_text(config.get("max_msg_size"), size=True),
        "Maximum consumers": limit_text(config.get("max_consumers")),
        "Duplicate window": duration_text(config.get("duplicate_window")),
    }
    if config.get("description"):
        section = {"Description": str(config["description"]), **section}
    if config.get("compression", "none") != "none":
        section["Compression"] = str(config["compression"])
    switches = [
        name
        for name, field in (
            ("direct get", "allow_direct"),
            ("rollup", "allow_rollup_hdrs"),
            ("message TTL", "allow_msg_ttl"),
            ("atomic batches", "allow_atomic"),
            ("schedules", "allow_msg_schedules"),
            ("counters", "allow_msg_counter"),
        )
        if config.get(field)
    ]
    section["Allows"] = ", ".join(switches) or "-"
    denied = [name for name in ("delete", "purge") if config.get(f"deny_{name}")]
    if denied:
        section["Denies"] = ", ".join(denied)
    if config.get("sealed"):
        section["Sealed"] = "yes"
    if isinstance(config.get("mirror"), dict):
        section["Mirror of"] = str(config["mirror"].get("name"))
    if config.get("sources"):
        section["Sources"] = list_text([each.get("name", "?") for each in config["sources"]], 20)
    for key, value in (config.get("metadata") or {}).items():
        if not key.startswith("_nats."):
            section[f"Metadata {key}"] = str(value)
    return section
