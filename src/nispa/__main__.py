"""``python -m nispa``."""

from nispa.cli import main

main()
