#!/usr/bin/env bash
# Installs what Lathe needs and is missing: Debian packages, one Python environment, ONNX's C++ library.
# LATHE_SETUP says for what, and so what may be left out: all (the default), demo (no tests: scripts/demo.sh), release
# (demo, and what makes wheels: scripts/release.sh), wheel (no Python environment of ours: LATHE_PYTHON is the one that
# builds; scripts/wheel_backend.py).
# Third-party builds go to $LATHE_CACHE (default ~/.cache/lathe), keyed by version, and are reused.
# Run it for its effect, or source it for the variables LATHE_VENV, LATHE_PYTHON, LATHE_ONNX_ROOT, OpenVINO_DIR
# LATHE_TRITON_SERVER (and, where nvcc is found, LATHE_CUDNN_FRONTEND_ROOT).
set -euo pipefail

LATHE_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
LATHE_CACHE=${LATHE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/lathe}
LATHE_SETUP=${LATHE_SETUP:-all}
case $LATHE_SETUP in all | demo | release | wheel) ;; *)
  echo "LATHE_SETUP=$LATHE_SETUP is not known; known are all, demo, release and wheel" >&2
  exit 2 ;;
esac

say() { printf '\n== %s\n' "$*"; }

as_root() {
  # Under pip nobody sees a question.
  local quiet=()
  [ "$LATHE_SETUP" = wheel ] && quiet=(-n)
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "${quiet[@]}" "$@"; fi
}

install_debian_packages() {
  # Debian's archive is signed; versions are those of Debian 12.
  local wanted missing=()
  local without_tests='/^# tests$/,$d'
  [ "$LATHE_SETUP" = all ] && without_tests=
  mapfile -t wanted < <(sed "$without_tests" "$LATHE_ROOT/requirements/debian.txt" | sed 's/#.*//; /^[[:space:]]*$/d')
  for package in "${wanted[@]}"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  say "Installing Debian packages: ${missing[*]}"
  if ! as_root true 2>/dev/null; then
    echo "Lathe needs Debian packages that only root may install. As root: apt-get install -y ${missing[*]}" >&2
    return 1
  fi
  as_root apt-get update -q
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
}

install_python_packages() {
  if [ "$LATHE_SETUP" = wheel ]; then
    LATHE_VENV= OpenVINO_DIR= # CMake finds OpenVINO in the environment that builds.
    mkdir -p "$LATHE_CACHE"
    return
  fi
  local lock=$LATHE_ROOT/requirements/python.txt
  LATHE_VENV=$LATHE_CACHE/venv-$(sha256sum "$lock" | cut -c1-12)
  if [ ! -e "$LATHE_VENV/.complete" ]; then
    say "Installing Python packages into $LATHE_VENV"
    rm -rf "$LATHE_VENV"
    mkdir -p "$LATHE_CACHE"
    /usr/bin/python3 -m venv "$LATHE_VENV"
    "$LATHE_VENV/bin/pip" install -q --no-cache-dir --disable-pip-version-check --require-hashes --no-deps -r "$lock"
    touch "$LATHE_VENV/.complete"
  fi
  # More packages (text models, diffusion, Triton's schema, notebooks, detection, the wheel, Ray, Kubernetes, the site) go
  # into the same environment, each on its own lock: a change there leaves PyTorch where it is.
  local name more marker
  local more_names=(text diffusion triton notebook detection wheel ray kubernetes docs)
  case $LATHE_SETUP in
    demo) more_names=() ;;
    release) more_names=(wheel) ;;
  esac
  for name in "${more_names[@]}"; do
    more=$LATHE_ROOT/requirements/$name.txt
    marker=$LATHE_VENV/.$name-$(sha256sum "$more" | cut -c1-12)
    [ -e "$marker" ] && continue
    say "Installing the Python packages of requirements/$name.txt into $LATHE_VENV"
    "$LATHE_VENV/bin/pip" install -q --no-cache-dir --disable-pip-version-check --require-hashes --no-deps -r "$more"
    touch "$marker"
  done
  LATHE_PYTHON=$LATHE_VENV/bin/python
  OpenVINO_DIR=$("$LATHE_PYTHON" -c 'import importlib.util, pathlib
print(pathlib.Path(importlib.util.find_spec("openvino").origin).parent / "cmake")')
}

build_onnx() {
  local pin=$LATHE_ROOT/requirements/onnx-source.txt version work tools=${LATHE_VENV:+$LATHE_VENV/bin:}$PATH
  version=$(sed -n 's/^onnx==\([^ ]*\).*/\1/p' "$pin")
  LATHE_ONNX_ROOT=$LATHE_CACHE/onnx-$version-$(c++ -dumpversion)
  [ -e "$LATHE_ONNX_ROOT/.complete" ] && return
  say "Building ONNX $version (about two minutes on two cores)"
  work=$(mktemp -d "$LATHE_CACHE/onnx-build.XXXXXX")
  PATH=$tools "$LATHE_PYTHON" -m pip download -q --disable-pip-version-check --no-deps --no-binary onnx \
    --no-build-isolation --require-hashes -r "$pin" -d "$work"
  tar -xf "$work/onnx-$version.tar.gz" -C "$work"
  PATH=$tools cmake -G Ninja -S "$work/onnx-$version" -B "$work/build" -DCMAKE_BUILD_TYPE=Release \
    -DONNX_BUILD_PYTHON=OFF -DONNX_ML=1 -DONNX_USE_PROTOBUF_SHARED_LIBS=ON -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
    -DCMAKE_INSTALL_PREFIX="$LATHE_ONNX_ROOT" >"$work/log" 2>&1 || { tail -n 40 "$work/log"; rm -rf "$work"; return 1; }
  ninja -C "$work/build" install >"$work/log" 2>&1 || { tail -n 40 "$work/log"; rm -rf "$work"; return 1; }
  touch "$LATHE_ONNX_ROOT/.complete"
  rm -rf "$work"
}

# Headers for the CUDA engine, only where nvcc is and LATHE_CUDA is not OFF: the cuDNN frontend's.
fetch_cuda_headers() {
  LATHE_CUDNN_FRONTEND_ROOT=
  [ "${LATHE_CUDA:-AUTO}" != OFF ] || return 0
  command -v nvcc >/dev/null || [ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ] || return 0
  local pin=$LATHE_ROOT/requirements/cuda.txt folder work wheel
  folder=$LATHE_CACHE/cuda-headers-$(sha256sum "$pin" | cut -c1-12)
  LATHE_CUDNN_FRONTEND_ROOT=$folder
  [ -e "$folder/.complete" ] && return
  say "Fetching the CUDA engine's headers into $folder"
  work=$(mktemp -d "$LATHE_CACHE/cuda-headers.XXXXXX")
  "$LATHE_PYTHON" -m pip download -q --disable-pip-version-check --no-deps --require-hashes -r "$pin" -d "$work"
  for wheel in "$work"/*.whl; do
    "$LATHE_PYTHON" -m zipfile -e "$wheel" "$work/all"
  done
  rm -rf "$folder"
  mkdir -p "$folder"
  mv "$work/all/include" "$folder/include"
  touch "$folder/.complete"
  rm -rf "$work"
}

# The Triton server, without which its tests are skipped: a program and its libraries, 103 MiB.
unpack_triton_server() {
  local pin=$LATHE_ROOT/requirements/triton-server.txt folder work
  LATHE_TRITON_SERVER=
  [ "$LATHE_SETUP" = all ] || return 0
  folder=$LATHE_CACHE/triton-server-$(sha256sum "$pin" | cut -c1-12)
  LATHE_TRITON_SERVER=$folder/pytriton/tritonserver/bin/tritonserver
  [ -e "$folder/.complete" ] && return
  if [ "$(uname -m)" != x86_64 ]; then
    LATHE_TRITON_SERVER=
    return
  fi
  say "Unpacking the Triton server into $folder (103 MiB)"
  work=$(mktemp -d "$LATHE_CACHE/triton-server.XXXXXX")
  "$LATHE_PYTHON" -m pip download -q --disable-pip-version-check --no-deps --require-hashes -r "$pin" -d "$work"
  "$LATHE_PYTHON" -m zipfile -e "$work"/nvidia_pytriton-*.whl "$work/all"
  rm -rf "$folder"
  mkdir -p "$folder/pytriton/tritonserver"
  mv "$work/all/pytriton/tritonserver/bin" "$folder/pytriton/tritonserver/bin"
  mv "$work/all/nvidia_pytriton.libs" "$folder/nvidia_pytriton.libs" # where the program looks for it
  rm -f "$folder"/nvidia_pytriton.libs/libpython*                    # for models in Python
  chmod +x "$LATHE_TRITON_SERVER"
  touch "$folder/.complete"
  rm -rf "$work"
}

# ONNX's backend test cases into the folder LATHE_ONNX_CASES: the wheel carries the code that generates them.
write_onnx_cases() {
  LATHE_ONNX_CASES=$LATHE_CACHE/onnx-cases-$(basename "$LATHE_ONNX_ROOT")
  [ -e "$LATHE_ONNX_CASES/.complete" ] && return
  say "Writing ONNX's backend test cases"
  rm -rf "$LATHE_ONNX_CASES"
  "$LATHE_PYTHON" "$LATHE_ROOT/tests/conformance/write_cases.py" "$LATHE_ONNX_CASES"
  touch "$LATHE_ONNX_CASES/.complete"
}

# Configures and builds into the folder $1 with the further CMake options $2…; `--target NAME` builds that alone.
build_lathe() {
  local folder=$1 targets=() options=()
  shift
  while [ $# -gt 0 ]; do
    if [ "$1" = --target ]; then targets+=(--target "$2"); shift 2; else options+=("$1"); shift; fi
  done
  local launcher=() tests=ON
  [ "$LATHE_SETUP" = all ] || tests=OFF
  # Compilations are found again from another clone of the same sources.
  export CCACHE_BASEDIR=$LATHE_ROOT CCACHE_NOHASHDIR=1
  command -v ccache >/dev/null && launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache)
  if [ -n "$LATHE_CUDNN_FRONTEND_ROOT" ]; then
    launcher+=(-DLATHE_CUDNN_FRONTEND_ROOT="$LATHE_CUDNN_FRONTEND_ROOT")
  fi
  cmake -G Ninja -S "$LATHE_ROOT" -B "$folder" -DLATHE_ONNX_ROOT="$LATHE_ONNX_ROOT" -DOpenVINO_DIR="$OpenVINO_DIR" \
    -DLATHE_CUDA="${LATHE_CUDA:-AUTO}" -DLATHE_TESTS="$tests" "${launcher[@]}" "${options[@]}"
  cmake --build "$folder" --parallel "$(nproc)" "${targets[@]}"
}

install_debian_packages
install_python_packages
build_onnx
fetch_cuda_headers
unpack_triton_server
export LATHE_TRITON_SERVER LATHE_CUDNN_FRONTEND_ROOT
export LATHE_VENV LATHE_PYTHON LATHE_ONNX_ROOT OpenVINO_DIR LATHE_CACHE
