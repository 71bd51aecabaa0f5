# From a clean clone to a result. Needs Python 3.11 or newer with pip and venv, and make; everything else goes into .venv.
#
#   make run                          install without torch, then run one scenario
#   make run SCENARIO=scenarios/skip_one.yaml
#   make test                         install with torch and the test tools, then lint, type-check and test
#   make near                         the tests of the rooms that you changed, and of those above; `make test` runs all
#   make slow                         the campaigns that `make test` leaves out; about 30 minutes on two cores
#   make nightly                      a night of campaigns, the longest tests, and a report; at most 100 minutes on two cores
#   make nightly PART=torch SIZE=10   one part of it, with ten times the time and the draws (docs/nightly.md)
#   make docs                         build the documentation as a site in build/site
#   make bench                        count and measure what the simulated machine does; some minutes (benchmarks/RESULTS.md)
#   make bench-gpu                    what the contract costs on two GPUs, over plain torch (benchmarks/RESULTS_GPU.md)
#   make PYTHON=python3.12 test       with another Python (after `make clean`, if .venv exists)
#
# A file .venv/.installed-* says that an installation is complete and newer than what it was made from, so a second call installs
# nothing.

PYTHON ?= python3
SCENARIO ?= scenarios/quickstart.yaml

NIGHTS ?= .dpsim/nights
PART ?=
SIZE ?= 1

BIN := .venv/bin
# Python compiles a module at its first import. pip would compile all of torch, of which the tests import a part.
INSTALL := $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --no-compile
# Nothing is installed whose hash is not in requirements/, pip among it. The build tools come from there, hence no build isolation.
HASHED := $(INSTALL) --require-hashes --no-deps --only-binary :all:
INSTALL_PROJECT := $(INSTALL) --no-deps --no-build-isolation -e . -e tools/engine

# Tests start many processes, and without stored bytecode each compiles dpsim again: a third of the time of `make test`.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help run test near slow nightly docs bench bench-gpu clean

help:
	@echo 'make run    install into .venv (without torch) and run $(SCENARIO)'
	@echo 'make test   install into .venv (with torch) and run linters, type checker, import contracts and tests'
	@echo 'make near   install likewise and run the tests of the rooms that differ from main, and of the rooms above them'
	@echo 'make slow   install likewise and run the campaigns that make test leaves out'
	@echo 'make nightly  install likewise, run the longest campaigns, which CI leaves out, and report what is new; PART=name, SIZE=10'
	@echo 'make docs   install likewise and build the documentation as a site, build/site/index.html'
	@echo 'make bench  count calls, measure the simulated machine, and write benchmarks/RESULTS.md'
	@echo 'make bench-gpu  measure the contract on two GPUs, over plain torch, and write benchmarks/RESULTS_GPU.md'
	@echo 'make clean  remove .venv, caches and build results'

run: .venv/.installed-core
	@$(BIN)/dpsim run $(SCENARIO)

test: .venv/.installed-test
	@echo '==> ruff check'
	@$(BIN)/ruff check
	@echo '==> ruff format --check'
	@$(BIN)/ruff format --check
	@echo '==> mypy'
	@$(BIN)/mypy --num-workers 2
	@echo '==> lint-imports'
	@$(BIN)/lint-imports --no-logo
	@echo '==> pytest'
	@$(BIN)/python -m pytest -n 2 --dist loadgroup

# Which tests these are, and why, is decided and printed by tests/house/near.py.
near: .venv/.installed-test
	@$(BIN)/python -m tests.house.near

slow: .venv/.installed-test
	@echo '==> pytest -m slow'
	@$(BIN)/python -m pytest -m slow -n 2 --dist loadgroup

# What fails ends no night: the table says so, and the exit code is 1.
nightly: .venv/.installed-test
	@$(BIN)/python -m tests.night $(PART) --size $(SIZE) --out $(NIGHTS)

docs: .venv/.installed-test
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo 'build/site/index.html'

bench: .venv/.installed-test
	@$(BIN)/python -m benchmarks

bench-gpu: .venv/.installed-test
	@$(BIN)/python -m benchmarks.gpu

.venv/.created:
	@command -v $(PYTHON) >/dev/null || { echo 'error: no $(PYTHON) found; name a Python 3.11 or newer: make PYTHON=/path/to/python3' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("error: dpsim needs Python 3.11 or newer, but $(PYTHON) is %d.%d; name another: make PYTHON=/path/to/python3" % sys.version_info[:2])'
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "error: $(PYTHON) cannot make virtual environments; on Debian and Ubuntu: apt-get install python$$($(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv" >&2; exit 1; }
	@echo '==> creating .venv with $(PYTHON)'
	@$(PYTHON) -m venv --clear .venv
	@touch $@

.venv/.installed-core: .venv/.created pyproject.toml tools/engine/pyproject.toml $(wildcard requirements/*.txt)
	@echo '==> installing dpsim into .venv'
	@$(HASHED) -r requirements/build.txt
	@$(HASHED) -r requirements/core.txt
	@$(INSTALL_PROJECT)
	@touch $@

# Last, the libraries for GPUs: torch pins each to one version, and torch without CUDA has none.
.venv/.installed-test: .venv/.installed-core
	@echo '==> installing torch and the test tools into .venv (torch is large)'
	@$(HASHED) -r requirements/test.txt
	@$(INSTALL) "$$(sed -n 's/^\(torch==[^ ]*\).*/\1/p' requirements/test.txt)"
	@touch $@

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
