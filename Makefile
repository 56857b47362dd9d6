# make score   the scoring table (ARGS="--network resnet-50 --batch-size 1" passes options on)
# make test    everything that CI checks
# make help    the other targets
#
# Every target installs its requirements on a plain Debian 12 and repeats only steps whose inputs have changed.
.DELETE_ON_ERROR:
.NOTPARALLEL:
.DEFAULT_GOAL := help
SHELL := /bin/bash
STEP := tools/step.sh
export NINJA_STATUS := [%f/%t, %es] 
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# CMake finds this compiler name by itself, whereas pip would use Python's. ccache keeps objects separately for each name.
ifeq ($(origin CXX),default)
export CXX := c++
endif

WHEEL_BUILD := build/wheel
SETUP := .venv/.setup
TOOLS := .venv/.tools
BUILD := $(WHEEL_BUILD)/.installed
REPAIRED := $(WHEEL_BUILD)/.repaired
SOURCES := CMakeLists.txt $(shell find cpp cmake python -type f -not -name '*.so' -not -name '*.pyc' 2>/dev/null)
WERROR := $(if $(CI),ON,OFF)

help:  ## show the targets
	@grep -hE '^[a-z-]+:.*##' Makefile | sed -E 's/:[^#]*## /\t/' | expand -t 18

setup: $(TOOLS)  ## install missing Debian packages and the Python environment .venv
$(SETUP): pyproject.toml tools/setup.sh
	@$(STEP) "setup" tools/setup.sh build
	@touch $@
$(TOOLS): $(SETUP) tools/requirements-cuda.txt
	@$(STEP) "setup of checks" tools/setup.sh all
	@touch $@

build: $(BUILD)  ## build the wheel and install it into .venv
$(BUILD): $(SETUP) $(SOURCES)
	@rm -rf $(WHEEL_BUILD)/dist
	@$(STEP) "build" pip wheel . -v --disable-pip-version-check --no-build-isolation --no-deps \
	  --wheel-dir $(WHEEL_BUILD)/dist -C build-dir=$(WHEEL_BUILD) \
	  -C cmake.define.MXLITE_TESTS=ON -C cmake.define.MXLITE_WERROR=$(WERROR)
	@$(STEP) "install" pip install --quiet --disable-pip-version-check --force-reinstall --no-deps \
	  --no-index --find-links $(WHEEL_BUILD)/dist mxlite
	@touch $@

score: $(BUILD)  ## scoring table, plot and JSON; options in ARGS
	@$(STEP) "score" python benchmarks/benchmark_score.py $(ARGS)

peers: $(BUILD)  ## scoring beside MXNet 1.9.1, PyTorch, ONNX Runtime, OpenVINO; options in ARGS
	@$(STEP) "environments of the peers" benchmarks/peers/setup
	@$(STEP) "peers" python benchmarks/peers/run.py $(ARGS)

train-step: $(BUILD)  ## training steps beside MXNet 1.9.1 and PyTorch; options in ARGS
	@$(STEP) "environments of the peers" benchmarks/peers/setup
	@$(STEP) "training steps" python benchmarks/training/train_step.py $(ARGS)

wheel: $(REPAIRED)  ## wheelhouse/*.whl with all its libraries, and the shims mxnet and horovod
$(REPAIRED): $(BUILD) $(TOOLS) $(wildcard shim/*/*.* shim/*/*/*.*)
	@rm -rf wheelhouse
	@$(STEP) "bundle libraries" tools/release/bundle.sh $(WHEEL_BUILD)/dist/mxlite-*.whl wheelhouse
	@$(STEP) "shims" pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps -w wheelhouse \
	  shim/mxnet shim/horovod
	@touch $@

release: $(BUILD) $(TOOLS)  ## dist/: wheels for all Pythons of this machine, source archive, shims; checked. ARGS="--python 3.11 3.12"
	@$(STEP) "release" python tools/release/build.py $(ARGS)

# Notebooks run again only if they or the version have changed. FORCE=1 runs all notebooks.
docs: $(BUILD) $(TOOLS)  ## the documentation site in build/site; warnings and dead links are errors
	@$(STEP) "site" env MXLITE_DOCS_EXECUTION=$(if $(FORCE)$(CI),force,cache) \
	  sphinx-build -q -W --keep-going -n -j auto -d build/doctrees docs build/site
	@$(STEP) "links of the site" python tools/check_site.py build/site

test: lint test-cpp test-sanitizers test-fuzz test-faults test-wheel test-cuda docs test-python  ## all checks, as in CI

lint: $(BUILD) $(TOOLS)  ## formats, types, include directions, generated files
	@tools/lint.sh

test-cpp: $(BUILD) $(TOOLS)  ## C++ tests
	@$(STEP) "build C++ tests" ninja -C $(WHEEL_BUILD) --quiet cpp_tests
	@$(STEP) "C++ tests" ctest --test-dir $(WHEEL_BUILD) --output-on-failure -j2 --no-tests=error
	@$(STEP) "kernels for AVX2" env ONEDNN_MAX_CPU_ISA=AVX2 ctest --test-dir $(WHEEL_BUILD) --output-on-failure -j2 \
	  --no-tests=error -R '^(planned_|onednn_|cpu_norm_|gemm_test)'
	@$(STEP) "library without Python" tools/check_without_python.sh

test-sanitizers: $(TOOLS)  ## C++ tests of the lower folders under the thread and address sanitizers
	@$(STEP) "tsan" tools/sanitize.sh tsan
	@$(STEP) "asan" tools/sanitize.sh asan

test-fuzz: $(BUILD) $(TOOLS)  ## each fuzz target for 20 s, and 500 random graphs
	@$(STEP) "fuzz targets" python tests/fuzz/run.py --seconds 20
	@$(STEP) "random graphs" python tests/fuzz/operators.py --graphs --calls 500 --seed 2

fuzz: fuzz-graphs  ## all fuzz targets, HOURS=1 together, SEED random; figures into tests/fuzz/figures.json
	@$(STEP) "fuzz targets" python tests/fuzz/run.py --hours $(or $(HOURS),1) --seed $(or $(SEED),random) \
	  --output tests/fuzz/figures.json

fuzz-graphs: $(BUILD) $(TOOLS)  ## 20,000 random graphs, eager, hybridized, bound and in float64; about 10 minutes
	@$(STEP) "random graphs" python tests/fuzz/operators.py --graphs --calls 20000 --seed $(or $(SEED),1) \
	  --json tests/fuzz/results/graphs.json

test-wheel: $(REPAIRED)  ## the bundled wheel in a clean environment
	@$(STEP) "wheel in a clean environment" tools/check_wheel.sh

test-cuda: $(BUILD) $(TOOLS)  ## libmxlite_cuda.so compiles and links; its tests (tests/python/gpu) run where there is a GPU
	@$(STEP) "CUDA build" tools/build_cuda.sh
	@$(STEP) "stand-in for a GPU" ninja -C $(WHEEL_BUILD) --quiet mxlite_fake_gpu
	@$(STEP) "GPU tests on the stand-in" env MXLITE_CUDA_LIBRARY=$(CURDIR)/$(WHEEL_BUILD)/tests/libmxlite_fake_gpu.so \
	  python -m pytest tests/python/gpu tests/python/dist/test_nccl.py

# A random schedule with the seed ORDER interleaves blocks and threads.
test-emulated: $(BUILD) $(TOOLS)  ## the CUDA kernels, compiled for the CPU, on the operator table; not part of test
	@$(STEP) "kernels for the emulator" ninja -C $(WHEEL_BUILD) --quiet mxlite_emulated_gpu
	@$(STEP) "CUDA kernels, emulated" env MXLITE_CUDA_LIBRARY=$(CURDIR)/$(WHEEL_BUILD)/tests/libmxlite_emulated_gpu.so \
	  MXLITE_EMULATED_ORDER=$(or $(ORDER),1) python -m pytest tests/python/gpu

test-python: $(BUILD) $(TOOLS)  ## Python tests; options in ARGS
	@printf '\n=== Python tests\n'
	@python -m pytest tests/python --durations=5 $(ARGS)

test-long: test-emulated faults  ## checks that are too slow for test: about 90 minutes
	@$(STEP) "operators, graph and bindings under sanitizers" tools/sanitize_package.sh

test-faults: $(BUILD) $(TOOLS)  ## a few of the faults of make faults
	@$(STEP) "libraries that make faults" ninja -C $(WHEEL_BUILD) --quiet mxlite_fail_allocation mxlite_lossy_frames
	@$(STEP) "faults" tools/faults.sh ci

# FAULTS=full runs as many jobs as for the published figures.
faults: $(BUILD) $(TOOLS)  ## killed and stopped ranks, lost frames, soak: a short run; FAULTS=full for the full run
	@$(STEP) "libraries that make faults" ninja -C $(WHEEL_BUILD) --quiet mxlite_fail_allocation mxlite_lossy_frames
	@$(STEP) "faults" tools/faults.sh $(FAULTS)

fuzz-operators: $(BUILD) $(TOOLS)  ## random calls of all operators behind guard pages, about 15 minutes
	@$(STEP) "fuzz operators" python tests/fuzz/operators.py --calls 100000 --seed 1 \
	  --json tests/fuzz/results/operators.json

fuzz-numpy: $(BUILD) $(TOOLS)  ## 20,000 random calls of mx.np against NumPy, about 10 minutes
	@$(STEP) "fuzz mx.np" python tests/fuzz/numpy_calls.py --calls 20000 --seed 1 \
	  --json tests/fuzz/results/numpy.json

MUTATION := tests/mutation
mutation: $(BUILD) $(TOOLS)  ## 200 changed lines of CPU kernels and changed Python modules: the tests must notice; about an hour
	@cmake --preset dev >/dev/null
	@$(STEP) "build the dev preset" ninja -C build/dev --quiet all cpp_tests
	@$(STEP) "kernels with mutants" python $(MUTATION)/build.py
	@$(STEP) "tests on mutants" python $(MUTATION)/run.py --output $(MUTATION)/results/kernels.json
	@$(STEP) "survivors behind guard pages" python $(MUTATION)/run.py --guard --output $(MUTATION)/results/kernels.json
	@pip install --quiet --disable-pip-version-check --upgrade --target build/mutmut_env mutmut==3.8.1
	@$(STEP) "mutmut" python $(MUTATION)/python_modules.py --output $(MUTATION)/results/python.json

format:  ## format the sources
	@$(STEP) "format" tools/format.sh -i
	@ruff format . && ruff check --fix .

clean:  ## remove all that was built (keeps .venv)
	rm -rf build dist wheelhouse python/mxlite/*.so $(SETUP) $(TOOLS)

.PHONY: help setup build score peers train-step wheel release docs test lint test-cpp test-sanitizers test-fuzz fuzz fuzz-graphs test-wheel test-cuda test-emulated test-python test-long faults fuzz-operators mutation format clean
