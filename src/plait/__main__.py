"""`python -m plait`: the command line."""

from __future__ import annotations

from plait.cli import main

if __name__ == "__main__":
    main()
