#!/usr/bin/env bash
# Checks Lathe's CUDA engine on a machine with an NVIDIA GPU, in stages with a time limit each; writes one line a stage
# to $OUT/gpu-check.json (default ./out) and its log beside it.
#
#   scripts/gpu-check.sh --pack FOLDER BUILD   here: programs of BUILD and the libraries they need, as
#                                              FOLDER/lathe-gpu.tar.xz, for machines without Debian's libraries
#   LATHE_PREBUILT=FOLDER scripts/gpu-check.sh [--quick|--full]   there: with those programs
#   LATHE_BUILD=FOLDER scripts/gpu-check.sh [--quick|--full]      with those of a build folder (default: build)
#   scripts/gpu-check.sh --list                the stages and their limits
#
# LATHE_CUDA_LIBRARIES names folders with cuDNN and cuBLASLt; without it those beside PyTorch, if there, are used.
# LATHE_GPU_MODELS=FILE.onnx[:FILE.onnx…] adds a build and a bench of these models.
# LATHE_GPU_BENCH=FOLDER, with NETWORK.int8.onnx files, adds benchmarks/run_gpu.py for each of them and BERT-base, against
# PyTorch; $OUT/NETWORK.gpu.json may go to benchmarks/results/ (docs/howto/use-an-nvidia-gpu.md tells the format).
set -euo pipefail
ROOT=$(cd "$(dirname "$0")/.." && pwd)
OUT=${OUT:-$PWD/out}
WORK=${LATHE_GPU_WORK:-${TMPDIR:-/tmp}/lathe-gpu}

pack() {
  local folder=$1 build=$2 staged program library
  staged=$(mktemp -d)
  mkdir -p "$staged/bin" "$staged/lib" "$folder"
  for program in "$build"/bin/lathe "$build"/tests/backends/test_backends_cuda_* "$build"/bin/test_backends_cuda_*; do
    if [ -f "$program" ] && [ -x "$program" ]; then strip -o "$staged/bin/$(basename "$program")" "$program"; fi
  done
  [ -x "$staged/bin/lathe" ] || { echo "no $build/bin/lathe: build it first" >&2; return 1; }
  # All but the C and C++ libraries, which every machine has.
  for program in "$staged"/bin/*; do
    ldd "$program" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p'
  done | sort -u | grep -vE '/(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|ld-linux[^/]*)\.so' |
    while read -r library; do
      # A signed or oddly linked library may not survive strip; then it goes as it is.
      strip --strip-unneeded -o "$staged/lib/$(basename "$library")" "$library" 2>/dev/null ||
        cp -L "$library" "$staged/lib/"
    done
  # The programs share most of their code: a window that holds them all.
  XZ_OPT='--lzma2=preset=6,dict=256MiB' tar -C "$staged" -cJf "$folder/lathe-gpu.tar.xz" bin lib
  ls -l "$staged/bin" "$staged/lib" "$folder/lathe-gpu.tar.xz"
  rm -rf "$staged"
}

# NAME SECONDS WHEN: what there is; WHEN is the least thorough mode that includes it.
stages() {
  cat <<'LIST'
environment 60 quick
doctor 60 quick
plan-tests 120 full
kernel-tests 240 quick
device-tests 120 quick
models 300 quick
benchmarks 900 full
memcheck 300 full
LIST
}

unpack() {
  if [ -n "${LATHE_PREBUILT:-}" ]; then
    mkdir -p "$WORK"
    if [ ! "$WORK/.unpacked" -nt "$LATHE_PREBUILT/lathe-gpu.tar.xz" ]; then
      python3 -m tarfile -e "$LATHE_PREBUILT/lathe-gpu.tar.xz" "$WORK"
      touch "$WORK/.unpacked"
    fi
    BIN=$WORK/bin
    LIBRARIES=$WORK/lib
  else
    BIN=${LATHE_BUILD:-$ROOT/build}/bin
    LIBRARIES=
  fi
  [ -x "$BIN/lathe" ] || { echo "no $BIN/lathe: build it, or set LATHE_PREBUILT or LATHE_BUILD" >&2; exit 1; }
}

# Runs one of our programs; only it sees the carried libraries.
ours() {
  local program=$1
  shift
  env ${LIBRARIES:+LD_LIBRARY_PATH="$LIBRARIES"} "$BIN/$program" "$@"
}

gtest() {
  [ -x "$BIN/$1" ] || { echo "no $1 here"; return 77; }
  ours "$1" --gtest_brief=1
}

stage_environment() {
  nvidia-smi
  nvcc --version || true
  nproc
  env ${LIBRARIES:+LD_LIBRARY_PATH="$LIBRARIES"} ldd "$BIN/lathe"
}
stage_doctor() { ours lathe doctor; }
stage_plan-tests() { gtest test_backends_cuda_plan; }
stage_kernel-tests() { gtest test_backends_cuda_kernels; }
stage_device-tests() { gtest test_backends_cuda_device; }
stage_models() {
  [ -n "${LATHE_GPU_MODELS:-}" ] || { echo "LATHE_GPU_MODELS names none"; return 77; }
  local model name IFS=:
  for model in $LATHE_GPU_MODELS; do
    name=$(basename "$model" .onnx)
    ours lathe build "$model" --device cuda --output "$WORK/$name.engine" --timing-cache "$OUT/timing-cache.json" \
      --explain --json >"$OUT/$name.build.json"
    ours lathe bench "$WORK/$name.engine" --duration 1 --time-limit 3 --output "$OUT/$name.bench.json"
  done
}
stage_benchmarks() {
  [ -n "${LATHE_GPU_BENCH:-}" ] || { echo "LATHE_GPU_BENCH names no folder"; return 77; }
  python3 -c 'import torch, onnx; assert torch.cuda.is_available()' || { echo "no PyTorch with CUDA here"; return 77; }
  # A program with its libraries' path: Python must not see the carried ones.
  printf '#!/bin/sh\nexec env %s "%s" "$@"\n' "${LIBRARIES:+LD_LIBRARY_PATH='$LIBRARIES'}" "$BIN/lathe" >"$WORK/lathe"
  chmod +x "$WORK/lathe"
  local file name networks=(bert_base)
  for file in "$LATHE_GPU_BENCH"/*.int8.onnx; do
    if [ -f "$file" ]; then networks+=("$(basename "$file" .int8.onnx)"); fi
  done
  for name in "${networks[@]}"; do
    python3 "$ROOT/benchmarks/run_gpu.py" "$name" --lathe "$WORK/lathe" --models "$LATHE_GPU_BENCH" \
      --work "$WORK/benchmarks" --output "$OUT/$name.gpu.json" --seconds $((850 / ${#networks[@]}))
  done
}
stage_memcheck() {
  command -v compute-sanitizer >/dev/null || { echo "no compute-sanitizer here"; return 77; }
  env ${LIBRARIES:+LD_LIBRARY_PATH="$LIBRARIES"} compute-sanitizer --tool memcheck --error-exitcode 9 \
    "$BIN/test_backends_cuda_kernels" --gtest_brief=1
}

case ${1:-} in
  --pack) pack "$2" "$3"; exit ;;
  --list) stages; exit ;;
  --stage) unpack; mkdir -p "$WORK"; "stage_$2"; exit ;;
  --full) mode=full ;;
  --quick | '') mode=quick ;;
  *) sed -n '2,15s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac

mkdir -p "$OUT" "$WORK"
unpack
if [ -z "${LATHE_CUDA_LIBRARIES:-}" ]; then
  LATHE_CUDA_LIBRARIES=$(python3 -c 'import importlib.util, pathlib
spec = importlib.util.find_spec("torch")
print(pathlib.Path(spec.origin).parents[1] if spec else "")' 2>/dev/null || true)
  export LATHE_CUDA_LIBRARIES
fi
: >"$OUT/gpu-check.json"
failed=0
while read -r name limit when; do
  [ "$when" = quick ] || [ "$mode" = full ] || continue
  start=$(date +%s)
  status=0
  timeout "$limit" bash "$0" --stage "$name" >"$OUT/$name.log" 2>&1 </dev/null || status=$?
  case $status in 0) word=passed ;; 77) word=skipped ;; 124) word="time limit" ;; *) word=failed ;; esac
  [ "$word" = passed ] || [ "$word" = skipped ] || failed=1
  printf '{"stage": "%s", "result": "%s", "status": %d, "seconds": %d}\n' "$name" "$word" "$status" \
    $(($(date +%s) - start)) | tee -a "$OUT/gpu-check.json"
  [ "$status" -eq 0 ] || tail -n 15 "$OUT/$name.log"
done < <(stages)
exit $failed
