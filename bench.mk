# The native engine's own targets.
.PHONY: bench bench-loads roofline bench-sparseprop sanitize arm

bench: setup  ## speed beside masked dense PyTorch (on an idle machine)
	$(BIN)/python -m benchmarks.bench

bench-loads:  ## what bounds a sparse linear layer on this machine
	mkdir -p build
	$(CXX) -O3 -march=native -mprefer-vector-width=512 -std=c++17 benchmarks/loads.cpp -o build/loads
	build/loads

roofline: setup  ## docs/images/roofline.svg (on an idle machine)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt matplotlib
	$(BIN)/python -m benchmarks.roofline

bench-sparseprop: setup  ## speed beside SparseProp, in an environment of its own
	benchmarks/sparseprop.sh $(VENV)

sanitize: setup  ## the engine's tests under the address and undefined-behaviour sanitizers
	$(BIN)/python -m pip install --quiet --disable-pip-version-check cmake ninja nanobind
	PATH="$(abspath $(BIN)):$$PATH" cmake -S . -B build/sanitize -G Ninja -DCMAKE_BUILD_TYPE=Release -DNISPA_SANITIZE=ON \
		-DPython_EXECUTABLE="$(abspath $(BIN))/python"
	PATH="$(abspath $(BIN)):$$PATH" cmake --build build/sanitize
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
		ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 NISPA_OWN_THREADS=1 \
		PYTHONPATH=tests/engine/sanitized NISPA_SANITIZED=build/sanitize \
		$(BIN)/python -m pytest -q -s -p no:cacheprovider --timeout=1800 tests/engine -k "not lesser and not ones_own"

arm:  ## do the kernels compile for NEON? (needs aarch64-linux-gnu-g++)
	mkdir -p build/arm
	for file in isa_base choose plan pool; do aarch64-linux-gnu-g++ -std=c++17 -O3 -ffp-contract=fast -Wall -Wextra -Werror \
		-c src/nispa/engine/csrc/$$file.cpp -o build/arm/$$file.o || exit 1; done
