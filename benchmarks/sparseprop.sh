#!/usr/bin/env bash
# SparseProp (ICML 2023) in an environment of its own, beside ours: benchmarks/sparseprop.sh [VENV OF OURS]
set -euo pipefail
cd "$(dirname "$0")/.."
ours=${1:-.venv}
env=build/sparseprop
if [ ! -e "$env/.ready" ]; then
  python3 -m venv "$env"
  "$env/bin/pip" install --quiet --disable-pip-version-check -c constraints.txt torch numpy 'setuptools<80' wheel pybind11 scipy
  "$env/bin/pip" install --quiet --disable-pip-version-check -c constraints.txt --no-build-isolation --no-deps sparseprop
  touch "$env/.ready"
fi
"$ours/bin/python" -m benchmarks.beside_sparseprop "$env/bin/python"
