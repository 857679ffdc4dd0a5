#!/usr/bin/env bash
# Makes what a release hands out, into dist/: a wheel that carries its third-party libraries (all but OpenVINO, which pip
# installs), a Debian package, the source archive, lists of what is in them (CycloneDX), and checksums; then installs the
# wheel into a new virtual environment with nothing but pip and runs the demo there. The Dockerfile's first stage is this.
#   scripts/release.sh [--no-check] [--no-deb]
set -euo pipefail
cd "$(dirname "$0")/.."
export LATHE_CUDA=${LATHE_CUDA:-OFF} LATHE_SETUP=release
check=true deb=true
for word in "$@"; do
  case $word in
    --no-check) check=false ;;
    --no-deb) deb=false ;;
    *) echo "release.sh: $word is not known; known are --no-check and --no-deb" >&2; exit 2 ;;
  esac
done
. scripts/setup.sh

dist=$LATHE_ROOT/dist
rm -rf "$dist"
mkdir -p "$dist"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say "Building the wheel"
export CCACHE_BASEDIR=$LATHE_ROOT CCACHE_NOHASHDIR=1 CMAKE_GENERATOR=Ninja CC=${CC:-cc} CXX=${CXX:-c++}
CMAKE_EXECUTABLE=$(command -v cmake)
export CMAKE_EXECUTABLE
command -v ccache >/dev/null && export CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_CUDA_COMPILER_LAUNCHER=ccache
"$LATHE_PYTHON" -m pip wheel -q --disable-pip-version-check --no-deps --no-index --no-build-isolation \
  --config-settings=build-dir="$LATHE_ROOT/build-wheel" --config-settings=cmake.define.LATHE_CUDA="$LATHE_CUDA" -w "$work" .

say "Carrying its libraries"
# The lowest manylinux that its symbols allow is chosen and told. OpenVINO comes from its own wheel.
PATH=$LATHE_VENV/bin:$PATH LD_LIBRARY_PATH=$OpenVINO_DIR/../libs "$LATHE_VENV/bin/auditwheel" repair \
  --exclude 'libopenvino*' --exclude 'libtbb*' -w "$dist" "$work"/lathe-*.whl

say "Source archive, contents, checksums"
"$LATHE_PYTHON" -c 'import sys, scikit_build_core.build as build; print(build.build_sdist(sys.argv[1]))' "$dist"
"$LATHE_PYTHON" scripts/sbom.py "$dist"/lathe-*.whl >"$dist/lathe.cdx.json"
if $deb; then
  say "Debian package"
  build_lathe build-deb -DLATHE_UNITY=ON
  scripts/deb.sh build-deb "$dist"
  "$LATHE_PYTHON" scripts/sbom.py "$dist"/lathe_*.deb >"$dist/lathe.deb.cdx.json"
fi
(cd "$dist" && sha256sum -- * >SHA256SUMS && cat SHA256SUMS)

$check || exit 0
say "In an environment with nothing but pip"
/usr/bin/python3 -m venv "$work/venv"
time "$work/venv/bin/pip" install -q --disable-pip-version-check "$dist"/lathe-*.whl
time env -u LATHE_PYTHON "$work/venv/bin/lathe" demo --output "$work/demo"
