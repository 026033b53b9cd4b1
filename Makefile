# Presumes Python 3.11 or newer, git, make and libseccomp 2; what is missing is named with the command that installs it.
# Everything else goes into .venv, which belongs to this directory and to the Python that made it.

ifndef PYTHON
PYTHON := $(shell for each in python3 python3.13 python3.12 python3.11; do \
	$$each -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$each && exit; done; echo python3)
endif

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
PROTOS = $(wildcard proto/stockade/v1/*.proto)
PROTOC = PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m grpc_tools.protoc -I proto

# A variable of the caller's shell must not put other code in front of what is installed here, nor have every process
# compile all of it again.
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE

.DELETE_ON_ERROR:
.PHONY: help install proto proto-check catalog check test probes cases examples faults rivals races swap mishaps cuts kills floods scripts entries runs soak bench proxy demo wheel force

help:  ## list these verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(STAMP)  ## make .venv and install everything into it

proto: $(STAMP)  ## generate the Python stubs from proto/stockade/v1/*.proto
	$(PROTOC) --python_out=proto --grpc_python_out=proto --mypy_out=quiet:proto --mypy_grpc_out=quiet:proto $(PROTOS)

proto-check: $(STAMP)  ## fail if the committed stubs are not those of the .proto files
	@fresh=$$(mktemp -d) && trap 'rm -rf "$$fresh"' EXIT && \
	$(PROTOC) --python_out="$$fresh" --grpc_python_out="$$fresh" --mypy_out="quiet:$$fresh" --mypy_grpc_out="quiet:$$fresh" \
		$(PROTOS) && \
	diff -ru -x '__init__.py' -x '__pycache__' -x '*.proto' -x 'py.typed' proto/stockade/v1 "$$fresh/stockade/v1" || \
	{ echo "The stubs differ from their .proto files: run 'make proto' and commit both together." >&2; exit 1; }

catalog: $(STAMP)  ## make docs/catalog from the code
	$(BIN)/python -m stockade_daemon.pages docs/catalog

check: $(STAMP)  ## lint, format, types, the pages of docs/catalog, and the rule of who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m stockade_daemon.pages --check docs/catalog
	$(BIN)/pytest -q tests/house

# One process more than there are cores: a test that waits for the kernel leaves its core to another.
test: $(STAMP)  ## run all tests, in up to 4 processes; ARGS goes to pytest
	$(BIN)/pytest -n $$(($$(nproc) + 1)) --maxprocesses 4 --dist worksteal $(ARGS)

probes: $(STAMP)  ## ask every isolation probe: all profiles, all ways in, as root also as an ordinary user
	$(BIN)/python -m tests.conformance.run_probes --quiet $(if $(filter 0,$(shell id -u)),--also-uid) $(ARGS)

cases: $(STAMP)  ## play every conformance case, our variations too, through the client; ARGS: --area, --id, --jobs
	$(BIN)/python tests/conformance/run_cases.py tests/conformance/file-cases.jsonl tests/conformance/own-cases.jsonl $(ARGS)

examples: $(STAMP)  ## try each property with many examples that nobody tried before; ARGS: --hypothesis-seed N, files
	STOCKADE_TEST_EXAMPLES=20 $(BIN)/pytest -q --hypothesis-profile=search --hypothesis-show-statistics \
		tests/profiles/test_tighten.py tests/tools/test_changes_equal_a_reference.py $(ARGS)

faults: $(STAMP)  ## kill daemon, zygote, mounter or worker in the middle of calls; ARGS: --runs, --seed
	$(BIN)/python -m tests.faults $(ARGS)

rivals: $(STAMP)  ## two sessions and an outside writer at one workspace, nothing lost; ARGS: --seconds, --seed
	$(BIN)/python -m tests.rivals $(ARGS)

races: $(STAMP)  ## fifty answers race to one ask across two kills of the daemon; ARGS: --rounds, --seed
	$(BIN)/python -m tests.races $(ARGS)

swap: $(STAMP)  ## 10,000 writes at a directory that becomes a link out all the time; ARGS: --writes, --calls, --seed, --walk
	$(BIN)/python -m tests.swap $(ARGS)

mishaps: $(STAMP)  ## disks fill, rights and directories go in the middle of commits; ARGS: --every, --from, methods
	$(BIN)/python -m tests.mishaps $(ARGS)

kills: $(STAMP)  ## kill the daemon at every point of a commit of what a command changed; ARGS: --files, --most, --seed
	$(BIN)/python -m tests.kills $(ARGS)

cuts: $(STAMP)  ## cut the connection at any byte of a call, either way; ARGS: --rounds, --seed
	$(BIN)/python -m tests.cuts $(ARGS)

floods: $(STAMP)  ## 200 MiB over cut connections, endless output, processes that will not end; ARGS: --mb, --calls, --seed
	$(BIN)/python -m tests.floods $(ARGS)

scripts: $(STAMP)  ## generated scripts leave the same tree as run directly; ARGS: --count, --seed, --no-links, --without
	$(BIN)/python -m tests.scripts $(ARGS)

entries: $(STAMP)  ## 1,000 entries of `stockade run` at one path, 50 with killed workers; ARGS: --count, --jobs, --kills
	$(BIN)/python -m tests.entries $(ARGS)

runs: $(STAMP)  ## the demo's red and green test runs, played by `stockade run`; ARGS goes to it
	@place=$$(mktemp -d) && trap 'rm -rf "$$place"' EXIT && \
	$(BIN)/stockade demo --prepare "$$place/xmltodict" --cache $(VENV)/demo && \
	$(BIN)/stockade run tests/runs --private --profile ci --workspace "$$place/xmltodict" --jobs 2 $(ARGS)

bench: $(STAMP)  ## measure what calls cost here and now, into docs/bench; ARGS: --quick, --out DIR, parts
	$(BIN)/python -m tests.bench $(ARGS)

soak: $(STAMP)  ## thousands of calls at one daemon, which must not grow; ARGS: --calls, --warm-up, --jobs, --workspace, --seed
	$(BIN)/python tests/leaks.py -- $(BIN)/python -m tests.soak $(ARGS)

proxy: $(STAMP)  ## a subscriber reads 20,000 events over a connection that is cut every 100 ms: none missing, none twice
	STOCKADE_TEST_EVENTS=20000 $(BIN)/pytest -q -s -k cut_every_100_ms tests/end_to_end/test_subscriptions.py $(ARGS)

demo: $(STAMP)  ## watch an agent fix a fault in a real program, through Stockade
	$(BIN)/stockade demo --cache $(VENV)/demo

wheel: $(STAMP)  ## build dist/stockade-*.whl
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

# --- the environment ---

# $(call need,CHECK,WHAT,DEBIAN,FEDORA,ALPINE)
define need
@{ $(1); } >/dev/null 2>&1 || { printf '%s\n' '$(2). Install what is missing:' \
	'  Debian, Ubuntu:  apt-get install $(3)' '  Fedora:          dnf install $(4)' \
	'  Alpine:          apk add $(5)' >&2; exit 1; }
endef

# An environment that was copied or moved, or whose Python is gone, another one, or not ours to run, is made anew:
# its scripts name their interpreter by absolute path.
SIGN = $(shell $(1) -c 'import sys; print("%s %d.%d" % ("$(CURDIR)", *sys.version_info[:2]))' 2>/dev/null)
ifneq ($(shell cat $(STAMP) 2>/dev/null),$(call SIGN,$(PYTHON)))
$(STAMP): force
else ifneq ($(call SIGN,$(BIN)/python),$(call SIGN,$(PYTHON)))
$(STAMP): force
endif

$(STAMP): pyproject.toml
	$(call need,$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3$(comma) 11))',Python 3.11 or newer is needed and \
	"$(PYTHON)" is not (name another with PYTHON=...),python3,python3,python3)
	$(call need,$(PYTHON) -c 'import ensurepip$(comma) venv',$(PYTHON) cannot make virtual environments,\
	python3-venv,python3,python3 py3-pip)
	$(call need,git --version,git was not found,git,git,git)
	$(call need,$(PYTHON) -c 'import ctypes; ctypes.CDLL("libseccomp.so.2")',libseccomp 2 was not found,\
	libseccomp2,libseccomp,libseccomp)
	@echo "installing into $(VENV) …"
	@if [ "$$(cat $@ 2>/dev/null)" != '$(call SIGN,$(PYTHON))' ] || ! $(BIN)/python -m pip --version >/dev/null 2>&1; \
	then $(PYTHON) -m venv --clear $(VENV); fi
	@rm -f $@
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@echo '$(call SIGN,$(PYTHON))' > $@

comma := ,
