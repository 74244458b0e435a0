"""``python -m millrace``: the same as the ``millrace`` command."""

from millrace.cli.main import main

main()
