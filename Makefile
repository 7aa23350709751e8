# Every verb of the project. `make help` lists them. Folders carry the same names as targets, so every target is .PHONY.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
ROOMS := core encoder eval pipeline quantize runtimes speech vocoder
METHOD ?= fp16
CHECKPOINT ?=
OUT ?= build
BUCKETS ?=
LAYOUT ?=
WORKERS ?= 2
COUNT ?= 10000
# Two threads that fight over busy cores are many times slower than one; on an idle machine set OMP_NUM_THREADS=2 and more.
export OMP_NUM_THREADS ?= 1
layout_flag = $(if $(LAYOUT),--layout $(LAYOUT))
checkpoint_flag = $(if $(CHECKPOINT),--checkpoint "$(CHECKPOINT)")

.DEFAULT_GOAL := help
.PHONY: help hashes venv vocoder g2p encoder all quality release bundle controls bench test test-sse test-slow fuzz lint dist clean

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

venv: $(VENV)/.installed ## virtual environment with everything, at the versions CI ran

# Without their dependencies: kokoro (upstream, for parity tests; only its modules are read), and resemblyzer (only their
# weights are read), distillmos and xls-r-sqa (no CPU build of torchaudio, which only their command line needs).
$(VENV)/.installed: pyproject.toml g2p/pyproject.toml mlprogram/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(RUN) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ./mlprogram -e ./g2p -e ".[bench,judge,kokoro-int8,onnx,plot,test]"
	$(RUN) -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps kokoro resemblyzer distillmos xls-r-sqa
	@touch $@

vocoder: venv ## build the vocoder package, execute it, check it (CHECKPOINT=folder|kokoro-int8|hexgrad/Kokoro-82M, OUT=, BUCKETS=, LAYOUT=padded for iOS 17)
	$(RUN) -m kokoro_ane build vocoder $(checkpoint_flag) --out "$(OUT)" $(if $(BUCKETS),--buckets $(BUCKETS)) $(layout_flag)

encoder: venv ## build the encoder package (durations, prosody), execute it, check it (CHECKPOINT=folder|kokoro-int8|hexgrad/Kokoro-82M, OUT=, BUCKETS=)
	$(RUN) -m kokoro_ane build encoder $(checkpoint_flag) --out "$(OUT)" $(if $(BUCKETS),--buckets $(BUCKETS))

g2p: venv ## build the G2P package (words outside the lexicon), execute it, check it (OUT=)
	$(RUN) -m kokoro_ane build g2p --out "$(OUT)"

all: g2p encoder vocoder ## the three packages; what is built and current is not built again

quality: venv ## judge one level on held-out speech (METHOD=fp16|w8|p8|p6|p4|w4|w8a8|mixed|mixed18, LAYOUT=padded for iOS 17); exit 0 where it ships
	$(RUN) -m kokoro_ane quality --method $(METHOD) $(checkpoint_flag) $(layout_flag) --build "$(OUT)" --workers $(WORKERS)

release: venv ## judge every level, name the one to release, write the page; exit 3 where it may not be released
	$(RUN) -m kokoro_ane release $(checkpoint_flag) $(layout_flag) --build "$(OUT)" --workers $(WORKERS); code=$$?; \
	[ $$code = 2 ] || $(RUN) -m kokoro_ane report $(checkpoint_flag) --build "$(OUT)"; exit $$code

bundle: all ## one folder for an app: packages, manifest, voices, lexicon, test vectors, model card (METHOD=, CHECKPOINT=); exit 3 where no decision lets it out
	$(RUN) -m kokoro_ane bundle --method $(METHOD) $(checkpoint_flag) $(layout_flag) --build "$(OUT)"

controls: venv ## prove that the gates reject known errors and pass what does no harm
	$(RUN) -m tests.eval.controls $(checkpoint_flag)

bench: venv ## speed and memory of the executor against eager PyTorch
	PYTHONPATH=mlprogram/tests $(RUN) -m mlprogram_benches.executor

test: venv ## fast tests, in two processes (WORKERS=)
	$(RUN) -m pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# What another processor may compute otherwise. Tests of text, pages, commands and Swift do no arithmetic that counts.
ARITHMETIC := mlprogram/tests tests/vocoder tests/encoder tests/core tests/quantize tests/runtimes tests/eval
test-sse: venv ## fast tests of arithmetic where PyTorch, oneDNN and MKL keep to the instructions of an old processor
	ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 MKL_ENABLE_INSTRUCTIONS=SSE4_2 \
	$(RUN) -m pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARITHMETIC)

test-slow: venv ## full-size parity, in two processes (TESTS=folders)
	$(RUN) -m pytest -q -m slow -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(TESTS)

fuzz: venv ## drawn bad invocations of every verb (COUNT=10000)
	COUNT=$(COUNT) $(RUN) -m pytest -q -m slow tests/attacks/test_sweep.py -n $(WORKERS)

hashes: ## write the SHA256SUMS of g2p's data, which every bundled file is checked against when it is read
	cd g2p/src/kokoro_g2p/data && git ls-files -- ':!SHA256SUMS' | xargs shasum -a 256 > SHA256SUMS

lint: venv ## ruff, then mypy (a minute the first time), which looks for the rooms in kokoro_ane
	$(RUN) -m ruff check .
	@mkdir -p build/typed/kokoro_ane
	@ln -sfn $(addprefix $(CURDIR)/,$(ROOMS)) $(wildcard $(CURDIR)/kokoro_ane/*.py) build/typed/kokoro_ane/
	$(RUN) -m mypy

dist: ## wheels and sdists of the three distributions in dist/, checked as an index checks them
	rm -rf dist
	$(PYTHON) -m venv build/release-tools
	build/release-tools/bin/python -m pip install --quiet --disable-pip-version-check build twine
	for each in . g2p mlprogram; do build/release-tools/bin/python -m build --outdir dist $$each >build/dist.log 2>&1 || { cat build/dist.log; exit 1; }; done
	build/release-tools/bin/twine check --strict dist/*

clean: ## remove what was built, keep the virtual environment
	rm -rf build .mypy_cache .pytest_cache .ruff_cache .hypothesis
