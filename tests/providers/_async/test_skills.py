"""Skills from several sources: the first with a name wins, and nothing that fails takes the others with it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plait import LimitError, UsageError
from plait.logic import providers as kinds
from plait.pauses import call_async
from plait.providers import AsyncSkills, documents, skill_content, skill_source

pytest.importorskip("yaml", reason="needs PyYAML: pip install 'plait[files]'")


def text(name: str, description: str = "Does it.", body: str = "Do it.", more: str = "") -> str:
    return f"---\nname: {name}\ndescription: {description}\n{more}---\n{body}\n"


PIRATE: dict[str, str | bytes] = {
    "SKILL.md": text("pirate", body="Arr."),
    "references/words.md": "Ahoy",
    "assets/flag.png": b"\x89",
}


def put(root: Path, files: dict[str, str | bytes]) -> Path:
    for path, content in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def _folder(tmp_path: Path) -> Any:
    return put(tmp_path / "skills", {f"pirate/{path}": content for path, content in PIRATE.items()})


def _bucket(tmp_path: Path) -> Any:
    fsspec = pytest.importorskip("fsspec")
    where = f"memory://{uuid.uuid4().hex}"
    fs, root = fsspec.core.url_to_fs(where)
    for path, content in PIRATE.items():
        fs.makedirs(f"{root}/pirate/{path}".rpartition("/")[0], exist_ok=True)
        fs.pipe_file(f"{root}/pirate/{path}", content if isinstance(content, bytes) else content.encode())
    return where


def _documents(tmp_path: Path) -> Any:
    block = documents(tmp_path)
    for path, content in PIRATE.items():
        if isinstance(content, str):
            block.set(f"pirate/{path}", content)
    return block


class Stored:
    """Documents as a store has them, behind methods of this face."""

    name = "stored"

    def __init__(self, files: dict[str, str]) -> None:
        self.files_ = files

    async def keys(self) -> list[str]:
        return list(self.files_)

    async def load(self, key: str) -> str | None:
        return self.files_.get(key)


def _stored(tmp_path: Path) -> Any:
    return Stored({f"pirate/{path}": content for path, content in PIRATE.items() if isinstance(content, str)})


def _manifest(tmp_path: Path) -> Any:
    return {"pirate": PIRATE}


MAKERS = [_folder, _bucket, _documents, _stored, _manifest]


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__[1:])
async def test_every_kind_of_source_gives_the_same_skills(make: Callable[[Path], Any], tmp_path: Path) -> None:
    skills = AsyncSkills(make(tmp_path))
    shown = await skills.get()
    assert shown is not None and shown.endswith("\n\n- pirate: Does it.")
    assert await skills.skill_names() == ["pirate"]
    activated = await skills.activate("pirate")
    assert activated is not None and activated.startswith('<skill_content name="pirate">\nArr.\n')
    assert '<file kind="reference" encoding="text" size="4">references/words.md</file>' in activated.replace(
        '"text">', '"text" size="4">'
    )
    read = await skills.read_resource("pirate", "references/words.md")
    assert (
        read is not None
        and "\nAhoy\n" in read
        and read == await skills.read_resource(None, "pirate/references/words.md")
    )
    assert skills.problems == ()
    assert await skills.activate("other") is None and await skills.read_resource("pirate", "absent.md") is None


def test_skills_are_agent_skills_and_nothing_else() -> None:
    block = AsyncSkills()
    assert kinds.is_agent_skills(block) and not kinds.is_keyed(block) and not kinds.is_writable(block)


async def test_without_skills_there_is_no_block() -> None:
    for skills in (
        AsyncSkills(),
        AsyncSkills({}),
        AsyncSkills({"a": text("a", more="disable-model-invocation: true\n")}),
    ):
        assert await skills.get() is None and await skills.skill_names() == []


async def test_binary_files_come_as_base64() -> None:
    shown = await AsyncSkills({"pirate": PIRATE}).read_resource("pirate", "assets/flag.png")
    assert shown is not None and 'encoding="base64"' in shown and "\niQ==\n" in shown


async def test_the_first_source_with_a_name_wins_and_the_rest_is_told() -> None:
    skills = AsyncSkills(
        {"a": text("a", "first")}, {"a": text("a", "second"), "b": text("b")}, {"c": text("a", "third")}
    )
    assert await skills.get() is not None
    assert [(skill.name, skill.description) for skill in await skills.skills()] == [("a", "first"), ("b", "Does it.")]
    told = [str(problem) for problem in skills.problems if problem.rejected]
    assert (
        len(told) == 2 and "manifest: a: a skill named 'a' is there already" in told[0] and "manifest: c: " in told[1]
    )


async def test_two_skills_of_one_source_with_a_name_go_by_path() -> None:
    skills = AsyncSkills({"b": text("same", "from b"), "a": text("same", "from a")})
    assert [skill.description for skill in await skills.skills()] == ["from a"]


class Failing:
    """A source whose methods do what they are told."""

    id = "failing"

    def __init__(self) -> None:
        self.now: dict[str, Any] = {"a/SKILL.md": text("a"), "a/x.md": "x"}
        self.error: Exception | None = None

    async def files(self) -> list[str]:
        if self.error:
            raise self.error
        return list(self.now)

    async def read(self, path: str) -> Any:
        content = self.now[path]
        if isinstance(content, Exception):
            raise content
        return content


async def test_a_failing_source_keeps_what_it_had_and_harms_no_other() -> None:
    source = Failing()
    skills = AsyncSkills(source, {"b": text("b")}, refresh_s=0)
    assert await skills.skill_names() == ["a", "b"]
    source.error = RuntimeError("away")
    assert await skills.skill_names() == ["a", "b"]
    assert [str(problem) for problem in skills.problems] == [
        "failing: the source failed: RuntimeError: away; the 1 skills it had before are kept"
    ]
    source.error = None
    assert await skills.skill_names() == ["a", "b"] and skills.problems == ()
    source.now = {}
    assert await skills.skill_names() == ["b"]


async def test_what_fails_is_logged_once_until_it_works_again(caplog: pytest.LogCaptureFixture) -> None:
    source = Failing()
    skills = AsyncSkills(source, {"a": text("a"), "b": "no front matter"}, refresh_s=0)
    for error in (None, None, RuntimeError("away\nfor now"), RuntimeError("still away"), None, OSError("away again")):
        source.error = error
        await skills.get()
    told = [record.getMessage() for record in caplog.records if record.name == "plait"]
    assert [one.partition(";")[0] for one in told] == [
        "skills: manifest: b: the file must begin with front matter: YAML between two lines of ---",
        "skills: failing: the source failed: RuntimeError: away for now",
        "skills: failing: the source failed: OSError: away again",
    ]


async def test_a_source_that_failed_from_the_start_is_only_a_diagnostic(tmp_path: Path) -> None:
    skills = AsyncSkills(tmp_path / "absent", {"b": text("b")})
    assert await skills.skill_names() == ["b"]
    assert "NotFoundError: there is no folder" in skills.problems[0].text and skills.problems[0].rejected


async def test_one_file_that_cannot_be_read_costs_only_itself() -> None:
    source = Failing()
    source.now["b/SKILL.md"] = text("b")
    skills = AsyncSkills(source, refresh_s=0)
    assert await skills.skill_names() == ["a", "b"]
    source.now["a/SKILL.md"] = OSError("torn")
    source.now["c/SKILL.md"] = OSError("torn")
    assert await skills.skill_names() == ["a", "b"]
    assert [problem.rejected for problem in skills.problems] == [False, True]


@pytest.mark.parametrize("junk", [None, 3, [3], [("a/SKILL.md",)], [None], "a/SKILL.md", {"a": 1}])
async def test_a_source_that_answers_junk_is_a_diagnostic(junk: Any) -> None:
    class Junk:
        id = "junk"

        async def files(self) -> Any:
            return junk

        async def read(self, path: str) -> Any:
            return junk

    skills = AsyncSkills(Junk(), {"b": text("b")})
    assert await skills.skill_names() == ["b"]


async def test_a_resource_that_cannot_be_read_is_a_sentence() -> None:
    source = Failing()
    skills = AsyncSkills(source)
    await skills.refresh()
    source.now["a/x.md"] = OSError("torn")
    assert await skills.read_resource("a", "x.md") == "The resource cannot be read now: a/x.md: OSError: torn"
    source.now["a/x.md"] = LimitError("large")
    assert await skills.read_resource("a", "x.md") == "The resource is too large to be read: a/x.md"
    source.now["a/x.md"] = None
    assert await skills.read_resource("a", "x.md") is None


async def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    put(tmp_path, {"a/SKILL.md": text("a", body="x" * 100), "b/SKILL.md": text("b"), "b/big.md": "x" * 100})
    skills = AsyncSkills(skill_source(tmp_path, id="mine", max_bytes=99))
    assert await skills.skill_names() == ["b"]
    assert str(skills.problems[0]).startswith("mine: a: SKILL.md cannot be read: LimitError")
    assert await skills.read_resource("b", "big.md") == "The resource is too large to be read: b/big.md"


HOSTILE = [
    "",
    "..",
    "../a/SKILL.md",
    "/etc/passwd",
    "a\\b",
    "x\0",
    "SKILL.md",
    "skill.md",
    ".git/config",
    "./x.md",
    "x//y",
    "\ud800",
]


@pytest.mark.parametrize("path", HOSTILE, ids=ascii)
async def test_a_hostile_path_is_a_sentence(path: str) -> None:
    skills = AsyncSkills({"a": {"SKILL.md": text("a"), "x.md": "x", ".git/config": "token"}})
    shown = await skills.read_resource("a", path)
    assert shown is not None and "cannot be used" in shown and "token" not in shown
    assert "token" not in ((await skills.read_resource(None, f"a/{path}")) or "")


@pytest.mark.parametrize("name", ["", None])
async def test_without_a_name_the_path_must_begin_with_one(name: str | None) -> None:
    shown = await AsyncSkills({"a": text("a")}).read_resource(name, "x.md")
    assert shown is not None and "must begin with that of a skill" in shown


@pytest.mark.parametrize("value", [None, 3, b"a", ["a"], {"a": 1}])
async def test_what_is_no_text_is_answered_and_not_raised(value: Any) -> None:
    skills = AsyncSkills({"a": text("a")})
    assert await skills.activate(value) is None
    shown = await skills.read_resource("a", value)
    assert shown is not None and "cannot be used" in shown
    other: Any = value or 1
    assert "not found" in str(await skills.read_resource(other, "x.md"))


async def test_a_hidden_skill_is_for_users_only() -> None:
    files = {"SKILL.md": text("a", more="disable-model-invocation: true\n"), "x.md": "x"}
    skills = AsyncSkills({"a": files})
    assert await skills.activate("a") is None
    assert await skills.read_resource("a", "x.md") == "Skill not found: a"
    found = await skills.skill("a")
    assert found is not None and "Do it." in skill_content(found)


async def test_only_the_wanted_names_are_there() -> None:
    skills = AsyncSkills({"a": text("a"), "b": text("b")}, names=["b"])
    assert await skills.skill_names() == ["b"] and await skills.activate("a") is None
    with pytest.raises(UsageError, match="some names"):
        AsyncSkills(names="ab")


async def test_only_folders_one_level_down_hold_skills(tmp_path: Path) -> None:
    good = text("a")
    put(tmp_path, {"SKILL.md": good, "a/SKILL.md": good, "b/deep/SKILL.md": text("deep"), ".git/SKILL.md": text("git")})
    put(tmp_path, {"c/skill.md": text("c"), "a/.DS_Store": "x", "a/node_modules/x.js": "x"})
    skills = AsyncSkills(tmp_path)
    assert await skills.skill_names() == ["a"]
    (found,) = await skills.skills()
    assert found.resources == () and found.directory == "a"
    assert [str(problem.text) for problem in skills.problems] == ["skill.md must be called SKILL.md"]


async def test_the_prompt_is_read_anew_and_the_rest_after_a_while(tmp_path: Path) -> None:
    skills = AsyncSkills(put(tmp_path, {"a/SKILL.md": text("a")}))
    assert await skills.skill_names() == ["a"]
    put(tmp_path, {"b/SKILL.md": text("b")})
    assert await skills.skill_names() == ["a"]
    shown = await skills.get()
    assert shown is not None and "- b: " in shown and await skills.skill_names() == ["a", "b"]


async def test_many_at_once_see_whole_listings(tmp_path: Path) -> None:
    skills = AsyncSkills(put(tmp_path, {f"s{n}/SKILL.md": text(f"s{n}") for n in range(10)}), refresh_s=0)

    async def names() -> list[str]:
        return await skills.skill_names()

    everyone = [names for _ in range(8)]
    for answered in [await call_async(one) for one in everyone]:
        assert answered == [f"s{n}" for n in range(10)]


@pytest.mark.parametrize("manifest", [{"a": 3}, {"a": {"SKILL.md": 3}}, {"a": None}])
def test_a_manifest_that_is_none_is_refused(manifest: Any) -> None:
    with pytest.raises(UsageError):
        AsyncSkills(manifest)


@pytest.mark.parametrize("source", [None, 3, b"x", object(), ""])
def test_what_is_no_source_is_refused(source: Any) -> None:
    with pytest.raises(UsageError):
        AsyncSkills(source)


async def test_a_manifest_cannot_name_a_path_outside() -> None:
    files = {"a": {"SKILL.md": text("a"), "../b/SKILL.md": text("b"), "x\0": "x"}, "../c": text("c")}
    skills = AsyncSkills(files)
    assert await skills.skill_names() == ["a"]
    assert (await skills.skills())[0].resources == ()
