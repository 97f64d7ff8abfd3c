"""``python -m potluck``."""

from potluck.cli import main

main()
