"""What lathe.optimize does, one step at a time: simplify, calibrate, quantise, build, compare, measure.

    python int8_step_by_step.py MODEL.onnx CALIBRATION_FOLDER LABELLED_FOLDER OUTPUT_FOLDER
"""

import sys
from pathlib import Path

import lathe

model_file, calibration_data, labelled_data, output = sys.argv[1:]
folder = Path(output)
folder.mkdir(parents=True, exist_ok=True)

simplified = lathe.simplify(model_file)
print(f"{simplified.before_nodes} nodes become {simplified.after_nodes}")
calibration = lathe.calibrate(simplified.model, calibration_data)
quantized = lathe.quantize(simplified.model, calibration)
quantized.model.save(folder / "int8.onnx")  # any runtime that knows QuantizeLinear reads it

models = {"fp32": simplified.model, "int8": quantized.model}
engines = {name: lathe.build(model, precision=name, name=name) for name, model in models.items()}
for name, engine in engines.items():
    engine.save(folder / f"{name}.engine")

compared = lathe.compare(engines["fp32"], engines["int8"], labelled_data)
print(f"the same class for {100 * compared.agreement.value:.1f} % of {compared.subject.samples} samples")
timed = lathe.bench(list(engines.values()), batch_sizes=[1], duration_s=0, time_limit_s=1)
speedup = timed.speedup("int8.int8", "fp32.fp32")
print(f"int8 is {speedup.value:.2f} times as fast ({speedup.low:.2f} to {speedup.high:.2f})")
