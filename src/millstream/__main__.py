"""``python -m millstream``: the same as the ``millstream`` command."""

from millstream.cli.main import main

main()
