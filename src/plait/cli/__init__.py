"""The way into the command line, which needs the extra `cli`; see `docs/reference/cli.md`."""

from __future__ import annotations

import sys
from importlib.util import find_spec


def main() -> None:
    """Run the `plait` command on `sys.argv` and exit with its code."""
    require_extra()
    try:
        from plait.cli.run import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # while still loading
        code = 130
    raise SystemExit(code)


def require_extra() -> None:
    """Exit with one line that says what to install, if what the command line needs is not there."""
    if any(find_spec(name) is None for name in ("typer", "rich")):
        sys.stderr.write("plait: the command line needs typer and rich; install them with: pip install 'plait[cli]'\n")
        raise SystemExit(1)
