"""Plans stepped by hand: what each operation asks of a database, counted without one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from plait.errors import LimitError, NotFoundError, SessionDeletedError
from plait.logic.strands import MAX_SEQ, MAX_STRAND, key_of
from plait.model import LEAF, Parent
from plait.store.plan import Ask, Bind, Claim, Do, Head, Plan, Put, Step, Take
from plait.store.plans import append, change, common, read
from plait.store.plans.common import Mark
from plait.store.protocol import NewMessage, Path, Range, Scope, SessionRef

MARK = Mark(60_000_000, "operation")
Answers = Callable[[Step], Any]


def head(**changes: Any) -> Head:
    """The row of a session with ten messages in strand 7, its leaf known."""
    fields: dict[str, Any] = {
        "session": 1,
        "incarnation": 3,
        "live": 1,
        "next_seq": 11,
        "leaf": key_of(7, 10),
        "version": 10,
        "epoch": 0,
        "messages": 10,
        "bytes": 1000,
        "tokens": 100,
        "path_messages": 10,
        "path_bytes": 1000,
        "path_tokens": 100,
        "created_at_us": 0,
        "active_at_us": 60_000_000,
        "located": True,
        "leaf_id": "m10",
        "tip": True,
    }
    return Head(**{**fields, **changes})


def message(id: str = "new", *, made: bool = True) -> NewMessage:
    body = f'{{"id":"{id}","role":"user","parts":[]}}'
    return NewMessage(id, "user", "plait", body, len(body), 4, MARK.at_us, made_id=made)


def run(plan: Plan[Any], answer: Answers) -> tuple[Any, list[Step]]:
    """A plan's result and the steps it took."""
    steps: list[Step] = []
    value: Any = None
    try:
        while True:
            steps.append(plan.send(value))
            value = answer(steps[-1])
    except StopIteration as end:
        return end.value, steps


def answering(session: Head | None, **rows: list[Any]) -> Answers:
    """Answers by query name; no rows for any other."""

    def answer(step: Step) -> Any:
        if isinstance(step, Take):
            return session
        if isinstance(step, Ask | Do):
            return rows.get(step.query, [])
        return None

    return answer


def appending(session: Head, *new: NewMessage, parent: Parent = LEAF, **rows: list[Any]) -> tuple[Any, list[Step]]:
    plan = append.append(
        SessionRef(Scope(), "s"),
        new,
        MARK,
        parent=parent,
        expect=None,
        kind="append",
        activate=True,
        refuse_other=False,
    )
    return run(plan, answering(session, **rows))


def kinds(steps: list[Step]) -> list[str]:
    return [type(step).__name__ for step in steps]


def test_an_append_to_a_known_leaf_asks_nothing() -> None:
    session = head()
    (written,), steps = appending(session, message())
    assert kinds(steps) == ["Take", "Bind", "Put", "Put"]
    assert (written.message.seq, written.message.parent_id) == (11, "m10")
    assert (session.leaf, session.next_seq, session.version, session.messages) == (key_of(7, 11), 12, 11, 11)


def test_a_given_id_costs_one_claim_more() -> None:
    _, steps = appending(head(), message(made=False))
    assert kinds(steps) == ["Take", "Bind", "Claim", "Put", "Put"]


def test_a_batch_costs_two_inserts_a_message() -> None:
    _, steps = appending(head(), *[message(str(n)) for n in range(5)])
    assert kinds(steps) == ["Take", "Bind"] + ["Put"] * 10


def test_a_branch_costs_one_strand() -> None:
    rows: dict[str, list[Any]] = {"find_message": [(key_of(7, 4),)], "last_in_range": [(key_of(7, 10), "m10")]}
    rows |= {"next_number": [(8,)], "find_strand": [(7, 0, 0)], "range_totals": [(6, 600, 60)]}
    session = head()
    (written,), steps = appending(session, message(), parent="m4", **rows)
    puts = [step for step in steps if isinstance(step, Put)]
    assert [put.query for put in puts] == ["add_strand", "add_message_id", "add_message"]
    assert puts[0].rows == [(8, 3, 7, 4)]
    assert written.message.parent_id == "m4"
    assert (session.path_messages, session.path_bytes) == (5, 400 + message().bytes), "what lay beyond is off the path"


def test_an_unknown_parent_stops_the_plan_before_it_writes() -> None:
    steps: list[Step] = []
    with pytest.raises(NotFoundError, match="'nobody'"):
        appending(head(), message(), parent="nobody")
    assert not [step for step in steps if isinstance(step, Put | Do)]


@pytest.mark.parametrize("parent", [LEAF, None, "m4", "nobody"])
def test_an_id_that_is_there_leaves_the_session_as_it_was_and_asks_for_no_parent(parent: Parent) -> None:
    session = head(located=False)
    body = message("m10", made=False).body
    row = (key_of(7, 10), "m10", "user", len(body), 4, 0, 0, "", body)

    def answer(step: Step) -> Any:
        if isinstance(step, Claim):
            return key_of(7, 10)
        return answering(session, message_by_key=[row])(step)

    plan = append.append(
        SessionRef(Scope(), "s"),
        [message("m10", made=False)],
        MARK,
        parent=parent,
        expect=None,
        kind="append",
        activate=True,
        refuse_other=False,
    )
    (written,), steps = run(plan, answer)
    assert (written.inserted, written.differs, session.changed) == (False, False, False)
    assert not [step for step in steps if isinstance(step, Put | Do)]
    assert not [step for step in steps if isinstance(step, Ask) and step.query == "find_message"]


def test_the_last_seq_is_the_last() -> None:
    with pytest.raises(LimitError, match="import it as another"):
        appending(head(next_seq=MAX_SEQ + 1), message())


def test_the_last_strand_is_the_last() -> None:
    with pytest.raises(LimitError, match="strands"):
        appending(head(tip=False), message(), next_number=[(MAX_STRAND + 1,)])


def test_a_ref_of_another_life_is_refused_and_knows_it() -> None:
    ref = SessionRef(Scope(), "s", incarnation=2)
    with pytest.raises(SessionDeletedError):
        run(change.checkout(ref, "m1", MARK), answering(head()))
    assert ref.over


def test_a_plan_can_be_begun_again_from_its_first_step() -> None:
    ref = SessionRef(Scope(), "s")
    first = change.checkout(ref, "m4", MARK)
    assert isinstance(first.send(None), Take)
    first.close()
    found = {"find_message": [(key_of(7, 4),)], "find_strand": [(7, 0, 0)], "range_totals": [(6, 600, 60)]}
    moved, steps = run(change.checkout(ref, "m4", MARK), answering(head(), **found))
    assert moved and kinds(steps)[:2] == ["Take", "Bind"]


def test_a_window_of_a_straight_path_is_one_range_and_one_look_for_its_parent() -> None:
    path = Path(3, 10, "m10", (Range(7, 1, 10),))
    rows = [(key_of(7, n), f"m{n}", "user", 2, 0, 0, 0, "", b"{}") for n in (5, 6, 7)]
    plan = read.load(
        SessionRef(Scope(), "s"),
        path,
        after_seq=4,
        before_seq=None,
        newest_first=False,
        limit=3,
        budget_bytes=1 << 20,
    )
    found, steps = run(plan, answering(head(), messages_up=rows, last_in_range=[(key_of(7, 4), "m4")]))
    assert [(row.id, row.parent_id) for row in found] == [("m5", "m4"), ("m6", "m5"), ("m7", "m6")]
    asked = [step.query for step in steps if isinstance(step, Ask)]
    assert asked == ["messages_up", "last_in_range"]


def test_totals_of_a_known_path_read_no_row() -> None:
    _, steps = run(read.totals(SessionRef(Scope(), "s"), read.Counted()), answering(head()))
    assert kinds(steps) == ["Take", "Bind"]


def test_binding_is_left_to_the_driver() -> None:
    ref = SessionRef(Scope(), "s")
    _, steps = run(read.totals(ref, read.Counted()), answering(head()))
    assert ref.incarnation is None
    assert [step for step in steps if isinstance(step, Bind)] == [Bind(ref, 3)]


def test_a_handle_that_another_thread_binds_meanwhile_is_not_taken_for_a_deleted_session() -> None:
    """The first write of another thread: it committed after this one had looked, and had bound the handle they share."""
    ref = SessionRef(Scope(), "new")
    plan = common.take(ref)
    assert next(plan) == Take(ref)
    ref.incarnation = 5
    with pytest.raises(StopIteration) as ended:
        plan.send(None)
    assert ended.value.value is None and not ref.over
