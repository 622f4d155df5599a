"""One run of the command line: streams made safe, errors told in one line, the exit code."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

from plait import errors
from plait.cli import escape, failure
from plait.cli.app import Passed, command
from plait.cli.place import given_text


def run(args: Sequence[str]) -> int:
    """Run `plait` with these arguments; answers the exit code and lets no error out.

    With `PLAIT_DEBUG` set, an error is raised with its traceback instead.
    """
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):  # what a console cannot show is escaped, not an error
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _invoke(args)
        sys.stdout.flush()
    except BaseException as error:
        code = _ended(error)
    return code


def _open_closed_streams() -> None:
    """Give the streams that were closed before the start somewhere to read from and to write to."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - open to the end


def _invoke(args: Sequence[str]) -> int:
    try:
        result = command().main(args=list(args), prog_name="plait", standalone_mode=False)
    except Passed as passed:
        raise passed.error from None
    return result if isinstance(result, int) else failure.OK


def _ended(error: BaseException) -> int:
    if isinstance(error, BrokenPipeError):
        _drop_output()
        return failure.BROKEN_PIPE
    if isinstance(error, KeyboardInterrupt):
        return failure.INTERRUPTED
    if not isinstance(error, Exception) or os.environ.get("PLAIT_DEBUG"):
        raise error
    text, code = _told(error)
    if not text:  # the help was printed
        return code
    try:
        sys.stdout.flush()
    except OSError:  # a full disk below stdout, told already
        _drop_output()
    try:
        sys.stderr.write(f"{text if _is_help(error) else _line(text)}\n")
    except OSError:
        pass  # nobody is left to tell
    return code


def _is_help(error: Exception) -> bool:
    """Whether nothing was asked for, so that the message is how to ask."""
    return type(error).__name__ == "NoArgsIsHelpError"


def _line(text: str) -> str:
    return f"plait: {' '.join(escape.printable(given_text(text)).split())}"


def _told(error: Exception) -> tuple[str, int]:
    """What to say about an error, and the exit code it gives."""
    if isinstance(error, failure.Failure):
        return str(error), error.code
    if isinstance(error, errors.CorruptError):
        return str(error), failure.DAMAGED
    if isinstance(error, errors.PlaitError):
        return str(error), failure.REFUSED
    format_message = getattr(error, "format_message", None)
    if format_message is not None:  # typer's own: the command line is wrong
        return _usage(error, format_message()), failure.USAGE
    if type(error).__name__ == "Abort":
        return "stopped, nothing was done", failure.REFUSED
    if isinstance(error, FileNotFoundError) and (folder := _missing_folder(error)):
        return (
            f"{os.fsdecode(error.filename)}: the folder {folder} does not exist; make it, or name another",
            failure.REFUSED,
        )
    if isinstance(error, OSError):
        name = f"{os.fsdecode(error.filename)}: " if error.filename else ""
        return f"{name}{error.strerror or error}", failure.REFUSED
    return f"internal error, {type(error).__name__}: {error} (PLAIT_DEBUG=1 shows where)", failure.REFUSED


def _missing_folder(error: FileNotFoundError) -> str | None:
    """The folder that a file was to be in, if it is what is missing."""
    folder = os.path.dirname(os.fsdecode(error.filename or b""))
    return folder if folder and not os.path.exists(folder) else None


def _usage(error: Exception, text: str) -> str:
    if not text or _is_help(error):
        return text
    path = getattr(getattr(error, "ctx", None), "command_path", "plait")
    if type(error).__name__ == "NoSuchOption":
        end = "" if text.endswith(("?", ".")) else "."
        text = f"{text}{end} An id that begins with - goes after -- or into --id="
    return f"{text.rstrip('.')} (see {path} --help)"


def _drop_output() -> None:
    """Let Python's own flush at exit go nowhere."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        pass
