# Everything runs inside .venv, which `make install` creates. PYTHON chooses the interpreter (3.11 or later).
PYTHON ?= python3
BIN := .venv/bin

.PHONY: install native native-arm64 serve test nightly contract check lint sanitize bench clean

# The package with everything its tests need.
install: .venv/tests-installed

# Rebuilt when the package's description or its C++ changes; Python sources are used in place.
.venv/installed: pyproject.toml CMakeLists.txt $(wildcard src/halfline/native/csrc/* src/halfline/native/csrc/kernels/*)
	@echo "Installing into .venv and compiling the kernels: about two minutes on two cores."
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable .
	touch $@

# Only what the extras name: asking pip for the package again would compile the kernels again.
.venv/tests-installed: .venv/installed
	@echo "Installing what the tests need, torch among it: a few minutes the first time."
	$(BIN)/python -c "import tomllib; extras = tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']; \
	  print(*(need for extra in ('grpc', 'hub', 'index', 'lsp', 'plots', 'quality', 'redis', 'semantic', 'syntax', 'test') for need in extras[extra] if not need.startswith('halfline')), sep='\n')" \
	  > .venv/test-requirements.txt
	$(BIN)/pip install --quiet --requirement .venv/test-requirements.txt
	touch $@

# Only what changed in the C++, into the installed package.
native: .venv/installed
	$(BIN)/pip install --quiet --no-deps --editable .

CSRC := src/halfline/native/csrc
# The engine without Python, and without what only benchmarks ask for.
ENGINE := $(filter-out %/binding.cpp %/limits.cpp %/compute_probes.cpp,$(wildcard $(CSRC)/*.cpp))

# The portable kernels on arm64, emulated, must print the checksums they print here.
# Needs g++-aarch64-linux-gnu and qemu-user-static.
KERNELS_TEST := tests/native/kernels_test.cpp $(ENGINE) $(CSRC)/kernels/isa_portable.cpp
KERNELS_FLAGS := -std=c++20 -O2 -ffp-contract=off -fno-math-errno -fno-trapping-math -I$(CSRC) -pthread -static
native-arm64:
	mkdir -p build/arm64
	$(CXX) $(KERNELS_FLAGS) $(KERNELS_TEST) -o build/arm64/here
	aarch64-linux-gnu-g++ $(KERNELS_FLAGS) $(KERNELS_TEST) -o build/arm64/there
	build/arm64/here | tee build/arm64/here.txt
	qemu-aarch64-static build/arm64/there > build/arm64/there.txt
	diff build/arm64/here.txt build/arm64/there.txt

# The kernels, the thread team and the engine without Python, under the compiler's sanitizers. What tile instructions
# read and write they cannot see; results are compared all the same. Races do not depend on the
# instruction path, so the thread sanitizer gets the portable one alone.
SANITIZED := $(basename $(notdir $(ENGINE))) isa_portable sanitize_test
ifneq ($(filter x86_64 amd64,$(shell uname -m)),)
ADDRESSED := $(SANITIZED) isa_avx2 isa_avx512vnni isa_amx
X86 := -DHALFLINE_X86 -DHALFLINE_AMX
else
ADDRESSED := $(SANITIZED)
endif
SANITIZE_FLAGS := -std=c++20 -g -O1 -ffp-contract=off -fno-math-errno -fno-omit-frame-pointer -I$(CSRC) -pthread
vpath %.cpp $(CSRC) $(CSRC)/kernels tests/native

sanitize: build/sanitize/address/sanitize_test build/sanitize/address/kernels_test build/sanitize/thread/sanitize_test
	ASAN_OPTIONS=detect_leaks=0 build/sanitize/address/sanitize_test
	ASAN_OPTIONS=detect_leaks=0 build/sanitize/address/kernels_test
	build/sanitize/thread/sanitize_test quick

build/sanitize/address/sanitize_test: $(ADDRESSED:%=build/sanitize/address/%.o)
	$(CXX) -fsanitize=address,undefined -pthread $^ -o $@
build/sanitize/address/kernels_test: $(filter-out %/sanitize_test.o,$(ADDRESSED:%=build/sanitize/address/%.o)) build/sanitize/address/kernels_test.o
	$(CXX) -fsanitize=address,undefined -pthread $^ -o $@
build/sanitize/thread/sanitize_test: $(SANITIZED:%=build/sanitize/thread/%.o)
	$(CXX) -fsanitize=thread -pthread $^ -o $@
build/sanitize/address/%.o: %.cpp $(wildcard $(CSRC)/*.hpp $(CSRC)/kernels/*.hpp)
	@mkdir -p $(@D)
	$(CXX) $(SANITIZE_FLAGS) $(X86) $(ISA) -fsanitize=address,undefined -fno-sanitize-recover=all -c $< -o $@
build/sanitize/thread/%.o: %.cpp $(wildcard $(CSRC)/*.hpp $(CSRC)/kernels/*.hpp)
	@mkdir -p $(@D)
	$(CXX) $(SANITIZE_FLAGS) -fsanitize=thread -c $< -o $@
build/sanitize/address/isa_avx2.o: ISA := -mavx2 -mfma -mf16c
build/sanitize/address/isa_avx512vnni.o build/sanitize/address/isa_amx.o: ISA := -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -w

# Only the base install: a user who serves needs neither torch nor a test runner.
serve: .venv/installed
	$(BIN)/halfline serve

# What needs no run comes first, as it fails in seconds.
test: lint
	$(BIN)/pytest

# What takes too long for every change: a million random steps, hundreds of real prompts.
nightly: install
	$(BIN)/pytest -m nightly

# The pages of what clients may rely on, which `make test` holds every change to; for a change that is meant.
contract: install
	$(BIN)/python -c "import json; from halfline.api.app import create_app; from halfline.api.options import ApiOptions; \
	  print(json.dumps(create_app(exit, ApiOptions()).openapi(), indent=1, sort_keys=True))" > docs/openapi.json
	$(BIN)/python -m grpc_tools.protoc -I src --python_out=src --pyi_out=src halfline/api/rpc/halfline.proto
	$(BIN)/python -c "import json; from halfline.api.rpc.descriptor import described; print(json.dumps(described(), indent=1))" > docs/grpc.json

# The half minute before a commit: everything but the tests that need a model, a server or the compiled kernels.
check: lint
	$(BIN)/pytest tests/pure -q

lint: install
	$(BIN)/ruff check src tests bench
	$(BIN)/ruff format --check src tests bench
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: install
	$(BIN)/halfline bench engine

clean:
	rm -rf .venv build dist
