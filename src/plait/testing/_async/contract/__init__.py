"""The parts of the contract, by what they are about."""
