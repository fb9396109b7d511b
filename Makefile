# Two commands do everything: `make run` and `make test`. Both set up what they need, once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: run test bench check format install browser clean

run: install ## Measure suites/seq_scaling.yaml and write its page
	$(BIN)/bench run suites/seq_scaling.yaml --report

test: check browser ## Everything that CI runs, in two processes
	$(BIN)/python -m pytest -n 2 --dist loadfile

bench: install ## Time the implementations with pytest-benchmark; ARGS="-k causal" chooses
	$(BIN)/python -m pytest benchmarks --benchmark-enable --benchmark-only --benchmark-columns=median,iqr,rounds $(ARGS)

check: install ## Format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

install: $(READY)

browser: ## The Chromium in which the tests open the page
	@.ci/browser

$(READY): pyproject.toml constraints.txt Makefile setup.sh
	./setup.sh "$(PYTHON)" "$(VENV)"
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache *.egg-info
