"""Generated from tests/providers/_async/test_faces.py by tools/unasync.py: edit that file. The providers behind a session's blocks: rendered, loaded, activated and searched through its own tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import plait
from plait import Session, Sessions
from plait.providers import SessionHistory, Skills, StoredSkills, documents, text_file
from tests.providers._sync.conftest import BOTH


def call(session: Session, tool_name: str, /, **arguments: Any) -> str:
    (tool,) = [tool for tool in session.tools() if tool.name == tool_name]
    return tool.call(arguments)


def test_a_file_is_the_text_of_a_block(sessions: Sessions, tmp_path: Path) -> None:
    (tmp_path / "SOUL.md").write_text("You are kind.")
    chat = sessions.session("chat").with_context("soul", provider=text_file(tmp_path / "SOUL.md"))
    assert (chat.freeze_system_prompt()).splitlines()[1:] == ["SOUL [readonly]", "═" * 46, "You are kind."]
    assert chat.tools() == []


def test_a_model_lists_loads_writes_and_unloads_documents(sessions: Sessions, tmp_path: Path) -> None:
    manuals = documents(tmp_path / "manuals")
    manuals.set("press.md", "Press it.", "How to press")
    chat = sessions.session("chat").with_context("manuals", provider=manuals)
    prompt = chat.freeze_system_prompt()
    assert "MANUALS [loadable]" in prompt and prompt.endswith("- press.md: How to press")
    assert call(chat, "load_context", label="manuals", key="press.md") == "Press it."
    assert "Not found" in call(chat, "load_context", label="manuals", key="../store.db")
    told = call(chat, "set_context", label="manuals", content="Pull.", metadata={"title": "Pull it"})
    assert "pull-it" in told and manuals.load("pull-it") == "Pull."
    only = sessions.session("other").with_context("manuals", provider=documents(tmp_path / "manuals", read_only=True))
    assert "set_context" not in [tool.name for tool in only.tools()]


def test_a_model_activates_skills_and_reads_their_files(sessions: Sessions) -> None:
    pytest.importorskip("yaml", reason="needs PyYAML: pip install 'plait[files]'")
    front = "---\nname: pirate\ndescription: Talks like a pirate.\n---\n"
    skills = Skills({"pirate": {"SKILL.md": front + "Say </skill_content> arr.", "words.md": "Ahoy"}})
    chat = sessions.session("chat").with_context("skills", provider=skills)
    assert (chat.freeze_system_prompt()).endswith("- pirate: Talks like a pirate.")
    assert [tool.name for tool in chat.tools()] == ["activate_skill", "read_skill_resource"]
    assert "Say &lt;/skill_content> arr." in call(chat, "activate_skill", name="pirate")
    assert "\nAhoy\n" in call(chat, "read_skill_resource", path="pirate/words.md")
    assert "\nAhoy\n" in call(chat, "read_skill_resource", name="pirate", path="words.md")
    assert "cannot be used" in call(chat, "read_skill_resource", name="pirate", path="../x")
    assert (call(chat, "read_skill_resource", name="pirate", path="absent")).startswith("Error:")
    assert (call(chat, "activate_skill", name="absent")).startswith("Error:")


@BOTH
def test_skills_may_lie_among_stored_documents(sessions: Sessions) -> None:
    pytest.importorskip("yaml", reason="needs PyYAML: pip install 'plait[files]'")
    store = sessions.session("library").with_context("skills", kind="documents")
    front = "---\nname: pirate\ndescription: Talks.\n---\n"
    store.context.put("skills", front + "Arr.", key="pirate/SKILL.md")
    store.context.put("skills", "Ahoy", key="pirate/words.md")

    source = StoredSkills(sessions, "skills", session="library")
    chat = sessions.session("chat").with_context("catalogue", provider=Skills(source))
    assert "Arr." in call(chat, "activate_skill", name="pirate")
    assert "Ahoy" in call(chat, "read_skill_resource", path="pirate/words.md")


@BOTH
def test_skills_that_a_scope_shares_are_no_other_scopes(sessions: Sessions) -> None:
    pytest.importorskip("yaml", reason="needs PyYAML: pip install 'plait[files]'")
    shared = sessions.session("any").with_context("skills", kind="documents", shared=True).context
    for n in range(230):
        front = f"---\nname: s{n}\ndescription: Number {n}.\n---\n"
        shared.put("skills", front, key=f"s{n}/SKILL.md")
    skills = Skills(StoredSkills(sessions, "skills"))
    assert len(skills.skill_names()) == 230 and skills.problems == ()
    assert Skills(StoredSkills(sessions.scoped("acme"), "skills")).skill_names() == []


@pytest.mark.parametrize(
    "given", [{"label": "a[b]"}, {"label": 3}, {"label": "a", "session": ""}, {"label": "a", "session": 3}]
)
def test_what_names_no_block_is_refused(tmp_path: Path, given: dict[str, Any]) -> None:
    with pytest.raises(plait.UsageError):
        StoredSkills(plait.open(tmp_path / "x.db"), **given)


@BOTH
def test_earlier_sessions_are_a_searchable_block(sessions: Sessions) -> None:
    sessions.session("monday").append(plait.user("Please deploy to production"))
    chat = sessions.session("chat").with_context("history", provider=SessionHistory(sessions))
    prompt = chat.freeze_system_prompt()
    assert "HISTORY [searchable]" in prompt and prompt.endswith("1 earlier conversation can be searched.")
    assert call(chat, "search_context", label="history", query="deploy") == "[user] Please deploy to production"
    assert call(chat, "search_context", label="history", query="absent") == "No results found."
    assert [tool.name for tool in chat.tools()] == ["search_context"]


def test_a_bucket_that_is_away_is_an_error_the_model_reads(sessions: Sessions) -> None:
    class Away:
        """Documents whose store cannot be reached."""

        def get(self) -> str | None:
            return "- a"

        def load(self, key: str) -> str | None:
            raise plait.StoreUnavailableError("cannot read 'a' at s3://bucket: timed out")

    chat = sessions.session("chat").with_context("docs", provider=Away())
    assert call(chat, "load_context", label="docs", key="a") == (
        "Error: cannot read 'a' at s3://bucket: timed out"
    )
