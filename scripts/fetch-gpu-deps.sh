#!/usr/bin/env bash
# Gathers what Lathe is built with into FOLDER/deps.tar.xz (about 35 MB), for a GPU machine that has a compiler, CMake,
# Ninja, nvcc and Python but no package registry and none of Debian's libraries. Run it on a machine where
# scripts/setup.sh ran. There:
#
#   source scripts/fetch-gpu-deps.sh --unpack FOLDER && build_lathe build -DLATHE_CUDA=ON
set -euo pipefail

gather() {
  local folder=$1 root staged libraries package version
  root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
  # shellcheck source=scripts/setup.sh
  source "$root/scripts/setup.sh"
  libraries=/usr/lib/$(uname -m)-linux-gnu
  staged=$(mktemp -d)
  mkdir -p "$folder" "$staged/include" "$staged/lib" "$staged/bin" "$staged/share"
  # Static libraries, so that nothing has to be found when the programs start.
  for package in libprotobuf libjpeg libpng16 libz libzstd libxxhash libgtest libgtest_main libgmock libgmock_main; do
    cp -L "$libraries/$package.a" "$staged/lib/"
  done
  ln -s libpng16.a "$staged/lib/libpng.a"
  for package in google nlohmann CLI gtest gmock libpng16; do
    cp -rL "/usr/include/$package" "$staged/include/"
  done
  cp -L /usr/include/{png,pngconf,pnglibconf,jpeglib,jmorecfg,jerror,zlib,zconf,zstd,zstd_errors,xxhash}.h "$staged/include/"
  cp -L "$libraries"/../../include/"$(uname -m)"-linux-gnu/jconfig.h "$staged/include/" 2>/dev/null ||
    cp -L /usr/include/"$(uname -m)"-linux-gnu/jconfig.h "$staged/include/"
  cp -rL "$LATHE_ONNX_ROOT" "$staged/onnx"
  cp -rL "$(dirname "$OpenVINO_DIR")" "$staged/openvino"
  # Of OpenVINO: the CPU's plugin and the ONNX reader.
  (cd "$staged/openvino" && find . -mindepth 1 -maxdepth 1 ! -name cmake ! -name include ! -name libs -exec rm -rf {} + &&
    cd libs && rm -f ./*_gpu_plugin* ./*_npu_plugin* ./*_{auto,hetero,auto_batch}_plugin* ./*_{jax,paddle,pytorch,tensorflow,tensorflow_lite,gguf}_frontend* ./cache.json)
  cp -L "$(dirname "$OpenVINO_DIR")/../openvino_tokenizers/lib/libopenvino_tokenizers.so" "$staged/openvino/libs/"
  if [ -n "$LATHE_CUTLASS_ROOT" ]; then
    cp -rL "$LATHE_CUTLASS_ROOT" "$staged/cutlass"
    mkdir -p "$staged/cudnn_frontend"
    cp -rL "$LATHE_CUDNN_FRONTEND_ROOT/include" "$staged/cudnn_frontend/include"
  fi
  version=$(git -C "$root" describe --always --dirty)
  printf '{"lathe": "%s", "onnx": "%s", "openvino": "%s", "made": "%s"}\n' "$version" "$(basename "$LATHE_ONNX_ROOT")" \
    "$(basename "$(readlink -f "$staged"/openvino/libs/libopenvino.so.*)")" "$(date -u +%FT%TZ)" >"$staged/versions.json"
  XZ_OPT='-6 -T0' tar -C "$staged" -cJf "$folder/deps.tar.xz" .
  cp "$staged/versions.json" "$folder/"
  rm -rf "$staged"
  ls -l "$folder"
}

# Unpacks FOLDER/deps.tar.xz to $LATHE_DEPS (default /tmp/lathe-deps) and defines build_lathe as scripts/setup.sh does.
unpack() {
  LATHE_DEPS=${LATHE_DEPS:-${TMPDIR:-/tmp}/lathe-deps}
  LATHE_SOURCES=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
  if [ ! -e "$LATHE_DEPS/versions.json" ]; then
    mkdir -p "$LATHE_DEPS"
    python3 -m tarfile -e "$1/deps.tar.xz" "$LATHE_DEPS"
  fi
  build_lathe() {
    local folder=$1 headers=()
    shift
    [ -d "$LATHE_DEPS/cutlass" ] && headers=(-DLATHE_CUTLASS_ROOT="$LATHE_DEPS/cutlass"
      -DLATHE_CUDNN_FRONTEND_ROOT="$LATHE_DEPS/cudnn_frontend")
    cmake -G Ninja -S "$LATHE_SOURCES" -B "$folder" -DCMAKE_PREFIX_PATH="$LATHE_DEPS" \
      -DCMAKE_INCLUDE_PATH="$LATHE_DEPS/include" -DCMAKE_LIBRARY_PATH="$LATHE_DEPS/lib" \
      -DLATHE_ONNX_ROOT="$LATHE_DEPS/onnx" -DOpenVINO_DIR="$LATHE_DEPS/openvino/cmake" -DLATHE_STATIC_DEPS=ON \
      "${headers[@]}" "$@"
    cmake --build "$folder" --parallel "$(nproc)"
  }
}

case ${1:-} in
  --unpack) unpack "$2" ;;
  '' | -*) echo "usage: scripts/fetch-gpu-deps.sh FOLDER, or source it with --unpack FOLDER" >&2; [ "${BASH_SOURCE[0]}" = "$0" ] && exit 2 ;;
  *) gather "$1" ;;
esac
