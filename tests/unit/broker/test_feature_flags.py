"""Feature flags: which are in force, and which are unknown."""

from millstream.broker import feature_flags


def test_a_choice_replaces_the_default_of_a_known_flag() -> None:
    assert feature_flags.in_force({})["js_ack_fc_v2"] is False
    assert feature_flags.in_force({})["js_raft_delete_range"] is True
    chosen = feature_flags.in_force({"js_ack_fc_v2": True, "js_raft_delete_range": False, "other": True})
    assert chosen["js_ack_fc_v2"] is True
    assert chosen["js_raft_delete_range"] is False
    assert "other" not in chosen


def test_unknown_flags_are_named_in_order() -> None:
    assert feature_flags.unknown({"z": True, "js_ack_fc_v2": True, "a": False}) == ["a", "z"]
