"""Run the command line with ``python -m tepui``."""

from tepui.cli.main import main

main()
