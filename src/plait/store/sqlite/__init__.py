"""The SQLite driver: one file, one writer thread with group commit, readers that hold no snapshot."""
