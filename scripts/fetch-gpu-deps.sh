#!/usr/bin/env bash
# Gathers what Lathe is built with into FOLDER/deps.tar.xz (about 33 MB), for a GPU machine that has a compiler, CMake,
# Ninja, nvcc and Python but no package registry and none of Debian's libraries. It installs what is missing here
# (scripts/setup.sh). There:
#
#   LATHE_DEPS=FOLDER scripts/gpu-check.sh --full         builds and checks everything
#   source scripts/fetch-gpu-deps.sh --unpack FOLDER && build_lathe build -DLATHE_CUDA=ON --target lathe_cli   builds alone
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
  mkdir "$staged/share/cmake" && cp -rL /usr/share/cmake/nlohmann_json "$staged/share/cmake/"
  cp -L /usr/share/javascript/chart.js/chart.min.js "$staged/share/"
  cp -rL "$LATHE_ONNX_ROOT" "$staged/onnx"
  cp -rL "$(dirname "$OpenVINO_DIR")" "$staged/openvino"
  # Of OpenVINO: the CPU's plugin and the ONNX reader.
  (cd "$staged/openvino" && find . -mindepth 1 -maxdepth 1 ! -name cmake ! -name include ! -name libs -exec rm -rf {} + &&
    cd libs && rm -f ./*_gpu_plugin* ./*_npu_plugin* ./*_{auto,hetero,auto_batch}_plugin* ./*_{jax,paddle,pytorch,tensorflow,tensorflow_lite,gguf}_frontend* ./cache.json)
  cp -L "$(dirname "$OpenVINO_DIR")/../openvino_tokenizers/lib/libopenvino_tokenizers.so" "$staged/openvino/libs/"
  # Its CMake package insists on files even of targets that nobody asks for.
  sed -i -E '/_cmake_import_check_targets openvino::frontend::(jax|paddle|pytorch|tensorflow|tensorflow_lite|gguf) /d' \
    "$staged/openvino/cmake/OpenVINOTargets-release.cmake"
  write_onnx_cases
  cp -r "$LATHE_ONNX_CASES" "$staged/onnx-cases"
  if [ -n "$LATHE_CUDNN_FRONTEND_ROOT" ]; then
    mkdir -p "$staged/cudnn_frontend"
    cp -rL "$LATHE_CUDNN_FRONTEND_ROOT/include" "$staged/cudnn_frontend/include"
  fi
  version=$(git -C "$root" describe --always --dirty)
  printf '{"lathe": "%s", "onnx": "%s", "openvino": "%s", "made": "%s"}\n' "$version" "$(basename "$LATHE_ONNX_ROOT")" \
    "$(basename "$(readlink -f "$staged"/openvino/libs/libopenvino.so.*)")" "$(date -u +%FT%TZ)" >"$staged/versions.json"
  XZ_OPT='-6 -T0' tar --sort=name -C "$staged" -cJf "$folder/deps.tar.xz" .
  cp "$staged/versions.json" "$folder/"
  rm -rf "$staged"
  ls -l "$folder"
}

# Unpacks FOLDER/deps.tar.xz to $LATHE_DEPS_UNPACKED (default /tmp/lathe-deps) and defines build_lathe as
# scripts/setup.sh does.
unpack() {
  local deps=${LATHE_DEPS_UNPACKED:-${TMPDIR:-/tmp}/lathe-deps}
  LATHE_DEPS_UNPACKED=$deps
  LATHE_SOURCES=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
  if ! cmp -s "$1/versions.json" "$deps/versions.json"; then
    rm -rf "$deps" "$deps.new"
    mkdir -p "$deps.new"
    python3 -m tarfile -e "$1/deps.tar.xz" "$deps.new"
    mv "$deps.new" "$deps"
  fi
  # Configures and builds into the folder $1 with the further CMake options $2...; `--target NAME` builds that alone.
  build_lathe() {
    local folder=$1 deps=$LATHE_DEPS_UNPACKED options=() targets=() site
    shift
    while [ $# -gt 0 ]; do
      if [ "$1" = --target ]; then targets+=(--target "$2"); shift 2; else options+=("$1"); shift; fi
    done
    [ -d "$deps/cudnn_frontend" ] && options+=(-DLATHE_CUDNN_FRONTEND_ROOT="$deps/cudnn_frontend")
    # cuDNN's and cuBLASLt's headers may come with Python's packages only; the toolkit's own folders go first.
    site=$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])' 2>/dev/null)
    # Another compiler's warnings are no reason to stop.
    cmake -G Ninja -S "$LATHE_SOURCES" -B "$folder" -DCMAKE_PREFIX_PATH="$deps" \
      -DCMAKE_INCLUDE_PATH="$deps/include;$site/nvidia/cudnn/include;$site/nvidia/cu13/include;$site/nvidia/cublas/include" \
      -DCMAKE_LIBRARY_PATH="$deps/lib" -DLATHE_ONNX_ROOT="$deps/onnx" -DOpenVINO_DIR="$deps/openvino/cmake" \
      -DLATHE_CHART_JS="$deps/share/chart.min.js" -DLATHE_STATIC_DEPS=ON -DLATHE_WERROR=OFF "${options[@]}" || return
    cmake --build "$folder" --parallel "$(nproc)" "${targets[@]}"
  }
}

case ${1:-} in
  --unpack) unpack "$2" ;;
  '' | -*) echo "usage: scripts/fetch-gpu-deps.sh FOLDER, or source it with --unpack FOLDER" >&2; [ "${BASH_SOURCE[0]}" = "$0" ] && exit 2 ;;
  *) gather "$1" ;;
esac
