"""What each command does, given options that are already understood."""
