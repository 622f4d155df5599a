"""plait under agent frameworks: one module for each, imported by its name when it is used.

`plait.adapters.pydantic_ai` and its like import their framework; `import plait` imports none of
them. They stand on plait's public names alone, take a session or sessions that the caller has
opened, and open nothing themselves. What is here is told in docs/reference/adapters.md.
"""
