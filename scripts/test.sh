#!/usr/bin/env bash
# Installs what is missing, builds, and runs all tests: style and layering checks, unit and command-line tests,
# the unit tests again under AddressSanitizer and UBSan, bounded fuzzing. Ends with ctest's summary, what was not run
# and why, and ctest's verdict once more.
#   scripts/test.sh            everything
#   scripts/test.sh --quick    the tests alone: no lint, no sanitizers, no fuzzing
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/setup.sh

quick=false
[ "${1:-}" = --quick ] && quick=true
build=${LATHE_BUILD:-build}

# What a whole run leaves, the unit tests with sanitizers most of it, and what its tests write meanwhile.
needed=$($quick && echo 4 || echo 16)
free=$(df --output=avail -B1G . | tail -n 1 | tr -d ' ')
[ "$free" -ge "$needed" ] || say "Only $free GiB are free here; this may take $needed. \`--quick\` takes 4."

write_onnx_cases

say "Building"
options=(-DLATHE_UNITY=ON -DLATHE_PYTHON="$LATHE_PYTHON" -DLATHE_ONNX_TEST_DATA="$LATHE_ONNX_CASES")
if $quick; then
  build_lathe "$build" "${options[@]}" -DLATHE_CHECKS=OFF
else
  build_lathe "$build" "${options[@]}" -DLATHE_CHECKS=ON
  say "Building the unit tests and fuzz targets with AddressSanitizer and UBSan"
  CC=clang-14 CXX=clang++-14 build_lathe "$build-sanitize" -DLATHE_UNITY=ON -DLATHE_SANITIZE=ON -DLATHE_FUZZ=ON -DLATHE_WERROR=OFF \
    -DCMAKE_CXX_FLAGS_RELEASE="-O0 -g1" -DLATHE_PYTHON="$LATHE_PYTHON"
fi

say "Testing"
export LATHE_PYTHON
said=$(mktemp)
trap 'rm -f "$said"' EXIT
status=0
ctest --test-dir "$build" --output-on-failure --parallel "$(nproc)" | tee "$said" || status=$?
python3 scripts/not-run.py "$build" "$said"
exit "$status"
