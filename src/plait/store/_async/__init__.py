"""The store in its asynchronous face; `tools/unasync.py` writes the synchronous one from it."""
