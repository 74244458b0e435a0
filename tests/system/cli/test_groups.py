"""`millstream group` on a real server."""

from millstream.cli.endings import CONFLICT, NOT_FOUND, NOTHING, WRONG_USAGE
from tests.kits.cli import Cli


def test_an_elastic_group_is_made_consumed_and_deleted(cli: Cli, name: str) -> None:
    cli("stream", "add", name, "--subjects", f"{name}.>", "--storage", "memory")
    create = ("group", "create", name, "billing", 4, "--filter", f"{name}.*:1")
    cli(*create, "--member", "m1")
    cli(*create)  # the same one again
    cli("group", "create", name, "billing", 5, code=CONFLICT)
    (listed,) = cli("group", "ls", name, "--json").json
    assert (listed["group"], listed["kind"], listed["config"]["members"]) == ("billing", "elastic", ["m1"])
    cli("pub", f"{name}.k", "hello")
    cli("pub", f"{name}.k", "again")
    (first,) = cli("group", "consume", name, "billing", "m1", "--count", 1, "--json").lines
    assert (first["subject"], first["data"], first["deliveries"]) == (f"{name}.k", "hello", 1)
    assert cli("group", "consume", name, "billing", "m1", "--count", 1, "--raw").raw == b"again\n"
    cli("group", "consume", name, "billing", "m1", "--wait", "100ms", code=NOTHING)
    assert cli("group", "add", name, "billing", "m2", "--json").json == {"members": ["m1", "m2"]}
    shown = cli("group", "info", name, "billing", "--json").json
    assert [each["partitions"] for each in shown["members"]] == [[0, 1], [2, 3]]
    cli("group", "drop", name, "billing", "m9", code=NOT_FOUND)
    cli("group", "drop", name, "billing", "m1", "m2")
    assert "the group has no members" in cli("group", "info", name, "billing").err
    cli("group", "map", name, "billing", "m1:0,1", "m2:2,3")
    cli("group", "add", name, "billing", "m3", code=WRONG_USAGE)
    cli("group", "map", name, "billing", "--clear")
    cli("group", "step-down", name, "billing", "m9", code=NOT_FOUND)
    cli("group", "rm", name, "billing", code=WRONG_USAGE)
    cli("group", "rm", name, "billing", "--force")
    cli("group", "info", name, "billing", code=NOT_FOUND)
    assert name in cli("stream", "ls", "--names").out
    assert f"{name}-billing" not in cli("stream", "ls", "--names").out


def test_a_static_group_and_an_elastic_one_may_share_a_name(cli: Cli, name: str) -> None:
    cli("stream", "add", name, "--subjects", f"0.{name},1.{name}", "--storage", "memory")
    cli("group", "create", name, "g", 2, "--static", "--map", "m1:0", "--map", "m2:1")
    cli("group", "create", name, "g", 2)
    cli("group", "info", name, "g", code=WRONG_USAGE)
    cli("pub", f"1.{name}", "x")
    consume = ("group", "consume", name, "g", "m2", "--kind", "static", "--count", 1)
    (message,) = cli(*consume, "--json").lines
    assert (message["subject"], message["partition"]) == (name, 1)
    cli("group", "consume", name, "g", "m9", "--kind", "static", code=NOT_FOUND)
    cli("group", "rm", name, "g", "--kind", "static", "--force")
    cli("group", "rm", name, "g", "--force")


def test_wrong_input_is_refused(cli: Cli, name: str) -> None:
    cli("stream", "add", name, "--subjects", f"{name}.>", "--storage", "memory")
    create = ("group", "create", name, "g", 2)
    for wrong in (
        ("--member", "m1", "--map", "m1:0,1"),
        ("--map", "m1"),
        ("--map", "m1:0,x"),
        ("--map", "m1:0", "--map", "m1:1"),
        ("--map", "m1:0"),
        ("--member", "a.b"),
        ("--filter", f"{name}.a"),
        ("--filter", f"{name}.*:2"),
        ("--filter", f"{name}.*:"),
        ("--static",),
        ("--static", "--member", "m1", "--max-buffered-msgs", 5),
        ("--static", "--member", "m1", "--filter", f"{name}.*:1"),
    ):
        cli(*create, *wrong, code=WRONG_USAGE)
    cli("group", "create", name, "a.b", 2, code=WRONG_USAGE)
    cli("group", "create", "NONE", "g", 2, code=NOT_FOUND)
    cli("group", "map", name, "g", code=WRONG_USAGE)
    cli("group", "add", name, "absent", "m1", code=NOT_FOUND)
