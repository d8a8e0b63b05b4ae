# What people and CI both run. Every target sets up what it needs in .venv; nothing else is touched.
.PHONY: help demo test pytest test-large test-peers test-scripts soak-foreign soak-hmm soak-samplers soak-text soak-kills soak soak-memory soak-models fuzz dist man test-studio soak-studio lint format bench bench-trellis bench-layer sanitize docs stubs clean test-serve soak-serve bench-serve test-cluster soak-cluster test-pythons test-aarch64 sanitize-threads sanitize-leaks fuzz-native
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
# The peers of the benchmarks have an environment without tagloom; torch is the CPU build that we test
# with, and goes with pytorch-crf, which alone would bring any other.
BENCH := .venv-bench
PEERS := python-crfsuite sklearn-crfsuite hmmlearn seqeval nltk pyconll statsmodels pykalman filterpy kenlm "jax==0.10.2 dynamax==1.0.3" "torch==2.13.0 pytorch-crf"
# Options of benchmarks/run.py: make bench ARGS=--quick
ARGS ?=
CXX ?= c++
BIN := $(VENV)/bin
# An inherited path would let another tagloom, or another library, win over this one.
export PYTHONPATH :=
export PYTHONNOUSERSITE := 1
# The tests start hundreds of processes, which would otherwise compile every module again.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
# The compiled module is rebuilt when any of these is newer than the last install.
NATIVE := CMakeLists.txt cmake/kernels.cmake pyproject.toml $(wildcard src/cpp/*/*.cpp src/cpp/*/*.hpp)

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "tagloom needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12"; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.tools: $(BIN)/python
	$(PIP) install 'scikit-build-core>=0.11' 'nanobind>=3.1' 'cmake>=3.20' ninja \
	  setuptools wheel setuptools_scm  # the last three build seqeval, which has no wheel
	@touch $@

$(VENV)/.installed: $(VENV)/.tools $(NATIVE)
	@echo "Compiling the native core, which takes a few minutes ..."
	$(PIP) install --no-build-isolation -e .
	@touch $@

$(VENV)/.test: $(VENV)/.installed
	$(PIP) install --no-build-isolation -e '.[test,lint]'
	@touch $@

$(VENV)/.peers: $(VENV)/.test
	$(PIP) install --no-build-isolation -e '.[peers]'
	@touch $@

demo: $(VENV)/.installed  ## train, measure and try a tagger, in the terminal
	$(BIN)/tagloom demo

test: $(VENV)/.test  ## set up, lint, type-check and run the tests
	@$(MAKE) --no-print-directory -j 2 pytest lint

pytest: $(VENV)/.test
	$(BIN)/python -m pytest -m "not slow and not peers and not scripts and not soak and not serve and not browser and not cluster" -q -n auto --maxprocesses 8 --dist loadfile

test-large: $(VENV)/.test  ## sequences of a million positions, lines of 100 MB
	$(BIN)/python -m pytest -m "slow and not peers and not soak" -q -n auto --maxprocesses 4

test-scripts: $(VENV)/.test  ## run the examples and the harness of the benchmarks
	$(BIN)/python -m pytest -m scripts -q -n auto --maxprocesses 8

test-peers: $(VENV)/.peers  ## the tests that need heavy outside libraries
	$(BIN)/python -m pytest -m peers -q

test-serve: $(VENV)/.test  ## the server as a program: load, reloads, drain, fuzz, in short
	$(BIN)/python -m pytest -q -m "serve and not soak" tests/serve

# What the server is compared with; another environment that has it: make bench-serve RIVALS=FOLDER
RIVALS ?= build/serving/peers
build/serving/peers/bin/python:
	python3 -m venv build/serving/peers
	build/serving/peers/bin/pip install -q fastapi starlette 'uvicorn[standard]' msgspec sklearn-crfsuite

bench-serve: $(VENV)/.test $(RIVALS)/bin/python  ## what needs a quiet machine, four minutes: V15, V2, V7, V1, V3
	$(BIN)/python benchmarks/serving/checks.py --long V15 V2 V7
	$(BIN)/python benchmarks/serving/compare.py --python $(RIVALS)/bin/python --seconds 2 --turns 2

soak-serve: $(VENV)/.test  ## the same for an hour and a half; prints the figures
	$(BIN)/python benchmarks/serving/checks.py --long
	$(BIN)/python benchmarks/serving/soak.py --minutes 60 --rate 1000

$(VENV)/.studio: $(VENV)/.test
	$(PIP) install 'playwright>=1.50'
	@touch $@

# The scripts of the page need no build; TypeScript checks their types, axe-core their accessibility.
build/studio/.npm: $(VENV)/.studio
	@mkdir -p build/studio
	@if command -v npm > /dev/null; then \
	  npm install --silent --no-fund --no-audit --prefix build/studio typescript@5 axe-core@4 || \
	  echo "npm cannot install TypeScript and axe-core: types and accessibility are not checked"; \
	else echo "npm is missing: types and accessibility of the page are not checked (apt-get install npm)"; fi
	@command -v chromium > /dev/null || command -v chromium-browser > /dev/null || \
	  apt-get install -qq -y --no-install-recommends chromium > /dev/null 2>&1 || \
	  echo "chromium is missing: the page is not tested in a browser (apt-get install chromium)"
	@touch $@

test-studio: build/studio/.npm  ## the page in a browser: speed, keys, accessibility, hostile text
	$(BIN)/python -m pytest -m browser -q -rsP tests/studio

soak-studio: build/studio/.npm  ## kill the studio 200 times, two tabs, a simulated annotator, planted errors
	$(BIN)/python -m pytest -m soak -q -rsP tests/studio

$(VENV)/.ray: $(VENV)/.test
	$(PIP) install --no-build-isolation -e '.[ray]'
	@touch $@

test-cluster: $(VENV)/.ray  ## training and tagging on a Ray cluster, with nodes simulated on this machine
	$(BIN)/python -m pytest -m "cluster and not soak" -q -rsP tests/cluster

soak-cluster: $(VENV)/.ray  ## the long forms: 20 kills at random moments, a large corpus, 64 parts; prints the figures
	$(BIN)/python -m pytest -m "soak" -q -rsP tests/cluster

soak-hmm: $(VENV)/.test  ## learn a thousand random hidden Markov models
	$(BIN)/python -m pytest -m soak -q tests/learners

soak-foreign: $(VENV)/.test  ## damage models of other tools, many thousand times
	$(BIN)/python -m pytest -m soak -q tests/interop

soak-samplers: $(VENV)/.test  ## the samplers beside exact posteriors, for 100,000 sweeps
	$(BIN)/python -m pytest -m soak -q tests/learners/test_samplers.py tests/learners/test_gibbs.py tests/learners/test_geweke.py

soak-text: $(VENV)/.test  ## split lines of 100 MB
	$(BIN)/python -m pytest -m soak -q -s tests/text

soak-kills: $(VENV)/.test  ## kill jobs that write files at 200 random moments each
	$(BIN)/python -m pytest -m soak -q -s tests/faults

# Minutes of the soak: make soak MINUTES=10. With one arena of glibc, as `tagloom serve` has; more of
# them fill up for hours, as threads come to use each.
MINUTES ?= 60
soak: $(VENV)/.test  ## train, learn, save, load and tag for an hour; memory and results; MINUTES=10
	$(BIN)/python tools/soak.py --minutes $(MINUTES) --arenas 1

soak-memory: $(VENV)/.test  ## let every native allocation of load, fit and tag fail in turn
	$(BIN)/python -m pytest -m soak -q -s tests/faults/test_memory.py

soak-models: $(VENV)/.test  ## a million damaged model files, half with forged checksums
	$(BIN)/python -m pytest -m soak -q -s tests/fuzz

# Seconds for each target of the fuzzer: make fuzz SECONDS=60
SECONDS ?= 20
fuzz: $(VENV)/.test  ## search for inputs that break a reader, with coverage feedback; SECONDS=60 each
	$(PIP) install 'atheris>=2.3'
	$(BIN)/python tests/fuzz/fuzz.py --seconds $(SECONDS)

dist: $(VENV)/.test  ## build sdist and wheel twice, compare, test the installed wheel
	$(PIP) install build twine auditwheel cffconvert
	$(BIN)/python tools/dist.py

# Other interpreters: those on the path, and those in folders with another system (debootstrap), ROOTS=...
ROOTS ?=
test-pythons: $(VENV)/.test  ## build for each Python from 3.11 that is found, test the wheel; ROOTS=FOLDER ...
	$(BIN)/python tools/pythons.py $(addprefix --root ,$(ROOTS))

man: $(VENV)/.installed  ## rewrite the manual pages and completion scripts, share/
	rm -rf share
	$(BIN)/python -m tagloom.cli.manual share

lint: $(VENV)/.test  ## style, spelling and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror src/cpp/*/*.cpp src/cpp/*/*.hpp
	$(BIN)/codespell src docs tests benchmarks examples *.md
	$(BIN)/mypy

format: $(VENV)/.test  ## format Python and C++ in place
	$(BIN)/ruff check --fix -q .
	$(BIN)/ruff format -q .
	$(BIN)/clang-format -i src/cpp/*/*.cpp src/cpp/*/*.hpp

$(BENCH)/.peers:
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip --disable-pip-version-check -q install \
	  numpy setuptools wheel setuptools_scm  # the last three build seqeval, which has no wheel
	@for peer in $(PEERS); do \
	  $(BENCH)/bin/python -m pip --disable-pip-version-check -q install --no-build-isolation $$peer || \
	  echo "$$peer cannot be installed: the benchmarks go without it (rm $@ to try again)"; done
	@touch $@

bench: $(VENV)/.installed $(BENCH)/.peers  ## measure against the peers, side by side; ARGS=--quick
	$(BIN)/python benchmarks/run.py $(ARGS)

bench-trellis: $(VENV)/.peers  ## measure the kernels alone, against their peers
	$(BIN)/python benchmarks/trellis.py

bench-layer: $(VENV)/.peers  ## measure the layers for PyTorch, against pytorch-crf and torch.nn
	$(BIN)/python benchmarks/layer.py

# Builds a folder; what the compiler writes is shown only if it fails.
build = $(BIN)/cmake --build $(1) > $(1).log 2>&1 || { tail -n 30 $(1).log; exit 1; }

# The module is built a second time, with the kernels of every vector width made to run on any machine,
# and tests/conftest.py loads that one. Leaks are not looked for: the
# interpreter itself has thousands. An allocation that is too large fails as it does without ASan.
sanitize: $(VENV)/.test  ## the native tests under ASan and UBSan
	@mkdir -p build
	$(BIN)/cmake -S . -B build/sanitize -G Ninja -DTL_SANITIZE=ON -DTL_EMULATE=ON -DCMAKE_BUILD_TYPE=Debug \
	  -DPython_EXECUTABLE=$(abspath $(BIN)/python) -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) \
	  > build/sanitize.log
	$(call build,build/sanitize)
	TAGLOOM_NATIVE="$$(ls $(abspath build/sanitize)/_native*.so)" \
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" \
	ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 \
	  $(BIN)/python -m pytest -q -n 2 -m "not peers and not slow and not soak" tests/trellis tests/evaluation tests/sequences \
	  tests/features tests/training tests/storage tests/scores tests/language tests/dynamics \
	  tests/models/test_model_files.py tests/learners/test_samplers.py

# CPython and NumPy are not built with ThreadSanitizer, so what they access is not looked at; the locks
# of the GIL are seen. Threads do not depend on the width of vectors: one set of kernels is compiled.
THREADED := tests/trellis/test_threads.py tests/trellis/test_batches.py tests/training/test_online.py \
  tests/training/test_linear_objective.py tests/models/test_resident.py tests/features/test_native_scorer.py \
  tests/features/test_native_extractor.py tests/storage/test_packed_strings.py tests/native/test_many_threads.py
sanitize-threads: $(VENV)/.test  ## the tests with threads under ThreadSanitizer
	@mkdir -p build
	$(BIN)/cmake -S . -B build/threads -G Ninja -DTL_SANITIZE=thread -DTL_BASELINE=ON -DCMAKE_BUILD_TYPE=Debug \
	  -DPython_EXECUTABLE=$(abspath $(BIN)/python) -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) > build/threads.log
	$(call build,build/threads)
	TAGLOOM_NATIVE="$$(ls $(abspath build/threads)/_native*.so)" LD_PRELOAD="$$($(CXX) -print-file-name=libtsan.so)" \
	TSAN_OPTIONS="exitcode=66 report_signal_unsafe=0 report_thread_leaks=0 ignore_noninstrumented_modules=1 die_after_fork=0" \
	  setarch -R $(BIN)/python -m pytest -q -p no:xdist -m "not peers and not slow and not soak" $(THREADED)

# The native core alone, without Python (tests/native): plain, for another processor, with sanitizers.
UNITS = $(BIN)/cmake -S tests/native -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja)
sanitize-leaks: $(VENV)/.tools  ## the native units under LeakSanitizer, ASan and UBSan
	@mkdir -p build
	$(UNITS) -B build/leaks -DCMAKE_BUILD_TYPE=RelWithDebInfo -DTL_BASELINE=ON \
	  -DTL_SANITIZER="-O1;-fsanitize=address,undefined;-fno-sanitize-recover=undefined" > build/leaks.log
	$(call build,build/leaks)
	ASAN_OPTIONS=detect_leaks=1 build/leaks/units

test-aarch64: $(VENV)/.tools  ## the native units for aarch64, under qemu-user, beside this machine's
	@command -v aarch64-linux-gnu-g++ > /dev/null && command -v qemu-aarch64 > /dev/null || \
	  { echo "a compiler for aarch64 or qemu-user is missing: apt-get install g++-aarch64-linux-gnu qemu-user"; exit 2; }
	@mkdir -p build
	$(UNITS) -B build/units -DCMAKE_BUILD_TYPE=Release -DTL_BASELINE=ON > build/units.log
	$(UNITS) -B build/aarch64 -DCMAKE_BUILD_TYPE=Release -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
	  -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ > build/aarch64.log
	$(call build,build/units)
	$(call build,build/aarch64)
	build/units/units > build/units.txt
	qemu-aarch64 -L /usr/aarch64-linux-gnu build/aarch64/units > build/aarch64.txt
	diff build/units.txt build/aarch64.txt
	@echo "aarch64 under qemu-user gives the best paths and log Z of this machine's baseline:"; cat build/aarch64.txt

fuzz-native: $(VENV)/.tools  ## search for inputs that break the native readers (libFuzzer, clang); SECONDS=60 each
	@command -v clang++ > /dev/null || { echo "clang is missing: apt-get install clang libclang-rt-dev"; exit 2; }
	@mkdir -p build/found
	$(UNITS) -B build/fuzz -DCMAKE_BUILD_TYPE=RelWithDebInfo -DTL_FUZZ=ON -DCMAKE_CXX_COMPILER=clang++ \
	  -DTL_SANITIZER="-O1;-fsanitize=address,undefined;-fno-sanitize-recover=undefined" > build/fuzz.log
	$(call build,build/fuzz)
	$(BIN)/python tests/native/fuzz.py build/fuzz --seconds $(SECONDS)

docs: $(VENV)/.test  ## build the documentation, warnings are errors
	$(PIP) install --no-build-isolation -e '.[docs]'
	$(BIN)/python -m sphinx -W -q -b html docs docs/_build/html

stubs: $(VENV)/.installed  ## rewrite the stub of the native module
	$(BIN)/python -m nanobind.stubgen -q -m tagloom._native -o src/tagloom/_native.pyi

clean:  ## remove everything that the other targets made
	rm -rf $(VENV) $(BENCH) build docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
