"""One module for each format that conversations can be written in: `make(session_id)` answers its writer."""
