#!/usr/bin/env bash
# Rejects #includes that go upward in the order of docs/design/, and Python or vendor headers outside their folder.
set -euo pipefail
cd "$(dirname "$0")/.."

# Each folder, and the folders whose headers it may include.
allowed() {
  case $1 in
    support) echo support ;;
    graph) echo support graph ;;
    onnx) echo support graph onnx ;;
    passes) echo support graph passes ;;
    data) echo support data ;;
    tasks) echo support data tasks tasks/detection ;;
    calibrate) echo support graph data calibrate ;;
    quantize) echo support graph onnx calibrate quantize ;;
    autocast) echo support graph onnx passes calibrate quantize autocast ;;
    backends/api) echo support graph onnx passes calibrate backends/api ;;
    backends) (cd src && echo support graph calibrate backends/*) ;;
    # plan, generate and tuning are built without CUDA: they must not see the rest.
    backends/fallback) echo support graph onnx backends/api backends/cuda/plan backends/fallback ;;
    backends/cuda/plan | backends/cuda/tuning) echo support graph onnx passes backends/api backends/cuda/plan backends/cuda/plan/patterns backends/cuda/tuning ;;
    backends/cuda/generate) echo backends/cuda/plan backends/cuda/generate ;;
    backends/cuda/*) echo support graph backends/api backends/cuda/plan backends/cuda/generate backends/cuda/tuning backends/cuda/device backends/cuda/tactics backends/cuda/kernels backends/cuda/kernels/sm90 ;;
    backends/cuda) echo support graph backends/api backends/cuda backends/cuda/plan backends/cuda/device ;;
    # Sessions use the CUDA engine's handles for streams, memory and graphs.
    backends/tensorrt) echo support graph onnx backends/api backends/cuda/device backends/tensorrt ;;
    backends/*) echo support graph onnx passes data calibrate backends/api "$1" ;;
    runtime) echo support graph onnx backends/api runtime ;;
    bench) echo support graph onnx data runtime bench ;;
    evaluate) echo support data tasks tasks/detection runtime bench evaluate ;;
    correct) echo support graph onnx data tasks tasks/detection calibrate quantize backends/api evaluate correct ;;
    compare) echo support graph onnx passes data tasks tasks/detection quantize runtime backends/api correct compare ;;
    sensitivity) echo support graph onnx passes data tasks tasks/detection calibrate quantize backends/api evaluate sensitivity ;;
    mix) echo support graph onnx data tasks tasks/detection calibrate quantize backends/api runtime bench evaluate correct sensitivity mix ;;
    plan) echo support data runtime bench plan ;;
    deploy) echo support graph onnx backends/openvino runtime bench plan deploy ;;
    triton) echo support data backends/openvino runtime deploy triton ;;
    report) echo support report ;;
    api | cli) echo support graph onnx passes data tasks tasks/detection calibrate quantize autocast backends/api backends/openvino runtime bench evaluate correct compare sensitivity mix plan deploy report api "$1" ;;
    python) echo support data tasks tasks/detection api python ;;
    *) return 1 ;;
  esac
}

status=0
while IFS= read -r file; do
  folder=${file#src/}
  case $folder in
    backends/cuda/*/*) folder=$(cut -d/ -f1-3 <<<"$folder") ;;
    backends/*/*) folder=$(cut -d/ -f1-2 <<<"$folder") ;;
    *) folder=${folder%%/*} ;;
  esac
  if ! may=$(allowed "$folder"); then
    echo "$file: folder '$folder' is not in the order of scripts/check-layers.sh"
    status=1
    continue
  fi
  while IFS=: read -r line include; do
    target=$(sed -n 's/.*"\([^"]*\)\/[^"\/]*".*/\1/p' <<<"$include")
    [ -z "$target" ] && continue
    [ "$target" = lathe ] && continue
    [[ " $may " == *" $target "* ]] || { echo "$file:$line: $folder may not include $target"; status=1; }
  done < <(grep -nE '^#include "' "$file" || true)
  # The raw OpenVINO request that our sessions are measured against is no backend of ours.
  if [[ $folder != backends/openvino && $file != src/bench/openvino_peer.cpp ]] && grep -nE '#include [<"]openvino/' "$file"; then
    echo "$file: OpenVINO's headers belong in src/backends/openvino"
    status=1
  fi
  if [[ ! $folder =~ ^backends/cuda/(device|tactics|kernels)$ ]] &&
    grep -nE '#include [<"](cuda[_a-z0-9]*\.h|cudnn|cublas|nvml)' "$file"; then
    echo "$file: CUDA's headers belong in src/backends/cuda/{device,tactics,kernels}"
    status=1
  fi
  if [[ $folder != backends/tensorrt ]] && grep -nE '#include [<"]Nv(Infer|Onnx)' "$file"; then
    echo "$file: TensorRT's headers belong in src/backends/tensorrt"
    status=1
  fi
  if [[ $folder != onnx ]] && grep -nE '#include [<"](onnx/|google/protobuf)' "$file" | grep -v '"onnx/[a-z_]*\.hpp"'; then
    echo "$file: protobuf's and ONNX's headers belong in src/onnx"
    status=1
  fi
done < <(git ls-files 'src/*.cpp' 'src/*.hpp' 'src/*.cu' 'src/*.cuh')
for header in $(git ls-files 'include/lathe/*.hpp'); do
  if grep -nE '#include [<"](openvino|onnx/|google|cuda|nlohmann)' "$header"; then
    echo "$header: no vendor header in the public API"
    status=1
  fi
done
exit $status
