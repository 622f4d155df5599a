"""What plait works out without a clock, a database or a network: pure functions of values."""
