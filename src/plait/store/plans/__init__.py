"""Every operation of the store, written once for all drivers, as plans."""
