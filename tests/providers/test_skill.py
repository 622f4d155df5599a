"""A SKILL.md is read by the rules of agentskills.io: what bends them warns, what breaks them rejects."""

from __future__ import annotations

import pytest

from plait.providers import Skill, parse_skill
from plait.providers.front_matter import MAX_FRONT_MATTER_CHARS

pytest.importorskip("yaml", reason="needs PyYAML: pip install 'plait[files]'")


def text(front: str, body: str = "Do it.") -> str:
    return f"---\n{front}\n---\n{body}\n"


def parsed(front: str, directory: str = "") -> tuple[Skill, list[str]]:
    """The skill and its warnings; fails if it is rejected."""
    skill, problems = parse_skill(text(front), directory=directory, source="here")
    assert skill is not None, problems
    assert not any(problem.rejected for problem in problems)
    return skill, [problem.text for problem in problems]


def rejected(whole: str) -> str:
    """Why there is no skill."""
    skill, problems = parse_skill(whole, directory="d", source="here")
    assert skill is None and problems[-1].rejected and str(problems[-1]).startswith("here: d: ")
    return problems[-1].text


def test_every_field_is_read() -> None:
    skill, warnings = parsed(
        "name: pdf-forms\ndescription: >\n  Fills forms.\n  Use for PDFs.\nlicense: MIT\ncompatibility: Needs qpdf\n"
        "allowed-tools: Bash(git add:*) Read,Write\nmetadata:\n  author: me\n  version: 1.10\n  fine: true\nx-mine: [1, two]",
        "pdf-forms",
    )
    assert warnings == []
    assert (skill.name, skill.description, skill.body) == ("pdf-forms", "Fills forms. Use for PDFs.", "Do it.")
    assert (skill.license, skill.compatibility, skill.source) == ("MIT", "Needs qpdf", "here")
    assert skill.allowed_tools == ("Bash(git add:*)", "Read", "Write")
    assert skill.metadata == {"author": "me", "version": "1.10", "fine": "true"}
    assert skill.extra == {"x-mine": [1, "two"]}
    assert not skill.hidden


def test_allowed_tools_may_be_a_list() -> None:
    assert parsed("name: a\ndescription: b\nallowed-tools:\n  - Bash(jq:*)\n  - Read")[0].allowed_tools == (
        "Bash(jq:*)",
        "Read",
    )


@pytest.mark.parametrize("ends", ["\r\n", "\n", "\r"])
def test_line_ends_of_every_system_and_a_byte_order_mark_are_taken(ends: str) -> None:
    whole = "\ufeff---\nname: a\ndescription: b\n---\nBody\n"
    skill, _ = parse_skill(whole.replace("\n", ends))
    assert skill is not None
    assert (skill.name, skill.description, skill.body) == ("a", "b", "Body")


def test_dashes_in_the_body_do_not_end_it() -> None:
    skill, _ = parse_skill("---\nname: a\ndescription: b\n---\none\n---\ntwo\n")
    assert skill is not None and skill.body == "one\n---\ntwo"


@pytest.mark.parametrize(
    ("front", "told"),
    [
        ("name: " + "a" * 65 + "\ndescription: d", "more than 64"),
        ("name: Upper\ndescription: d", "lower-case letters"),
        ("name: under_score\ndescription: d", "lower-case letters"),
        ("name: with blank\ndescription: d", "lower-case letters"),
        ("name: -edge\ndescription: d", "hyphen"),
        ("name: edge-\ndescription: d", "hyphen"),
        ("name: two--hyphens\ndescription: d", "hyphen"),
        ("name: other\ndescription: d", "not that of its directory"),
        ("name: a\ndescription: " + "d" * 1025, "more than 1,024"),
        ("name: a\ndescription: d\ncompatibility: " + "c" * 501, "not 1 to 500"),
        ("name: a\ndescription: d\ncompatibility: ''", "not 1 to 500"),
        ("name: a\ndescription: d\ncompatibility: [a]", "compatibility must be text"),
        ("name: a\ndescription: d\nlicense: {a: b}", "license must be text"),
        ("name: a\ndescription: d\nmetadata: text", "metadata must be fields"),
        ("name: a\ndescription: d\nmetadata: [a]", "metadata must be fields"),
        ("name: a\ndescription: d\nmetadata: {a: [1, 2]}", "kept as JSON"),
        ("name: a\ndescription: d\nallowed-tools: {a: b}", "allowed-tools must be names"),
        ("name: a\ndescription: c\ndescription: d", "given twice"),
        ("name: a\ndescription: d\n[1]: 2", "a key that is not text"),
    ],
)
def test_a_bent_rule_is_a_warning(front: str, told: str) -> None:
    directory = "here" if "not that of" in told else ""
    skill, warnings = parsed(front, directory)
    assert [told in warning for warning in warnings].count(True) == 1, warnings
    assert skill.description.startswith("d")


@pytest.mark.parametrize("name", ["ａｂ", "ﬁle", "größe", "用户", "a1-2"])
def test_names_are_compared_in_one_unicode_form(name: str) -> None:
    skill, warnings = parsed(f"name: {name}\ndescription: d", name)
    assert warnings == [] and skill.name in {"ab", "file", "größe", "用户", "a1-2"}


@pytest.mark.parametrize(
    ("whole", "told"),
    [
        ("", "must begin with front matter"),
        ("# Title\n---\nname: a\n---\n", "must begin with front matter"),
        ("---\nname: a\ndescription: d\n", "not closed"),
        ("---\nname: a\n---\nbody", "needs a description"),
        ("---\nname: a\ndescription: '  '\n---\n", "needs a description"),
        ("---\nname: a\ndescription: [x]\n---\n", "needs a description"),
        ("---\ndescription: d\n---\n", "needs a name"),
        ("---\nname: [a]\ndescription: d\n---\n", "needs a name"),
        ("---\nname: ''\ndescription: d\n---\n", "cannot be used"),
        ("---\nname: a/b\ndescription: d\n---\n", "cannot be used"),
        ('---\nname: "a\\nb"\ndescription: d\n---\n', "cannot be used"),
        ('---\nname: "a\\u202eb"\ndescription: d\n---\n', "cannot be used"),
        ("---\n- a\n- b\n---\n", "must be fields"),
        ("---\n---\n", "must be fields"),
        ("---\nname: [unclosed\ndescription: d\n---\n", "not YAML"),
        ("---\nname: a\n\tdescription: d\n---\n", "not YAML"),
        ("---\nname: a\x00\ndescription: d\n---\n", "not YAML"),
        ("---\nname: a\ud800\ndescription: d\n---\n", "not YAML"),
        ("---\nname: a\ndescription: d\nx: " + "[" * 5000 + "\n---\n", "nested too deeply"),
        ("---\nname: a\ndescription: d\nx: " + "[" * 90 + "]" * 90 + "\n---\n", "nested too deeply"),
        ("---\nname: a\ndescription: " + "d" * MAX_FRONT_MATTER_CHARS + "\n---\n", "longer than"),
    ],
    ids=lambda value: ascii(value[:40]),
)
def test_few_things_reject(whole: str, told: str) -> None:
    assert told in rejected(whole)


def test_aliases_that_multiply_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert "too many values" in rejected(text("name: a\ndescription: d\n" + "\n".join(lines)))
    assert "nested too deeply" in rejected(text("name: a\ndescription: d\nx: &x [*x]"))


def test_no_tag_makes_an_object() -> None:
    skill, _ = parsed("name: a\ndescription: d\nx: !!python/object/apply:os.system ['exit 1']\nwhen: 2024-01-01")
    assert skill.extra == {"x": ["exit 1"], "when": "2024-01-01"}


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("description: Use when: the user asks", "Use when: the user asks"),
        ("description: It's this: that", "It's this: that"),
        ("description: ends with a colon:", "ends with a colon:"),
        ('description: say "a: b" twice', 'say "a: b" twice'),
    ],
)
def test_an_unquoted_colon_is_mended(line: str, value: str) -> None:
    skill, warnings = parsed(f"name: a\n{line}\nmetadata:\n  more: so: it is")
    assert skill.description == value and skill.metadata == {"more": "so: it is"}
    assert ["not quoted" in warning for warning in warnings] == [True]


def test_what_is_broken_otherwise_is_not_mended() -> None:
    assert "not YAML" in rejected(text("name: a\ndescription: b: c\nx: [unclosed"))


@pytest.mark.parametrize(
    ("line", "hidden"),
    [
        ("disable-model-invocation: true", True),
        ("disable-model-invocation: 'True'", True),
        ("disable-model-invocation: false", False),
        ("disable-model-invocation: [true]", False),
        ("metadata:\n  disable-model-invocation: true", True),
        ("x: y", False),
    ],
)
def test_a_skill_can_hide_itself_from_models(line: str, hidden: bool) -> None:
    skill, _ = parsed(f"name: a\ndescription: d\n{line}")
    assert skill.hidden is hidden and "disable-model-invocation" not in skill.extra


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("1", 1), ("-2.5e3", -2500.0), ("true", True), ("null", None), ("~", None), ("", None), ("yes", "yes"), ("'1'", "1"),
        ("1_000", "1_000"), ("0x10", "0x10"), ("12:30:00", "12:30:00"), ("1e999", "1e999"), ("<<", "<<"), ("007", "007"),
        ("{a: {b: [1]}}", {"a": {"b": [1]}}),
    ],
)  # fmt: skip
def test_unknown_fields_are_kept_as_yaml_core_values(written: str, meant: object) -> None:
    assert parsed(f"name: a\ndescription: d\nx: {written}")[0].extra == {"x": meant}
