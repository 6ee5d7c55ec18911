# Everything the project runs. `make help` lists it.
PYTHON ?= python3
# DJANGO=6.0: that one, in its own environment, in place of the version with long-term support that the locks have
DJANGO =
OTHER_DJANGO := $(DJANGO:%=requirements-django-%.lock)
VENV ?= .venv$(DJANGO:%=-django-%)
BIN := $(VENV)/bin
ARGS ?=
PYTHONS ?= 3.12 3.13
SERVERS ?= 15
TARGET ?= test
# what happens without one of them: it is left out, or where all have to be there, as in CI, an error
LEFT_OUT = [ -z "$$EVERY_TEST_RUNS" ] && continue || exit 1
MINUTES ?= 2
# of what the README shows; `demo` has `embedded` and `ssh` in it
EXTRAS := --extra demo --extra pictures

.DEFAULT_GOAL := help
.PHONY: help install demo run test test-rest test-all test-pythons test-postgresql bench chaos simulate-protocol pictures release-fixture lint format lock clean

# The tests start many processes: without compiled modules each of them spends seconds on compiling.
unexport PYTHONDONTWRITEBYTECODE
# More tests than cores at a time, since many wait for processes, and the longest do not wait for the last.
PYTEST := $(BIN)/python -m pytest --dist worksteal

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' Makefile

install: $(VENV)/.dev ## create .venv with all dependencies, from the lock files

demo: $(VENV)/.runtime ## back up a real demo fleet on this machine; ARGS="--once --json" ends by itself
	@$(BIN)/python manage.py demo $(ARGS)

run: $(VENV)/.runtime ## web, worker and qcluster of an installation of your own; ARGS="--listen 127.0.0.1:8001" for the pages
	@$(BIN)/python manage.py migrate --verbosity 0
	@$(BIN)/python manage.py run $(ARGS)

test: $(VENV)/.test ## what is fast, and each promise once with real processes: 4 to 6 minutes on 2 cores
	$(PYTEST) -n 4 -m "not slow or promise" $(ARGS)

test-rest: $(VENV)/.dev ## what `make test` leaves out: more processes, browsers, peers, tools, examples of properties
	$(PYTEST) -n 6 -m "slow and not promise or hypothesis" $(ARGS)

test-all: test test-rest ## all tests: some 35 minutes on 2 cores

test-pythons: ## `make test` with each Python of PYTHONS (3.12 3.13), in its own environment; DJANGO=6.0: with that Django; TARGET=test-postgresql: on each server, too
	@for version in $(PYTHONS); do \
		found="$$(PYENV_VERSION=$$version python$$version -c 'import sys; print(sys.executable)' 2>/dev/null)" || \
			{ echo "Python $$version is not on this machine" >&2; $(LEFT_OUT); }; \
		$(MAKE) VENV=.venv-$$version$(DJANGO:%=-django-%) PYTHON="$$found" $(TARGET) || exit 1; \
	done

test-postgresql: $(VENV)/.test ## `make test` on each PostgreSQL of SERVERS (15), whose programs this machine has
	@for version in $(SERVERS); do $(BIN)/python -m tests.on_postgresql $$version $(MAKE) test || exit 1; done

bench: .venv-bench/.ready ## measure the backlog next to its peers; ARGS="--quick", or a part: ARGS="drain --json"
	@.venv-bench/bin/python -m proving.bench $(ARGS)

chaos: $(VENV)/.dev ## kill workers and database at random for MINUTES (2), then audit every record and attempt
	@$(BIN)/python -m proving.chaos --minutes $(MINUTES) $(ARGS)

simulate-protocol: $(VENV)/.dev ## play the lease protocol step by step, a seed at a time; ARGS="--seeds 1000" or "--seed 7"
	@$(BIN)/python -m proving.chaos.protocol $(ARGS)

release-fixture: $(VENV)/.dev ## enter the release VERSION of COMMIT (HEAD) in releases.toml, with a dump of a database with rows of each kind
	@$(BIN)/python -m proving.upgrades.fixture --commit $(or $(COMMIT),HEAD) $(VERSION)

pictures: $(VENV)/.dev ## take the README's pictures again, of the demo's fleet with sixty days of history; needs Chromium
	@$(BIN)/python docs/pictures.py $(ARGS)

lint: $(VENV)/.dev ## ruff, mypy, import-linter, deptry, migrations: missing ones, and those that lock a release out
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/ruff check --target-version py38 agent/backupsched-agent
	$(BIN)/ruff format --check --target-version py38 agent/backupsched-agent
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry .
	@# no database is needed, so none is started
	DATABASE_URL=postgresql://127.0.0.1:1/none $(BIN)/python -W ignore::RuntimeWarning manage.py makemigrations --check --dry-run
	$(BIN)/python -m proving.upgrades.lint

format: $(VENV)/.dev ## let ruff format and fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

LOCK := $(BIN)/uv pip compile --upgrade --universal --generate-hashes --no-emit-index-url --no-header --quiet
LOCK_ALL := $(LOCK) pyproject.toml $(EXTRAS) --python-version 3.11

lock: $(VENV)/.dev ## pin the newest allowed versions, with hashes
	$(BIN)/pip install --quiet uv
	$(LOCK_ALL) -o requirements.lock
	$(LOCK_ALL) --group test -o requirements-test.lock
	$(LOCK_ALL) --group dev -o requirements-dev.lock
	$(LOCK_ALL) --extra sqs -o requirements-sqs.lock
	$(LOCK_ALL) --group bench -o requirements-bench.lock
	@# --no-config: without the project's constraint to the other one
	echo "django~=6.0.0" | $(LOCK) --no-config --python-version 3.12 - -o requirements-django-6.0.lock

clean: ## stop the embedded database; remove .venv, .venv-* and caches (var/ with your data stays)
	-@test -x $(BIN)/python && $(BIN)/python manage.py database stop
	rm -rf .venv .venv-* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# Of pip's many lines: how far it is, what is large, and each error. `$(call PIP,LOCK FILES[,FOLDER OF PYTHON])`
PIP = for lock in $(1); do $(or $(2),$(BIN))/python -m pip install --disable-pip-version-check --progress-bar off \
	--require-hashes -r "$$lock" || { echo FAILED; break; }; done | while read -r line; do case "$$line" in \
		"Collecting "*) count=$$((count + 1)); [ $$((count % 10)) != 0 ] || echo "  $$count packages found" ;; \
		"Downloading "*" MB)") echo "  $$line" ;; \
		"Installing collected"*) echo "  installing $$count packages"; count=0 ;; \
		FAILED) exit 1 ;; \
	esac; done >&2

# Installation talks on standard error: `make demo ARGS=--json` prints JSON and nothing else.
$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; name one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) >&2 || \
		{ rm -rf "./$(notdir $(VENV))"; echo "cannot create $(VENV): install Python's venv module (Debian: apt install python3-venv)" >&2; exit 2; }

$(VENV)/.runtime: requirements.lock $(OTHER_DJANGO) | $(VENV)/bin/python
	@echo "installing what the scheduler needs into $(VENV)" >&2
	@$(call PIP,$^)
	@touch $@

.venv-bench/.ready: requirements-bench.lock | .venv/bin/python
	@echo "installing the peers into .venv-bench" >&2
	@$(PYTHON) -m venv .venv-bench >&2
	@$(call PIP,requirements-bench.lock,.venv-bench/bin)
	@touch $@

$(VENV)/.test: requirements-test.lock $(OTHER_DJANGO) | $(VENV)/bin/python
	@echo "installing what the scheduler and \`make test\` need into $(VENV)" >&2
	@$(call PIP,$^)
	@touch $@ $(VENV)/.runtime

$(VENV)/.dev: requirements-dev.lock $(OTHER_DJANGO) | $(VENV)/bin/python
	@echo "installing what the scheduler, all tests and \`make lint\` need into $(VENV)" >&2
	@$(call PIP,$^)
	@touch $@ $(VENV)/.test $(VENV)/.runtime
