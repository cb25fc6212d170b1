# The verbs of this repository. `make demo` is the place to start.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
GUIDE := api/guide/index.html
GUIDE_SOURCES := README.md docs/flow.svg $(wildcard docs/*.png docs/*.md docs/*/*.md docs/guide/*.py)
ARGS ?=
NEAR := tests/schemas tests/market tests/eventstore tests/projections tests/workers tests/redaction

.DEFAULT_GOAL := help
.PHONY: help setup demo run test test-fast coverage mutants changes check fuzz chaos failover docs bench fmt lock clean man wheel sbom audit release-check

help: ## what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

$(VENV)/.ready: requirements/dev.txt pyproject.toml importer/pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed; say make PYTHON=…") if sys.version_info < (3, 11) else None'
	$(BIN)/python -c 'import ssl' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)  # one that works is kept: two Pythons do not mix
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable . --editable ./importer
	touch $@

$(GUIDE): $(VENV)/.ready $(GUIDE_SOURCES)
	$(BIN)/python docs/guide/build.py

$(VENV)/.bench: $(VENV)/.ready requirements/bench.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bench.txt
	touch $@

setup: $(VENV)/.ready $(GUIDE) ## the environment, from pinned and hashed requirements

demo: setup ## import a sample book into a service of its own; ARGS=--exit to end when it is done
	$(BIN)/importledger demo $(ARGS)

run: setup ## the service, empty; ARGS="--port 8000 --data-dir DIR"
	$(BIN)/importledger up $(ARGS)

test: setup ## the whole test suite, against real Postgres and Redis that it starts itself; WORKERS=3
	$(BIN)/python -m pytest -n $(or $(WORKERS),3) --dist loadfile --no-loadscope-reorder $(ARGS)

test-fast: setup ## the tests that start nothing, in seconds: for while you write
	$(BIN)/python -m pytest -n 2 --dist load -q --fast $(or $(ARGS),$(NEAR))

coverage: setup ## the branches of the pure core that its own tests reach; fails below 98 %
	$(BIN)/python -m pytest -n 2 -q --fast $(NEAR) --cov --cov-report=term-missing:skip-covered $(ARGS)

$(VENV)/.mutants: $(VENV)/.ready requirements/mutants.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/mutants.txt
	touch $@

mutants: setup $(VENV)/.mutants ## change the pure core in thousands of places: a test must notice; ONLY=market/ SAMPLE=200 SEED=1 WORKERS=2
	nice -n 15 $(BIN)/python -m lab.mutation --only "$(ONLY)" --sample $(or $(SAMPLE),0) --seed $(or $(SEED),1) --workers $(or $(WORKERS),2) $(ARGS)

changes: setup ## the seven usual changes on branches that are thrown away: files each touches, and whether it works; ONLY=endpoint
	$(BIN)/python -m lab.changes --only "$(ONLY)" $(ARGS)

check: setup ## formatting, lint, types, which way imports point, what migrations lock, and the rules of the house
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/squawk --no-error-on-unmatched-pattern eventstore/operations/migrations/*.sql
	$(BIN)/python -m pytest -q checks

fuzz: setup ## many examples of each law, 20,000 requests against the own description, all hostile ones, 2,000 files of each kind, a log of eight writers; ARGS="-x"
	$(BIN)/python -m pytest -q --deep -m hypothesis $(NEAR) $(ARGS)
	FUZZ_REQUESTS=20000 FUZZ_FILES=2000 FOLLOWED_EVENTS=300000 $(BIN)/python -m pytest tests/api/test_fuzzing.py tests/hostile tests/faults/test_follower.py $(ARGS)

chaos: setup ## faults at a running service under load, SEED=1 MINUTES=10 (60: is it steady?)
	$(BIN)/python -m lab.faults --minutes $(or $(MINUTES),10) --seed $(or $(SEED),1) $(ARGS)

$(VENV)/.failover: $(VENV)/.ready requirements/failover.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/failover.txt
	touch $@

failover: setup $(VENV)/.failover ## a cluster of thirteen machines in network namespaces (as root), its faults under load; RATE=40 ONLY=split PREVIOUS=v1
	$(BIN)/python -m lab.failover --rate $(or $(RATE),40) --only "$(ONLY)" --previous "$(PREVIOUS)" $(ARGS)

docs: setup ## what is made from the code (docs/reference/errors.md; docs/openapi.json, which may only grow; the tests of promises), and the guide
	$(BIN)/python -m checks.generated
	$(BIN)/python -m cli.generated
	$(BIN)/python -m tests.support.promised
	$(BIN)/python -m tests.evidence
	$(BIN)/python docs/guide/build.py --strict

bench: setup $(VENV)/.bench ## throughput as ratios in one run; QUICK=1 for three minutes, MILLION=1 for many accounts beside few (ACCOUNTS=1000000), BOOK=1 for a book from six tables to accounts and from accounts to a certificate, CONSOLE=1 for the pages of the console, AGAINST=REF for another version at the same time
	$(BIN)/python -m bench$(if $(BOOK),.book --accounts $(or $(ACCOUNTS),100000))$(if $(MILLION), --million $(or $(ACCOUNTS),1000000))$(if $(CONSOLE), --console $(or $(ACCOUNTS),1000000))$(if $(AGAINST), --against $(AGAINST))$(if $(QUICK), --quick) $(ARGS)

man: setup ## manual pages and shell completions, below build/shared
	$(BIN)/python docs/man/build.py build/shared

wheel: setup ## the wheel with guide, manual pages and completions, and the verifier for auditors, in dist/
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	$(BIN)/python deploy/verifier/build.py dist

$(VENV)-runtime/.ready: requirements/runtime.txt pyproject.toml
	$(PYTHON) -m venv --without-pip $(VENV)-runtime
	$(BIN)/python -m pip --python $(VENV)-runtime/bin/python install --quiet --require-hashes -r requirements/runtime.txt
	touch $@

sbom: setup $(VENV)-runtime/.ready ## what the service consists of: dist/sbom.cdx.json (CycloneDX), dist/licences.csv
	mkdir -p dist
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible -o dist/sbom.cdx.json $(VENV)-runtime/bin/python
	$(BIN)/python deploy/licences.py dist/sbom.cdx.json dist/licences.csv

audit: setup ## known holes of what the service consists of; exit code 2 where the source cannot be asked
	$(BIN)/python deploy/audit.py requirements/runtime.txt

release-check: setup ## what takes minutes: image and wheel, built, installed and started; clients that generators make
	$(BIN)/python -m pytest -q --release tests/deploy/test_image.py tests/deploy/test_wheel.py tests/deploy/test_supply.py tests/clients $(ARGS)

fmt: setup ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: setup ## resolve the requirements anew; needs uv
	uv pip compile --no-strip-extras --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -q pyproject.toml --extra dev -o requirements/dev.txt
	uv pip compile --no-strip-extras --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -q pyproject.toml --extra books -c requirements/dev.txt -o requirements/runtime.txt
	uv pip compile --no-strip-extras --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -q requirements/mutants.in -c requirements/dev.txt -o requirements/mutants.txt
	uv pip compile --no-strip-extras --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -q requirements/failover.in -c requirements/dev.txt -o requirements/failover.txt
	uv pip compile --no-strip-extras --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -q requirements/bench.in -c requirements/dev.txt -o requirements/bench.txt
	uv pip compile --no-strip-extras --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -q requirements/clients.in -o requirements/clients.txt

clean: ## throw the environment away
	rm -rf $(VENV) $(VENV)-runtime dist .mypy_cache .ruff_cache .pytest_cache *.egg-info build api/guide
