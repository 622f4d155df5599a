"""Generated from src/plait/testing/_async/contract/__init__.py by tools/unasync.py: edit that file. The parts of the contract, by what they are about."""
