#!/usr/bin/env bash
# Checks Lathe's CUDA engine on a machine with an NVIDIA GPU, in stages with a time limit each. Results go to
# $OUT/gpu-check.json (default ./out), each stage's log and files beside it.
#
#   LATHE_DEPS=FOLDER scripts/gpu-check.sh [--quick|--full]       builds this checkout with all cores from what
#                                              scripts/fetch-gpu-deps.sh gathered in FOLDER, then checks it
#   LATHE_BUILD=FOLDER scripts/gpu-check.sh [--quick|--full]      checks what a build folder holds (default: build)
#   scripts/gpu-check.sh --pack FOLDER BUILD   here: programs of BUILD and the libraries they need, as
#                                              FOLDER/lathe-gpu.tar.xz, for machines without Debian's libraries
#   LATHE_PREBUILT=FOLDER scripts/gpu-check.sh [--quick|--full]   there: checks those programs
#   scripts/gpu-check.sh --list                the stages, their limits and what includes them
#
# LATHE_GPU_STAGES="NAME NAME" runs these alone. LATHE_CUDA_ARCHS=full builds kernels for all architectures. LATHE_CUDA_LIBRARIES names folders with cuDNN and cuBLASLt; without it
# those beside PyTorch, if there, are used. LATHE_ONNX_TEST_DATA=FOLDER holds ONNX's test cases (LATHE_DEPS brings them).
# LATHE_GPU_MODELS=FILE.onnx[:FILE.onnx...] adds a build and a bench of these models.
# LATHE_GPU_DATA=FOLDER, made by benchmarks/pack_accuracy.py, adds accuracy on real data.
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
  for program in lathe test_backends_cuda_plan test_backends_cuda_kernels test_backends_cuda_device; do
    if [ -x "$build/bin/$program" ]; then strip -o "$staged/bin/$program" "$build/bin/$program"; fi
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
build 600 quick
environment 60 quick
doctor 60 quick
plan-tests 120 full
kernel-tests 240 quick
device-tests 120 quick
conformance 240 quick
faults 180 full
accuracy 300 quick
models 300 quick
memcheck 300 full
benchmarks 900 full
LIST
}

# Sets BIN, the programs' folder, and LIBRARIES, a folder of libraries that only they see.
find_programs() {
  LIBRARIES=
  if [ -n "${LATHE_DEPS:-}" ]; then
    BIN=$WORK/build/bin
    LATHE_ONNX_TEST_DATA=${LATHE_ONNX_TEST_DATA:-$WORK/deps/onnx-cases}
    export LATHE_ONNX_TEST_DATA
  elif [ -n "${LATHE_PREBUILT:-}" ]; then
    if [ ! "$WORK/.unpacked" -nt "$LATHE_PREBUILT/lathe-gpu.tar.xz" ]; then
      python3 -m tarfile -e "$LATHE_PREBUILT/lathe-gpu.tar.xz" "$WORK"
      touch "$WORK/.unpacked"
    fi
    BIN=$WORK/bin
    LIBRARIES=$WORK/lib
  else
    BIN=${LATHE_BUILD:-$ROOT/build}/bin
  fi
}

# Runs one of our programs; only it sees the carried libraries.
ours() {
  local program=$1
  shift
  env ${LIBRARIES:+LD_LIBRARY_PATH="$LIBRARIES"} "$BIN/$program" "$@"
}

gtest() {
  [ -x "$BIN/$1" ] || { echo "no $1 here"; return 77; }
  ours "$@" --gtest_brief=1
}

# A test program in so many processes at once: an error of the GPU ends one of them only.
sharded() {
  local shards=$1 program=$2 shard failed=0 ids=()
  shift 2
  [ -x "$BIN/$program" ] || { echo "no $program here"; return 77; }
  for ((shard = 0; shard < shards; ++shard)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard env ${LIBRARIES:+LD_LIBRARY_PATH="$LIBRARIES"} \
      "${CHECKER[@]}" "$BIN/$program" --gtest_brief=1 "$@" >"$WORK/$program.$shard.log" 2>&1 &
    ids+=($!)
  done
  for shard in "${!ids[@]}"; do
    wait "${ids[shard]}" || { failed=1; echo "part $shard of $shards ended with status $?"; }
    cat "$WORK/$program.$shard.log"
  done
  return $failed
}
CHECKER=()

stage_build() {
  [ -n "${LATHE_DEPS:-}" ] || { echo "LATHE_DEPS names no folder"; return 77; }
  export LATHE_DEPS_UNPACKED=$WORK/deps
  # shellcheck source=scripts/fetch-gpu-deps.sh
  source "$ROOT/scripts/fetch-gpu-deps.sh" --unpack "$LATHE_DEPS"
  build_lathe "$WORK/build" -DLATHE_CUDA=ON -DLATHE_CUDA_ARCHS="${LATHE_CUDA_ARCHS:-hopper}" --target lathe_cli --target test_backends_cuda_plan \
    --target test_backends_cuda_kernels --target test_backends_cuda_device --target test_conformance_cuda \
    --target test_cli_cuda_faults
}
stage_environment() {
  nvidia-smi
  nvcc --version || /usr/local/cuda/bin/nvcc --version || true
  nproc
  env ${LIBRARIES:+LD_LIBRARY_PATH="$LIBRARIES"} ldd "$BIN/lathe"
}
stage_doctor() { ours lathe doctor; }
stage_plan-tests() { gtest test_backends_cuda_plan; }
stage_kernel-tests() { sharded 8 test_backends_cuda_kernels; }
stage_device-tests() { gtest test_backends_cuda_device; }
# Killed programs, a second process, too little memory, damaged files: with the program that was built here.
stage_faults() { gtest test_cli_cuda_faults; }
stage_conformance() {
  [ -d "${LATHE_ONNX_TEST_DATA:-}" ] || { echo "LATHE_ONNX_TEST_DATA names no folder"; return 77; }
  gtest test_conformance_cuda
}

# A program with its libraries' path: Python must not see the carried ones.
wrapped() {
  printf '#!/bin/sh\nexec env %s "%s" "$@"\n' "${LIBRARIES:+LD_LIBRARY_PATH='$LIBRARIES'}" "$BIN/lathe" >"$WORK/lathe"
  chmod +x "$WORK/lathe"
}
stage_accuracy() {
  [ -n "${LATHE_GPU_DATA:-}" ] || { echo "LATHE_GPU_DATA names no folder"; return 77; }
  wrapped
  python3 "$ROOT/benchmarks/gpu/accuracy.py" --lathe "$WORK/lathe" --data "$LATHE_GPU_DATA" --work "$WORK/accuracy" \
    --output "$OUT"
}
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
  wrapped
  local file name networks=(bert_base)
  for file in "$LATHE_GPU_BENCH"/*.int8.onnx; do
    name=$(basename "$file" .int8.onnx)
    if [ -f "$file" ] && [ "$name" != bert_base ]; then networks+=("$name"); fi
  done
  # torch.compile first, every shape at once: it takes minutes a shape, and nothing else may run during the turns.
  export TORCHINDUCTOR_CACHE_DIR=$WORK/inductor TORCHINDUCTOR_COMPILE_THREADS=4
  for name in "${networks[@]}"; do
    python3 "$ROOT/benchmarks/run_gpu.py" "$name" --lathe "$WORK/lathe" --models "$LATHE_GPU_BENCH" \
      --work "$WORK/benchmarks" --compile-only --against compile-fp16 --seconds 240 &
  done
  wait
  for name in "${networks[@]}"; do
    python3 "$ROOT/benchmarks/run_gpu.py" "$name" --lathe "$WORK/lathe" --models "$LATHE_GPU_BENCH" \
      --work "$WORK/benchmarks" --output "$OUT/$name.gpu.json" --seconds $((640 / ${#networks[@]}))
  done
}
# Every kernel on small cases, and a whole engine; the sanitizer makes kernels some hundred times slower.
stage_memcheck() {
  local sanitizer
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null) ||
    { echo "no compute-sanitizer here"; return 77; }
  CHECKER=("$sanitizer" --tool memcheck --error-exitcode 9)
  sharded 12 test_backends_cuda_kernels --gtest_filter='-*deep*:*wide*:*224*:*logits*:*3000*:*sum*'
}

case ${1:-} in
  --pack) pack "$2" "$3"; exit ;;
  --list) stages; exit ;;
  --stage) find_programs; mkdir -p "$WORK"; "stage_$2"; exit ;;
  --full) mode=full ;;
  --quick | '') mode=quick ;;
  *) sed -n '2,21s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac

mkdir -p "$OUT" "$WORK"
find_programs
[ -n "${LATHE_DEPS:-}" ] || [ -x "$BIN/lathe" ] ||
  { echo "no $BIN/lathe: build it, or set LATHE_DEPS, LATHE_PREBUILT or LATHE_BUILD" >&2; exit 1; }
if [ -z "${LATHE_CUDA_LIBRARIES:-}" ]; then
  LATHE_CUDA_LIBRARIES=$(python3 -c 'import importlib.util, pathlib
spec = importlib.util.find_spec("torch")
print(pathlib.Path(spec.origin).parents[1] if spec else "")' 2>/dev/null || true)
  export LATHE_CUDA_LIBRARIES
fi
lines=$OUT/gpu-check.lines
: >"$lines"
failed=0
while read -r name limit when; do
  if [ -n "${LATHE_GPU_STAGES:-}" ]; then
    [[ " $LATHE_GPU_STAGES " = *" $name "* ]] || continue
  else
    [ "$when" = quick ] || [ "$mode" = full ] || continue
  fi
  start=$(date +%s)
  status=0
  timeout "$limit" bash "$0" --stage "$name" >"$OUT/$name.log" 2>&1 </dev/null || status=$?
  case $status in 0) word=passed ;; 77) word=skipped ;; 124) word="time limit" ;; *) word=failed ;; esac
  [ "$word" = passed ] || [ "$word" = skipped ] || failed=1
  printf '{"stage": "%s", "result": "%s", "status": %d, "seconds": %d}\n' "$name" "$word" "$status" \
    $(($(date +%s) - start)) | tee -a "$lines"
  [ "$status" -eq 0 ] || tail -n 15 "$OUT/$name.log"
  [ "$name" != build ] || [ "$word" = passed ] || [ "$word" = skipped ] || break # nothing to check
done < <(stages)
version=$(git -C "$ROOT" describe --always --dirty 2>/dev/null) ||
  version=$(sed -n 's/.*"lathe": "\([^"]*\)".*/\1/p' "${LATHE_DEPS:-/nowhere}/versions.json" 2>/dev/null) || version=unknown
python3 - "$lines" "$OUT" "$version" <<'PY'
import json, os, platform, re, subprocess, sys, time
lines, out, version = sys.argv[1:]
stages = [json.loads(line) for line in open(lines)]
for row in stages:
    # What test programs say of themselves.
    with open(os.path.join(out, row["stage"] + ".log"), errors="replace") as log:
        text = log.read()
    for word in ("PASSED", "SKIPPED", "FAILED"):
        counts = re.findall(r"\[ *" + word + r" *\] (\d+) tests?[.,]", text)
        if counts:
            row["tests_" + word.lower()] = sum(map(int, counts))
    errors = re.findall(r"ERROR SUMMARY: (\d+) error", text)
    if errors:
        row["sanitizer_errors"] = sum(map(int, errors))
try:
    fields = "name,driver_version,memory.total,clocks.max.sm"
    gpu = subprocess.run(["nvidia-smi", "--query-gpu=" + fields, "--format=csv,noheader"], capture_output=True, text=True,
                         timeout=20, check=True).stdout.splitlines()
except (OSError, subprocess.SubprocessError):
    gpu = []
document = {"kind": "gpu-check", "version": 1, "lathe": version, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "machine": {"gpu": gpu, "cores": len(os.sched_getaffinity(0)), "os": platform.platform()}, "stages": stages}
with open(os.path.join(out, "gpu-check.json.new"), "w") as file:
    json.dump(document, file, indent=1)
    file.write("\n")
os.replace(os.path.join(out, "gpu-check.json.new"), os.path.join(out, "gpu-check.json"))
PY
rm -f "$lines"
exit $failed
