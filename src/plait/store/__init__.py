"""The store: what any backend does, written once as plans; the drivers that run them."""
