#!/usr/bin/env bash
# Installs what is missing, builds, and runs all tests: style and layering checks, unit and command-line tests,
# the unit tests again under AddressSanitizer and UBSan, bounded fuzzing. Ends with ctest's own summary.
#   scripts/test.sh            everything
#   scripts/test.sh --quick    the tests alone: no lint, no sanitizers, no fuzzing
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/setup.sh

quick=false
[ "${1:-}" = --quick ] && quick=true
build=${LATHE_BUILD:-build}

say "Building"
options=(-DLATHE_PYTHON="$LATHE_PYTHON")
$quick || options+=(-DLATHE_CHECKS=ON)
build_lathe "$build" "${options[@]}"
if ! $quick; then
  say "Building the unit tests with AddressSanitizer and UBSan"
  build_lathe "$build-sanitize" -DLATHE_SANITIZE=ON -DCMAKE_BUILD_TYPE=RelWithDebInfo -DLATHE_PYTHON="$LATHE_PYTHON"
  say "Building the fuzz targets"
  CC=clang-14 CXX=clang++-14 build_lathe "$build-fuzz" -DLATHE_FUZZ=ON -DLATHE_TESTS=OFF -DLATHE_WERROR=OFF
fi

say "Testing"
export LATHE_PYTHON
exec ctest --test-dir "$build" --output-on-failure --parallel "$(nproc)"
