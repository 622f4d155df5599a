"""What stands behind blocks of context besides plait's own store: folders, buckets, Agent Skills, earlier sessions."""

from __future__ import annotations

from plait.providers._async.history import AsyncSessionHistory
from plait.providers._async.skills import AsyncSkills
from plait.providers._async.stored import AsyncStoredSkills
from plait.providers._sync.history import SessionHistory
from plait.providers._sync.skills import Skills
from plait.providers._sync.stored import StoredSkills
from plait.providers.documents import (
    Documents,
    TextFile,
    WritableDocuments,
    WritableTextFile,
    documents,
    text_file,
)
from plait.providers.skill import Skill, SkillProblem, SkillResource, parse_skill
from plait.providers.skill_text import skill_content, skill_resource, skills_prompt
from plait.providers.sources import SkillSource, skill_source

__all__ = [
    "AsyncSessionHistory",
    "AsyncSkills",
    "AsyncStoredSkills",
    "Documents",
    "SessionHistory",
    "Skill",
    "SkillProblem",
    "SkillResource",
    "SkillSource",
    "Skills",
    "StoredSkills",
    "TextFile",
    "WritableDocuments",
    "WritableTextFile",
    "documents",
    "parse_skill",
    "skill_content",
    "skill_resource",
    "skill_source",
    "skills_prompt",
    "text_file",
]
