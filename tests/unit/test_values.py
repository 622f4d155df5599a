"""What every value that users see promises: compared by content, never changed, shown field by field."""

from __future__ import annotations

import copy
import pickle

import msgspec
import pytest

import plait

VALUES: list[msgspec.Struct] = [
    plait.Attachment("0" * 64, "image/png", 3, "claim"),
    plait.Change("delete", "chat", ids=("a", "b")),
    plait.Damaged("a", 1, "user", None, "its text is damaged"),
    plait.Finding("slice", "one too many", fixed=True),
    plait.Imported("chat", created=True, inserted=2, existing=0),
    plait.RetentionPlan([("chat", "age")], dry_run=True),
    plait.SessionPage([], None),
    plait.Totals(3, 100, 20, 2, 60, 12),
    plait.Window([], truncated=False, total_messages=0, total_bytes=0, total_tokens=0),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_equals_a_copy_of_itself_and_nothing_else(value: msgspec.Struct) -> None:
    assert copy.deepcopy(value) == value == pickle.loads(pickle.dumps(value))
    fields = msgspec.structs.asdict(value)
    assert value != fields and value != tuple(fields.values())
    assert type(value)(**fields) == value


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_is_never_changed(value: msgspec.Struct) -> None:
    for name in (*value.__struct_fields__, "other"):
        with pytest.raises(AttributeError):
            setattr(value, name, None)


def test_a_value_shows_its_fields() -> None:
    assert repr(plait.Finding("slice", "gone")) == "Finding(kind='slice', detail='gone', fixed=False)"


def test_a_value_without_lists_can_be_a_key() -> None:
    assert {plait.Totals(1, 2, 3): "here"}[plait.Totals(1, 2, 3)] == "here"


def test_an_attachment_does_not_show_its_claim() -> None:
    shown = repr(plait.Attachment("0" * 64, "image/png", 3, "claim"))
    assert "claim" not in shown and "image/png" in shown
