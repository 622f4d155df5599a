"""The asynchronous face; `tools/unasync.py` writes the synchronous one from it."""
