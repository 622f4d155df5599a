"""The numbers of plait's documentation, measured on one machine: `python -m benchmarks --help`."""
