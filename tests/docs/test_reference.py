"""The reference says what is there: every public name, every signature, every attribute, every error."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

import plait
from plait import formats, mcp, providers
from plait.testing import faults
from tests.docs.pages import DOCS, blocks, headings

API, ERRORS = DOCS / "reference" / "api.md", DOCS / "reference" / "errors.md"
CLASSES = [item for name in plait.__all__ if inspect.isclass(item := getattr(plait, name))]
ERROR_CLASSES = [item for item in CLASSES if issubclass(item, plait.PlaitError)]
VALUES = [item for item in CLASSES if item not in ERROR_CLASSES and not item.__name__.startswith("Async")]
FUNCTIONS = [item for name in plait.__all__ if inspect.isfunction(item := getattr(plait, name))]


def signature(function: Any) -> str:
    """A function as the reference writes it: without the types of its arguments."""
    found = inspect.signature(function)
    bare = [item.replace(annotation=inspect.Parameter.empty) for item in found.parameters.values()]
    plain = found.replace(
        parameters=[item for item in bare if item.name != "self"], return_annotation=inspect.Signature.empty
    )
    result = found.return_annotation
    return f"{function.__name__}{plain}" + ("" if result is inspect.Signature.empty else f" -> {result}")


def methods(cls: type) -> Iterator[Any]:
    """The public methods that a class defines itself."""
    for name, item in vars(cls).items():
        if inspect.isfunction(item) and not name.startswith("_"):
            yield item


def written_signatures() -> set[str]:
    """The signatures of the reference: its blocks marked `text`, one to a line or wrapped."""
    texts = [re.sub(r"\n +", " ", block.code).replace("( ", "(") for block in blocks(API) if block.language == "text"]
    return {line for text in texts for line in text.splitlines()}


@pytest.mark.parametrize("name", plait.__all__)
def test_every_public_name_has_its_place_in_the_reference(name: str) -> None:
    assert f"`{name}`" in API.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "item", [*FUNCTIONS, *(m for cls in VALUES for m in methods(cls))], ids=lambda i: i.__qualname__
)
def test_every_signature_is_written_as_it_is(item: Any) -> None:
    assert signature(item) in written_signatures()


@pytest.mark.parametrize("cls", VALUES, ids=lambda cls: cls.__name__)
def test_every_attribute_is_named_in_the_reference(cls: type) -> None:
    names = set(cls.__struct_fields__) if issubclass(cls, msgspec.Struct) else set[str]()
    names |= {name for name, item in vars(cls).items() if isinstance(item, property)}
    names = {name for name in names if not name.startswith("_")}
    text = API.read_text(encoding="utf-8")
    section = text[text.index(f"### `{cls.__name__}`") :].split("\n### ", 1)[0]
    assert sorted(name for name in names if f"`{name}" not in section) == []


PUBLIC = [*CLASSES, *(item for name in faults.__all__ if inspect.isclass(item := getattr(faults, name)))]


@pytest.mark.parametrize("cls", PUBLIC, ids=lambda cls: cls.__name__)
def test_everything_public_of_a_class_has_a_docstring(cls: type) -> None:
    found = {name: getattr(item, "fget", item) for name, item in vars(cls).items() if not name.startswith("_")}
    assert [name for name, item in found.items() if inspect.isfunction(item) and not item.__doc__] == []


def test_nothing_is_written_that_is_not_there() -> None:
    known = {signature(item) for item in (*FUNCTIONS, *(m for cls in VALUES for m in methods(cls)))}
    assert sorted(written_signatures() - known) == []


@pytest.mark.parametrize("cls", ERROR_CLASSES, ids=lambda cls: cls.__name__)
def test_every_error_has_a_heading_and_its_facts(cls: type[plait.PlaitError]) -> None:
    text = ERRORS.read_text(encoding="utf-8")
    assert f"`{cls.__name__}`" in headings(ERRORS)
    section = text[text.index(f" `{cls.__name__}`\n") :].split("\n#", 1)[0]
    facts = [name for name in vars(cls) if not name.startswith("_") and name != "retryable"]
    assert [name for name in facts if f"`{name}`" not in section] == []


def test_the_reference_says_which_errors_can_be_retried() -> None:
    text = ERRORS.read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith("Retryable:"))
    assert sorted(re.findall(r"`(\w+Error)`", line)) == sorted(cls.__name__ for cls in ERROR_CLASSES if cls.retryable)


@pytest.mark.parametrize(("one", "other"), [(plait.Session, plait.AsyncSession), (plait.Sessions, plait.AsyncSessions)])
def test_both_faces_take_the_same(one: type, other: type) -> None:
    def shape(cls: type) -> dict[str, list[tuple[str, object, object]]]:
        return {
            item.__name__: [(p.name, p.kind, repr(p.default)) for p in inspect.signature(item).parameters.values()]
            for item in methods(cls)
        }

    assert shape(one) == shape(other)


@pytest.mark.parametrize("name", providers.__all__)
def test_every_provider_has_its_place_on_its_page(name: str) -> None:
    assert re.search(rf"`{name}\b", (DOCS / "reference" / "providers.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "item", [item for name in providers.__all__ if inspect.isfunction(item := getattr(providers, name))]
)
def test_a_function_of_the_providers_is_written_as_it_is(item: Any) -> None:
    written = f"`{signature(item).partition(' -> ')[0]}`".replace("'", '"')
    assert written in (DOCS / "reference" / "providers.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", mcp.__all__)
def test_every_part_of_the_mcp_server_has_its_place_on_its_page(name: str) -> None:
    assert re.search(rf"`{name}\b", (DOCS / "howto" / "mcp.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("format", formats.FORMATS, ids=lambda format: format.name)
def test_every_format_has_its_row(format: plait.Format) -> None:
    rows = (DOCS / "reference" / "adapters.md").read_text(encoding="utf-8")
    module = type(format).__module__.removeprefix("plait.").replace(".", "/")
    assert re.search(rf"^\| `{format.name}` \| .+ \| `{module}\.py` \|$", rows, re.MULTILINE)
