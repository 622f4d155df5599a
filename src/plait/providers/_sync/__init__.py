"""Generated from src/plait/providers/_async/__init__.py by tools/unasync.py: edit that file. Providers that wait for others: written for asyncio, generated for threads."""
