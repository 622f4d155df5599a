"""Generated from src/plait/store/postgres/_async/__init__.py by tools/unasync.py: edit that file. What of the PostgreSQL driver waits: the executor of plans."""
