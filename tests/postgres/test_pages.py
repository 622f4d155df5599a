"""Pages are measured by the server before they are sent: no more than the page comes."""

from __future__ import annotations

import ast
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import plait
from plait.store import plans
from plait.store.plans import records, values
from plait.store.postgres._sync.executor import Executor
from plait.store.postgres.statements import load
from plait.store.protocol import Scope, SessionRef

MIB = 1 << 20
REF = SessionRef(Scope("", ""), "chat")


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How large the answers to statements were from now on."""
    sizes: list[int] = []
    shown = Executor._shown

    def noting(executor: Executor, statement: Any, rows: list[Any]) -> list[Any]:
        sizes.append(sum(len(value) for row in rows for value in row if isinstance(value, bytes | str)))
        return shown(executor, statement, rows)

    monkeypatch.setattr(Executor, "_shown", noting)
    return sizes


@pytest.mark.parametrize("last_first", [False, True])
def test_a_page_of_records_is_all_that_is_fetched(
    sessions: plait.Sessions, fetched: list[int], last_first: bool
) -> None:
    chat = sessions.session("chat")
    for n in range(12):
        chat.write_records({bytes([n]): bytes(MIB)})
    driver: Any = sessions.store.driver  # type: ignore[attr-defined]
    fetched.clear()
    page = driver.read(partial(records.listing, REF, b"\0", b"\xff", 1000, last_first=last_first))
    assert [key[0] for key, _ in page] == (list(range(12))[::-1] if last_first else list(range(12)))[:4]
    assert max(fetched) <= records.BUDGET_BYTES + 1000
    chat.write_records({b"\x05": bytes(6 * MIB)})
    fetched.clear()
    page = driver.read(partial(records.listing, REF, b"\x05", b"\xff", 1000, last_first=False))
    assert [(key[0], len(body)) for key, body in page] == [(5, 6 * MIB)], "at least one"
    assert max(fetched) <= 6 * MIB + 1000


@pytest.mark.parametrize("prefix", ["", "k"])
def test_a_page_of_values_is_all_that_is_fetched(sessions: plait.Sessions, fetched: list[int], prefix: str) -> None:
    chat = sessions.session("chat").with_context("pile", kind="collection")
    for n in range(9):
        chat.context.put("pile", f"{n}" * 400_000, key=f"k{n}")
    driver: Any = sessions.store.driver  # type: ignore[attr-defined]
    fetched.clear()
    page = driver.read(partial(values.listing, REF, "pile", None, 100, prefix, MIB))
    assert [value.key for value in page] == ["k0", "k1", "k2"]
    assert max(fetched) < 3 * 400_000 + 5000


def test_what_is_not_measured_by_the_server_has_no_bodies() -> None:
    asked = set[str]()
    for path in Path(plans.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and "budget_bytes" in {keyword.arg for keyword in node.keywords}:
                asked |= {
                    word.value
                    for word in ast.walk(node)
                    if isinstance(word, ast.Constant) and isinstance(word.value, str)
                }
    named = [load()[name] for name in asked if name in load()]
    assert len(named) >= 6
    unmeasured = {statement.name for statement in named if "budget" not in statement.given}
    assert unmeasured and not any(re.search(r"\bbody\b", load()[name].text) for name in unmeasured)
