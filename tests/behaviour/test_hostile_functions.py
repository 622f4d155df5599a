"""Every argument of every public function of the package, given what it must not be: a plait error, never another."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import plait
from tests.behaviour._sync.test_hostile_arguments import HOSTILE, outcome

NAN = float("nan")
FUNCTIONS = [name for name in plait.__all__ if inspect.isfunction(getattr(plait, name))]
ARGUMENTS = [
    pytest.param(name, argument, id=f"{name}-{argument}")
    for name in FUNCTIONS
    for argument, parameter in inspect.signature(getattr(plait, name)).parameters.items()
    if parameter.kind is not parameter.VAR_KEYWORD
]


def test_the_functions_are_found() -> None:
    assert {"compact_function", "truncate_older_messages", "enforce_row_size", "legal_view", "user"} <= {*FUNCTIONS}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that is no refusal makes a file."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("function", "argument"), ARGUMENTS)
def test_no_argument_of_a_function_raises_but_a_plait_error(function: str, argument: str) -> None:
    for what, make in HOSTILE.items():
        try:
            outcome(getattr(plait, function), argument, make())
        except Exception as error:
            raise AssertionError(f"{function}({argument}={what}) raised {type(error).__name__}") from error


@pytest.mark.parametrize("what", HOSTILE)
def test_no_message_among_others_raises_but_a_plait_error(what: str) -> None:
    for function in (plait.truncate_older_messages, plait.legal_view):
        outcome(lambda messages, call=function: call(messages), "messages", [HOSTILE[what]()] * 6)


SMALL = {"max_bytes": 1}
WRONG: list[tuple[str, Callable[[], Any]]] = [
    ("keep_recent_tokens", lambda: plait.compact_function(str, keep_recent_tokens="x")),
    ("keep_recent_tokens", lambda: plait.compact_function(str, keep_recent_tokens=1.5)),
    ("protect_head", lambda: plait.compact_function(str, protect_head=None)),
    ("min_tail", lambda: plait.compact_function(str, min_tail=NAN)),
    ("min_tail", lambda: plait.compact_function(str, min_tail=0)),
    ("max_input_tokens", lambda: plait.compact_function(str, max_input_tokens=999)),
    ("max_tool_chars", lambda: plait.compact_function(str, max_tool_chars=True)),
    ("prompt", lambda: plait.compact_function(str, prompt=5)),
    ("conversation", lambda: plait.summary_prompt(5, previous=None, target_tokens=5)),
    ("keep_recent", lambda: plait.truncate_older_messages([], keep_recent="x")),
    ("keep_recent", lambda: plait.truncate_older_messages([], keep_recent=1.5)),
    ("max_text_chars", lambda: plait.truncate_older_messages([], max_text_chars=None)),
    ("tool_outputs", lambda: plait.truncate_older_messages([], tool_outputs="no")),
    ("messages", lambda: plait.truncate_older_messages(iter([plait.user("a")]))),
    ("messages", lambda: plait.truncate_older_messages(None)),
    ("messages[1]", lambda: plait.truncate_older_messages([plait.user("a"), 5])),
    ("max_bytes", lambda: plait.enforce_row_size(plait.user("a"), max_bytes="x")),
    ("message", lambda: plait.enforce_row_size(5, **SMALL)),
    ("message", lambda: plait.enforce_row_size(None, **SMALL)),
    ("messages", lambda: plait.legal_view(None)),
    ("messages", lambda: list(plait.legal_view([5]))),
    ("messages", lambda: list(plait.legal_view([plait.user("a")]))),
]


@pytest.mark.parametrize(("argument", "call"), WRONG)
def test_a_refusal_of_a_function_names_the_argument(argument: str, call: Callable[[], Any]) -> None:
    with pytest.raises(plait.UsageError) as caught:
        call()
    assert str(caught.value).startswith(argument)
