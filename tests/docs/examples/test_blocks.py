"""Blocks of pages: where they begin and end, how they are marked, and which outputs match."""

import pytest

from tests.kits.docs.blocks import Block, Command, PageError, commands, is_shown, pages, read_blocks

PAGE = """\
Words.

<!-- differs: 42 -->
```console
$ echo 42
42
```

<!-- not run: a drawing -->
```
a ──▶ b
```

```python
print("hello")
```
<!-- differs: hello -->
```text
hello
```

More words.

```text
no output of anything
```
"""


def console(text: str) -> list[Command]:
    return commands(Block("page.md", 1, "console", text))


def test_blocks_have_their_marks_and_lines() -> None:
    blocks = read_blocks("page.md", PAGE)
    assert [(block.language, block.line) for block in blocks] == [
        ("console", 4),
        ("", 10),
        ("python", 14),
        ("text", 18),
        ("text", 24),
    ]
    assert blocks[0].differing == ["42"]
    assert blocks[1].marks == {"not run": "a drawing"}
    assert blocks[2].output is blocks[3]
    assert [block.is_output for block in blocks] == [False, False, False, True, False]


@pytest.mark.parametrize(
    "mark",
    ["<!-- not run -->", "<!-- not run:  -->", "<!-- nut run: a drawing -->", "<!-- continues: yes -->"],
)
def test_a_mark_that_nobody_knows_is_an_error(mark: str) -> None:
    with pytest.raises(PageError, match="nobody knows the mark"):
        read_blocks("page.md", f"{mark}\n```\nwords\n```\n")


def test_a_comment_elsewhere_is_no_mark() -> None:
    (block,) = read_blocks("page.md", "<!-- a table follows -->\n\n| a |\n\n```python\n```\n")
    assert block.marks == {}


def test_a_block_without_an_end_is_an_error() -> None:
    with pytest.raises(PageError, match=r"page.md:2: the block has no end"):
        read_blocks("page.md", "words\n```python\nprint()\n")


def test_indented_blocks_lose_their_indent() -> None:
    (block,) = read_blocks("page.md", "* a list\n\n  ```python\n  if True:\n      pass\n  ```\n")
    assert block.text == "if True:\n    pass\n"


def test_commands_have_the_output_below_them() -> None:
    assert console("$ echo a  # letters\na\n\n$ true\n") == [
        Command(2, "echo a  # letters", "a", is_last=False),
        Command(5, "true", "", is_last=True),
    ]


@pytest.mark.parametrize(
    "command",
    [
        "cat <<'END'\na\nEND",
        "echo a \\\n    b",
        "echo a |\n    cat",
        "echo 'a\nb'",
        "for each in a b; do\n  echo $each\ndone",
    ],
)
def test_a_command_goes_on_while_the_shell_wants_more(command: str) -> None:
    first, second = console(f"$ {command}\noutput\n$ true\n")
    assert (first.text, first.output) == (command, "output")
    assert second.text == "true"


def test_a_command_without_an_end_and_output_without_a_command_are_errors() -> None:
    with pytest.raises(PageError, match="has no end"):
        console("$ cat <<'END'\na\n")
    with pytest.raises(PageError, match="begins with output"):
        console("echo a\n")


@pytest.mark.parametrize(
    ("shown", "differing", "printed"),
    [
        ("a\nb", [], "a\nb\n"),
        ("a  \nb", [], "a\nb"),
        ('{"seq":42}', ["42"], '{"seq":7}'),
        ("took 4.2 s", ["4.2 s"], "took 13 ms"),
        ("begins … ends", [], "begins with anything and ends"),
        ("first\n…\nlast", [], "first\n2\n3\nlast"),
        ("first\n…\nlast", [], "first\nlast"),
        ("first\n…", [], "first\n2\n3"),
        ("first\n…", [], "first"),
        ("…", [], ""),
        ("| count|\n|   17|", ["17"], "| count|\n|  117|"),
        ("", [], ""),
    ],
)
def test_outputs_that_are_the_one_shown(shown: str, differing: list[str], printed: str) -> None:
    assert is_shown(printed, shown, differing)


@pytest.mark.parametrize(
    ("shown", "differing", "printed"),
    [
        ("a", [], "b"),
        ("a", [], ""),
        ("", [], "a"),
        ("a", [], "a\nb"),
        ("a b", [], "ab"),
        ('{"seq":42}', ["42"], '{"seq":"x"}'),
        ('{"seq":142}', ["42"], '{"seq":17}'),
        ("first\n…\nlast", [], "first\n2\n3"),
    ],
)
def test_outputs_that_are_not_the_one_shown(shown: str, differing: list[str], printed: str) -> None:
    assert not is_shown(printed, shown, differing)


def test_the_pages_are_all_that_users_read() -> None:
    assert {"README.md", "docs/client.md", "docs/formats/log.md", "examples/orders/README.md"} <= set(pages())
