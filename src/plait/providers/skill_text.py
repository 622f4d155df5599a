"""Skills as a model reads them: the block of the prompt, and the answers of the skill tools.

What a skill holds is wrapped in tags. Nothing in it can end its wrapping: in bodies and texts the `<` of anything that
looks like one of these tags becomes `&lt;` (every other character stays as it is), and in attributes and
lists `& < > "` are written as entities, controls and line breaks as blanks.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from typing import Final

from plait.providers.paths import one_line
from plait.providers.skill import Skill, SkillResource

INTRODUCTION: Final = (
    "Available skills. When a task matches one of them, call activate_skill with its name before you proceed."
)

# What stands between the characters of a tag may be anything that a reader does not see; possessive, so that a
# text of nothing else is gone through once.
_UNSEEN = r"\s\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
_BLANK = f"[{_UNSEEN}]*+"
_NAME = _BLANK.join("skill") + _BLANK + "[_＿]" + _BLANK
_TAG = re.compile(
    rf"[<＜﹤](?=[/／⁄∕\\{_UNSEEN}]*+{_NAME}(?:{_BLANK.join('content')}|{_BLANK.join('resource')}))",
    re.IGNORECASE,
)


def skills_prompt(skills: Iterable[Skill]) -> str | None:
    """The block that tells a model which skills there are, one line each; `None` without any to offer."""
    lines = [f"- {one_line(skill.name)}: {one_line(skill.description)}" for skill in skills if not skill.hidden]
    return "\n".join((INTRODUCTION, "", *lines)) if lines else None


def skill_content(skill: Skill) -> str:
    """What `activate_skill` answers: the body of the skill in `<skill_content>`, with the list of its files."""
    lines = [f"<skill_content name={_attribute(skill.name)}>", contained(skill.body)]
    if skill.resources:
        lines += ["", "<skill_resources>", *map(_listed, skill.resources), "</skill_resources>"]
    return "\n".join((*lines, "</skill_content>"))


def skill_resource(name: str, resource: SkillResource, data: bytes | str) -> str:
    """What `read_skill_resource` answers: the file in `<skill_resource>`, base64 if it is not text."""
    encoding, content = _encoded(resource, data)
    media = f" mime_type={_attribute(resource.media_type)}" if resource.media_type else ""
    facts = f"name={_attribute(name)} path={_attribute(resource.path)} kind={_attribute(resource.kind)}"
    return f'<skill_resource {facts} encoding="{encoding}"{media}>\n{content}\n</skill_resource>'


def contained(text: str) -> str:
    """`text` without anything that looks like a tag of these wrappings: its `<` is written as `&lt;`."""
    return _TAG.sub("&lt;", text)


def _encoded(resource: SkillResource, data: bytes | str) -> tuple[str, str]:
    if isinstance(data, str):
        return "text", contained(data)
    if resource.encoding == "text":
        try:
            return "text", contained(data.decode("utf-8-sig"))
        except UnicodeDecodeError:
            pass
    return "base64", base64.b64encode(data).decode()


def _listed(resource: SkillResource) -> str:
    size = "" if resource.size is None else f' size="{resource.size}"'
    return f'  <file kind="{resource.kind}" encoding="{resource.encoding}"{size}>{_escaped(resource.path)}</file>'


def _attribute(text: str) -> str:
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    for char, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        text = text.replace(char, entity)
    return one_line(text)
