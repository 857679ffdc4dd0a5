"""One network quantised in several ways by Lathe and, if wanted, by others, all judged against its float engine."""

import json
from run_peers import Prepared, make, run, strip_paths


class Judged(Prepared):
    """Engines of a network, and what `lathe eval` says of them."""

    def __init__(self, name, lathe, shared, work):
        super().__init__(name, lathe, shared, work)
        self.corrections = {}
        self.engines = []

    def quantize(self, name, more):
        """An engine of Lathe's, by these options of `lathe quantize` and 300 samples."""
        ranges = make(self.work / "m.ranges", [self.lathe, "calibrate", self.simple, "--data", self.calibration,
                                               "--samples", "300", *self.rules, "--output", self.work / "m.ranges"])
        told = self.work / f"{name}.json"
        if not told.exists():
            with open(self.work / "partial.json", "w", encoding="utf-8") as file:
                run([self.lathe, "quantize", self.simple, "--ranges", ranges, "--target", "openvino", *more, "--data",
                     self.calibration, *self.rules, "--json", "--output", self.work / f"{name}.onnx"], stdout=file)
            (self.work / "partial.json").rename(told)
        self.corrections[name] = json.loads(told.read_text(encoding="utf-8")).get("corrections")
        self.build(name, self.work / f"{name}.onnx")

    def build(self, name, model):
        """An engine of any quantised model, to be judged under this name."""
        engine = make(self.work / f"{name}.engine", [self.lathe, "build", model, "--precision", "int8", *self.rules,
                                                     "--output", self.work / f"{name}.engine"])
        self.engines.append(engine)

    def judge(self, target, samples="0"):
        """Writes what `lathe eval` says of all engines on so many samples (0: all)."""
        reference = make(self.work / "fp32.engine", [self.lathe, "build", self.simple, "--precision", "fp32", *self.rules,
                                                     "--output", self.work / "fp32.engine"])
        evaluated = self.work / "eval.json"
        run([self.lathe, "eval", *self.engines, "--reference", reference, "--data", self.validation, "--samples", samples,
             *self.rules, "--output", evaluated])
        strip_paths(evaluated, self.network["title"], lathe=self.lathe, models=[self.simple])
        document = json.loads(evaluated.read_text(encoding="utf-8"))
        for subject in document["subjects"]:
            if self.corrections.get(subject["name"]):
                subject["corrections"] = self.corrections[subject["name"]]
        partial = target.with_suffix(".partial")
        partial.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        partial.rename(target)
        print(target)
