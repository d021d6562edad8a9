# make setup && make demo. Everything stays in .venv and out/; `make clean` removes both.
PYTHON ?= python3
TORCH_BACKEND ?= cpu
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv pip install --quiet --python $(BIN)/python
READY := $(VENV)/.ready
DOCS_READY := $(VENV)/.ready-docs

.PHONY: setup demo test test-core test-all fuzz bench docs lint clean

setup: $(READY)

# PyTorch comes first and alone: its small CPU build where uv reaches it, else whatever build pip finds.
# uv then leaves the installed one as it is. It makes no bytecode, as pip does: what commands import is imported once, since
# otherwise the first command would take twice as long, and each one where PYTHONDONTWRITEBYTECODE is set.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "gradsim needs Python 3.11 or newer; name one: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet uv
	$(BIN)/python -c 'import torch' 2>/dev/null || \
		UV_HTTP_RETRIES=0 $(UV) --no-deps --torch-backend $(TORCH_BACKEND) torch==2.13.0 2>/dev/null || \
		$(BIN)/python -m pip install --quiet --no-deps torch==2.13.0
	$(UV) --constraints constraints.txt --editable ".[dev]"
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m gradsim demo --help >/dev/null
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -c 'import av, gradsim.app.commands.demo, gradsim.app.report.report, matplotlib.backends.backend_svg, scipy.ndimage, scipy.sparse.csgraph, viser'
	touch $@

$(DOCS_READY): $(READY)
	$(UV) --constraints constraints.txt --editable ".[dev,docs]"
	touch $@

demo: $(READY)
	$(BIN)/gradsim demo --out out/demo

# Bytecode is kept even where PYTHONDONTWRITEBYTECODE is set: to make it anew takes each worker a quarter of a minute.
test: $(READY)
	PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow"

test-core: $(READY)
	PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow" --ignore tests/reproduction

test-all: $(READY)
	PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

# 5 000 mutated inputs in forked processes, about half an hour; prints how each kind was answered.
fuzz: $(READY)
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/pytest -n 0 --quiet tests/fuzz

bench: $(READY)
	$(BIN)/python benchmarks/run.py all --out out/bench

docs: $(DOCS_READY)
	$(BIN)/sphinx-build --fail-on-warning --quiet docs docs/_build/html
	@echo "docs/_build/html/index.html"

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright

clean:
	rm -rf $(VENV) out docs/_build
