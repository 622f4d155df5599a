"""Providers that wait for others: written for asyncio, generated for threads."""
