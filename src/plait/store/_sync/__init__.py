"""Generated from src/plait/store/_async/__init__.py by tools/unasync.py: edit that file. The store in its asynchronous face; `tools/unasync.py` writes the synchronous one from it."""
