"""Transcripts in and out: other tools' files, and plait's own JSON lines and Markdown."""

from __future__ import annotations

from plait.interchange.detect import KNOWN, detect
from plait.interchange.export import Exported, write_jsonl
from plait.interchange.files import whole_file
from plait.interchange.markdown import write_markdown
from plait.interchange.reading import ImportReport, import_file, read
from plait.interchange.values import ImportEntry, ImportOverlay, ImportValue, Problem, Progress, Report, Transcript

__all__ = [
    "KNOWN",
    "Exported",
    "ImportEntry",
    "ImportOverlay",
    "ImportReport",
    "ImportValue",
    "Problem",
    "Progress",
    "Report",
    "Transcript",
    "detect",
    "import_file",
    "read",
    "whole_file",
    "write_jsonl",
    "write_markdown",
]
