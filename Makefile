# Two commands do everything: `make demo` and `make test`. Each prepares what it needs in .venv, once,
# and again only when pyproject.toml has changed. Everything else that is made goes to .build.
#
#   make test ARGS="tests/canisters"    part of the tests
#   make PYTHON=/path/to/python3.12 test         a Python of your choice

VENV := .venv
BIN := $(VENV)/bin
BUILD := .build

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo test browser coverage check attack conformance real bench docs pages pictures clean

# Tests start processes and wait for them: two more than there are cores keep these busy (measured: 10 % faster than one more).
PROCESSES ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 2)
# Files in the order of their names: by their numbers of tests, a file with few and long tests would begin last.
DISTRIBUTED = --numprocesses $(PROCESSES) --dist loadfile --no-loadscope-reorder

# The browser of the tests: the first of these that is installed. The first has no windows, and needs a third less time.
BROWSERS := chromium-headless-shell chromium chromium-browser google-chrome
INSTALL := DEBIAN_FRONTEND=noninteractive apt-get install -y -qq

SPHINX = $(BIN)/sphinx-build -W --keep-going -q -d $(BUILD)/doctrees
# Sphinx keeps pages that have warnings, and does not warn of them again.
FORGET_PAGES := { rm -rf $(BUILD)/doctrees; exit 1; }

# Without compiled modules, every process would compile the house again (measured: 12 s in collecting the tests alone).
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE
export HYPOTHESIS_STORAGE_DIRECTORY := $(BUILD)/hypothesis
# Seconds after which a test hangs; a loaded machine may need five times what a quiet one does.
export PYTEST_TIMEOUT ?= 300

help: ## list these commands
	@echo "Usage: make COMMAND [ARGS=...]"
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/.stamp-demo ## a scripted model calls real tools over a real wire; no key, no network
	@$(BIN)/ripieno demo $(ARGS)

test: $(VENV)/.stamp-test ## all tests
	$(BIN)/python -m pytest $(or $(ARGS),$(DISTRIBUTED))

# Playwright's own browsers come from elsewhere; a system's package is updated with the system.
browser: ## install Chromium, in which the page of `ripieno serve web` is tested (Debian and Ubuntu, as root)
	@find() { for name in $${RIPIENO_CHROMIUM:-$(BROWSERS)}; do command -v "$$name" && return; done; return 1; }; \
	if [ -z "$$RIPIENO_CHROMIUM" ] && ! command -v $(firstword $(BROWSERS)) >/dev/null \
	    && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq; \
	    $(INSTALL) $(firstword $(BROWSERS)) >/dev/null 2>&1 || find >/dev/null || $(INSTALL) chromium >/dev/null; \
	fi; \
	if chromium=$$(find); then \
	    echo "The tests use $$chromium."; \
	else \
	    echo "There is no Chromium. Install one, such as: sudo apt install chromium. Or name one: RIPIENO_CHROMIUM=/path" >&2; exit 1; \
	fi

# Being watched makes a program more than twice as slow (measured): not at every change.
coverage: $(VENV)/.stamp-test ## all tests, with branch coverage, of which 95 % must be there
	@mkdir -p $(BUILD)/coverage && rm -f $(BUILD)/coverage/data*
	$(BIN)/coverage run -m pytest $(DISTRIBUTED)
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report

check: $(VENV)/.stamp-check ## format, lint, types, import contracts, documentation
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports --no-logo --cache-dir $(BUILD)/imports
	@$(MAKE) --no-print-directory docs

attack: $(VENV)/.stamp-test ## the tests at their full counts (long)
	RIPIENO_ATTACK=1 PYTEST_TIMEOUT=3600 $(BIN)/python -m pytest $(ARGS)

real: $(VENV)/.stamp-test ## with servers and agents that others wrote, which it installs (needs a network, git, Node 20)
	PYTEST_TIMEOUT=600 $(BIN)/python -m pytest $(or $(ARGS),tests/real)

conformance: $(VENV)/.stamp-demo ## the public MCP suite against our server and our client; it installs itself (npm)
	@$(BIN)/python -m tests.conformance $(ARGS)

bench: $(VENV)/.stamp-demo ## what the package promises about speed, into the documentation; peers too: pip install '.[bench]'
	@$(BIN)/python -m benchmarks $(or $(ARGS),--page)

docs: $(VENV)/.stamp-docs ## the documentation; a warning is an error
	@$(SPHINX) -b html documentation $(BUILD)/documentation || $(FORGET_PAGES)
	@$(SPHINX) -b doctest documentation $(BUILD)/doctest || $(FORGET_PAGES)
	@echo "Documentation: $(BUILD)/documentation/index.html"

pages: $(VENV)/.stamp-demo ## the keys of all files, in the pages of the reference
	@$(BIN)/python documentation/extensions/keys.py

pictures: $(VENV)/.stamp-test ## the pictures of the demo and of the page, in README and documentation (needs Chromium)
	@$(BIN)/python documentation/pictures/record.py
	@$(BIN)/python documentation/pictures/page.py

clean: ## remove all that these commands made, .venv too
	@if [ ! -e $(VENV) ] || [ -e $(VENV)/.stamp-made ]; then rm -rf $(VENV); else \
	    echo "$(VENV) stays, because make did not create it. To remove it: rm -r $(VENV)"; fi
	rm -rf $(BUILD) dist .pytest_cache
	@find sources tests documentation benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# One stamp for each set of requirements: `demo` is the package itself, the others are its extras.
$(VENV)/.stamp-%: pyproject.toml | $(BIN)/python
	@echo "Installing ripieno$(if $(filter-out demo,$*), with what \"make $*\" needs,) into $(VENV); this happens once ..."
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.$(if $(filter-out demo,$*),[$*],)'
	@touch $@

$(BIN)/python:
	@for python in $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11 python); do \
	    if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	    echo "ripieno needs Python 3.11 or later; found none as: $(or $(PYTHON),python3 python3.14 ... python3.11 python)." >&2; \
	    echo "Install one, or name it: make PYTHON=/path/to/python3 $(MAKECMDGOALS)" >&2; exit 1; \
	fi; \
	echo "Creating $(VENV) with $$("$$found" --version) ..."; \
	"$$found" -m venv $(VENV) && $(BIN)/python -m pip --version >/dev/null && touch $(VENV)/.stamp-made || { rm -rf $(VENV); \
	    echo "Could not create $(VENV): this Python lacks its venv or ensurepip module." >&2; \
	    echo "On Debian and Ubuntu: sudo apt install python3-venv. Or name another: make PYTHON=/path/to/python3 $(MAKECMDGOALS)" >&2; exit 1; }
