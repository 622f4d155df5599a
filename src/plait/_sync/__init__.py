"""Generated from src/plait/_async/__init__.py by tools/unasync.py: edit that file. The asynchronous face; `tools/unasync.py` writes the synchronous one from it."""
