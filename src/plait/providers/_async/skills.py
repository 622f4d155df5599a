"""Agent Skills from several sources: which there are, and what a model gets when it asks for one."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Any, Final, cast

from plait.errors import LimitError, UsageError
from plait.logic import prompt
from plait.pauses import call_async
from plait.providers.paths import is_ignored, path_problem
from plait.providers.skill import (
    SKILL_FILE,
    Skill,
    SkillProblem,
    SkillResource,
    parse_skill,
    resource,
    resource_problem,
)
from plait.providers.skill_text import skill_content, skill_resource, skills_prompt
from plait.providers.sources import SkillSource, skill_source

log = logging.getLogger("plait")
REFRESH_S: Final = 60.0


class AsyncSkills:
    """Agent Skills as a block of the prompt, with what `activate_skill` and `read_skill_resource` answer.

    `sources` are what `skill_source` takes: paths, URLs, file systems, manifests, documents, sources. Of two
    skills with one name the one from the earlier source counts, and within a source the first by path. `names`
    (none: all) limits which are there. A source that fails keeps the skills it had; that, what is wrong with a skill
    and what was passed over are in `problems`, and nothing of it is ever raised; a source that fails and a skill that
    cannot be had are warned of in the log, once until they are there again.

    `get` reads the sources anew; everything else does so if they were last read more than `refresh_s` ago.
    """

    def __init__(self, *sources: Any, names: Iterable[str] = (), refresh_s: float = REFRESH_S) -> None:
        if isinstance(names, str):
            raise UsageError("names must be some names, not one text: write names=['pirate']")
        self._sources = [skill_source(source) for source in sources]
        self._only = frozenset(names)
        self._refresh_s = refresh_s
        self._before: list[dict[str, Skill]] = [{} for _ in self._sources]
        self._skills: dict[str, tuple[Skill, SkillSource]] = {}
        self._problems: tuple[SkillProblem, ...] = ()
        self._read_at: float | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {', '.join(source.id for source in self._sources) or 'no source'}>"

    @property
    def problems(self) -> tuple[SkillProblem, ...]:
        """What was wrong when the sources were last read."""
        return self._problems

    # -- as a block ------------------------------------------------------------

    async def get(self) -> str | None:
        """The skills there are, a line `- name: description` each; `None` without any to offer."""
        await self.refresh()
        return skills_prompt(skill for skill, _ in self._skills.values())

    async def skill_names(self) -> list[str]:
        """The names that a model may activate."""
        return [skill.name for skill, _ in (await self._current()).values() if not skill.hidden]

    async def activate(self, name: str) -> str | None:
        """The skill's body and list of files, wrapped in tags that nothing in it can end; `None` for an unknown name."""
        found = _offered(await self._current(), name)
        return None if found is None else skill_content(found[0])

    async def read_resource(self, name: str | None, path: str) -> str | None:
        """A file of a skill in such tags, or a sentence that says why not; `None` if there is no such file.

        Without a name `path` begins with it: `pirate/references/words.md`.
        """
        skills = await self._current()
        if not name:
            name, slash, path = str(path).partition("/")
            if not slash:
                return "Without a name the path must begin with that of a skill: pirate/references/words.md"
        if problem := resource_problem(path):
            return (
                f"The path {str(path)[:200]!r} cannot be used: {problem}. Write it as the skill's list of files does."
            )
        found = _offered(skills, name)
        if found is None:
            return f"Skill not found: {str(name)[:200]}"
        wanted = next((one for one in found[0].resources if one.path == path), None)
        return None if wanted is None else await _resource(*found, wanted)

    # -- for the program -------------------------------------------------------

    async def skills(self) -> list[Skill]:
        """All skills, hidden ones too, in the order of their sources."""
        return [skill for skill, _ in (await self._current()).values()]

    async def skill(self, name: str) -> Skill | None:
        """A skill, a hidden one too, as for a user who asks for it by name."""
        found = (await self._current()).get(name)
        return None if found is None else found[0]

    async def refresh(self) -> None:
        """Read all sources now."""
        problems: list[SkillProblem] = []
        passed_over: list[SkillProblem] = []
        skills: dict[str, tuple[Skill, SkillSource]] = {}
        for number, source in enumerate(self._sources):
            self._before[number] = read = await _read_source(source, self._before[number], problems)
            for skill in read.values():
                if self._only and skill.name not in self._only:
                    continue
                if skill.name in skills:
                    first = skills[skill.name][0]
                    text = f"a skill named {skill.name[:80]!r} is there already, from {first.source}: {first.directory}"
                    passed_over.append(SkillProblem(source.id, skill.directory, text, rejected=True))
                else:
                    skills[skill.name] = skill, source
        self._warn(problems)
        problems += passed_over
        self._skills, self._problems, self._read_at = skills, tuple(problems), time.monotonic()

    def _warn(self, problems: Iterable[SkillProblem]) -> None:
        """Log what is wrong with a source or a skill, unless it was so when it was read before."""
        known = {(problem.source, problem.directory) for problem in self._problems}
        for problem in problems:
            if (problem.rejected or not problem.directory) and (problem.source, problem.directory) not in known:
                log.warning("skills: %s", prompt.one_line(str(problem)))

    async def _current(self) -> dict[str, tuple[Skill, SkillSource]]:
        if self._read_at is None or time.monotonic() - self._read_at > self._refresh_s:
            await self.refresh()
        return self._skills


def _offered(skills: dict[str, tuple[Skill, SkillSource]], name: object) -> tuple[Skill, SkillSource] | None:
    """What a model may have under a name, which may be anything that a model says."""
    found = skills.get(name) if isinstance(name, str) else None
    return None if found is None or found[0].hidden else found


async def _read_source(source: SkillSource, before: dict[str, Skill], problems: list[SkillProblem]) -> dict[str, Skill]:
    """The skills of a source by directory; those it had before if it fails."""
    try:
        files = _by_directory(await call_async(source.files))
    except Exception as error:
        kept = f"; the {len(before)} skills it had before are kept" if before else ""
        problems.append(SkillProblem(source.id, "", f"the source failed: {_named(error)}{kept}", rejected=not before))
        return before
    skills: dict[str, Skill] = {}
    for directory, resources in files.items():
        skill = await _read_skill(source, directory, resources, before.get(directory), problems)
        if skill is not None:
            skills[directory] = skill
    return skills


async def _read_skill(
    source: SkillSource,
    directory: str,
    resources: dict[str, int | None],
    before: Skill | None,
    problems: list[SkillProblem],
) -> Skill | None:
    if SKILL_FILE not in resources:
        if misspelt := next((path for path in resources if path.casefold() == SKILL_FILE.casefold()), None):
            problems.append(SkillProblem(source.id, directory, f"{misspelt} must be called SKILL.md", rejected=True))
        return None
    try:
        raw = await call_async(source.read, f"{directory}/{SKILL_FILE}")
    except Exception as error:
        text = f"SKILL.md cannot be read: {_named(error)}"
        problems.append(SkillProblem(source.id, directory, text, rejected=before is None))
        return before
    if raw is None:  # removed meanwhile
        return None
    listed = [resource(path, size) for path, size in resources.items() if resource_problem(path) is None]
    skill, found = parse_skill(_text(raw), directory=directory, source=source.id, resources=listed)
    problems += found
    return skill


def _by_directory(files: Iterable[Any]) -> dict[str, dict[str, int | None]]:
    """The files of each directory one level below the root, both in order of path."""
    found: dict[str, dict[str, int | None]] = {}
    for path, size in sorted(_sized(file) for file in files):
        directory, slash, rest = path.partition("/")
        if slash and path_problem(path) is None and not is_ignored(path):
            found.setdefault(directory, {})[rest] = None if size < 0 else size
    return found


def _sized(file: Any) -> tuple[str, int]:
    path, size = (file, None) if isinstance(file, str) else cast("tuple[Any, Any]", file)
    return str(path), size if isinstance(size, int) else -1


async def _resource(skill: Skill, source: SkillSource, wanted: SkillResource) -> str | None:
    try:
        data = await call_async(source.read, f"{skill.directory}/{wanted.path}")
    except LimitError:
        return f"The resource is too large to be read: {skill.name}/{wanted.path}"
    except Exception as error:
        return f"The resource cannot be read now: {skill.name}/{wanted.path}: {_named(error)}"
    return None if data is None else skill_resource(skill.name, wanted, data)


def _text(raw: bytes | str) -> str:
    return raw if isinstance(raw, str) else raw.decode("utf-8", "replace")


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:500]
