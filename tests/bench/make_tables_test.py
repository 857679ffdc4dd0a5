"""benchmarks/make_tables.py: what it writes, that it writes it twice alike, and that its check notices."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "make_tables.py"


def entry(subject, batch, median, noisy=False):
    return {"subject": subject, "batch": batch, "median_ms": median, "noisy": noisy}


BENCH = {
    "network": "Net",
    "time": "2026-01-01T00:00:00Z", "machine": {"cpu": "Some CPU", "cores": 2, "virtual_machine": True},
    "libraries": {"openvino": "1"},
    "subjects": [
        {"name": "int8", "kind": "engine", "precision": "int8"},
        {"name": "pytorch", "kind": "pytorch", "precision": "fp32"},
    ],
    "latency": [entry("int8", 1, 1.2345), entry("int8", 8, 123.4), entry("pytorch", 1, 12.345, True)],
    "ratios": [{"subject": "int8", "reference": "pytorch", "batch": 1, "speedup": 10.0}],
}


GPU = {
    "network": "Net",
    "time": "2026-01-01T00:00:00Z", "machine": {"gpu": "Some GPU", "driver": "1.2"},
    "libraries": {"torch": "3"},
    "clocks": {"after": {"clocks.sm": "1980 MHz"}},
    "subjects": [{"name": "int8", "precision": "int8"}],
    "latency": [
        {"subject": "int8", "size": "1", "device_ms": 0.15},
        {"subject": "compile-fp16", "size": "1", "device_ms": 0.45},
    ],
    "ratios": [
        {"subject": "int8", "reference": "compile-fp16", "size": "1", "times_as_fast": 3.0},
        {"subject": "int8", "reference": "eager-fp16", "size": "1", "times_as_fast": 6.0},
    ],
}


def timed(name, speedup, interval, noisy=False):
    return {"name": name, "speedup": speedup, "speedup_ci95": interval, "noisy": noisy}


TUNE = {
    "kind": "tune", "metric": "top1", "max_drop": 0.1, "drop_unit": "pt", "device": "cpu", "batch_size": 4, "seconds": 60,
    "time": "2026-01-01T00:00:00Z", "machine": {"cpu": "Some CPU", "cores": 2},
    "chosen": "INT8, 1 layer FP32",
    "trials": [{"name": "FP32", "chosen": False}, {"name": "INT8, 1 layer FP32", "chosen": True},
               {"name": "BF16", "chosen": False, "failed": "not here"}],
    "judged": {
        "samples": 215, "drop": 0.93, "drop_ci95": [-0.78, 2.69],
        "timed": [timed("saved", 1, [1, 1]), timed("FP32", 3.22, [3.2, 3.24], True), timed("INT8", 0.982, [0.971, 0.995]),
                  timed("INT8 (rest BF16)", 1.1, [1, 1.2])],
    },
    "engine": "/somewhere/e.engine", "engine_hash": "1234",
    "model": {"name": "m", "file": "/somewhere/m.onnx", "hash": "56"},
    "data": {"path": "/somewhere/photos/validation", "judge": ""},
    "command": "lathe tune /somewhere/m.onnx -o /somewhere/e.engine",
}


class MakeTables(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.readme = Path(self.folder.name) / "README.md"
        self.results = Path(self.folder.name) / "results"
        self.results.mkdir()
        self.readme.write_text("before\n<!-- table:latency -->\nold\n<!-- /table -->\nafter\n", encoding="utf-8")

    def tearDown(self):
        self.folder.cleanup()

    def run_script(self, *options):
        command = [sys.executable, SCRIPT, "--document", self.readme, "--results", self.results, *options]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_writes_the_results_between_the_marks(self):
        (self.results / "net.latency.json").write_text(json.dumps(BENCH), encoding="utf-8")
        self.assertNotEqual(self.run_script("--check").returncode, 0)
        self.assertEqual(self.run_script().returncode, 0)
        text = self.readme.read_text(encoding="utf-8")
        self.assertIn("| **Lathe int8** | int8 | 1.23 | 123 |\n", text)
        self.assertIn("| pytorch | fp32 | ~12.3 (10.00×) | – |\n", text)
        self.assertIn("Some CPU, 2 cores, virtual machine; openvino 1", text)
        self.assertTrue(text.startswith("before\n") and text.endswith("after\n"))
        self.assertNotIn("old", text)
        self.assertEqual(self.run_script("--check").returncode, 0)

    def test_a_peer_is_shown_in_its_faster_form(self):
        forms = [{"name": "openvino:nncf", "kind": "openvino", "precision": "int8", "file": "nncf.onnx"},
                 {"name": "openvino:nncf-2", "kind": "openvino", "precision": "int8", "file": "nncf.xml"}]
        for times, shown, told in (((2.0, 3.0), "2", "ONNX form; its IR form takes 1.50× as long"),
                                   ((3.0, 1.5), "1.5", "IR form; its ONNX form takes 2.00× as long")):
            latency = [entry("int8", 1, 1.0), *(entry(form["name"], 1, time) for form, time in zip(forms, times))]
            document = dict(BENCH, subjects=BENCH["subjects"][:1] + forms, latency=latency, ratios=[])
            (self.results / "net.latency.json").write_text(json.dumps(document), encoding="utf-8")
            self.assertEqual(self.run_script().returncode, 0)
            text = self.readme.read_text(encoding="utf-8")
            self.assertIn(f"| openvino:nncf | int8 | {shown} |\n", text)
            self.assertNotIn("| openvino:nncf-2", text)
            (self.results / "other.bench.json").write_text(json.dumps(dict(document, network="Other")), encoding="utf-8")
            self.assertEqual(self.run_script().returncode, 0)
            self.assertIn("| Other | precision | batch 1 |", self.readme.read_text(encoding="utf-8"))
            self.assertIn(f"NNCF's result is shown in its {told} at batch 1.", text)

    def test_figures_in_sentences_follow_the_results(self):
        document = dict(GPU, network="ResNet-50", latency=[
            {"subject": "int8", "size": "1", "device_ms": 0.2, "host_us": 1.25},
            {"subject": "int8", "size": "32", "device_ms": 0.5, "host_us": 4.0, "enqueue_us": 21.6}])
        (self.results / "net.gpu.json").write_text(json.dumps(document), encoding="utf-8")
        mark = "<!-- figure:{} -->{}<!-- /figure -->".format
        self.readme.write_text(f"It is {mark('resnet-int8-32-enqueue', '34 µs')}, {mark('resnet-int8-growth', '')} times;\n"
                               f"{mark('resnet-host-us', '9')}.\n", encoding="utf-8")
        self.assertIn("not what benchmarks/results gives", self.run_script("--check").stderr)
        self.assertEqual(self.run_script().returncode, 0)
        self.assertEqual(self.readme.read_text(encoding="utf-8"),
                         f"It is {mark('resnet-int8-32-enqueue', '22 µs')}, {mark('resnet-int8-growth', '2.5')} times;\n"
                         f"{mark('resnet-host-us', '1.2 to 4.0')}.\n")
        self.assertEqual(self.run_script("--check").returncode, 0)

    def test_a_figure_that_no_result_gives_is_an_error(self):
        (self.results / "net.gpu.json").write_text(json.dumps(dict(GPU, network="ResNet-50")), encoding="utf-8")
        for name in ("scaling-host", "resnet-int8-32-enqueue", "clock-before"):  # no document, no row, no field
            self.readme.write_text(f"<!-- figure:{name} -->1.88<!-- /figure -->\n", encoding="utf-8")
            for options in ((), ("--check",)):
                self.assertIn(f"no result gives the figure '{name}'", self.run_script(*options).stderr)

    def test_results_that_do_not_say_where_they_come_from_are_refused(self):
        def refusal(document):
            (self.results / "net.latency.json").write_text(json.dumps(document), encoding="utf-8")
            return self.run_script().stderr

        self.assertIn("net.latency.json does not record machine, time", refusal(dict(BENCH, machine={}, time="")))
        later = dict(BENCH, time="2027-01-01T00:00:00Z", command="lathe bench", commit="1234")
        self.assertIn("net.latency.json does not record lathe_version, hashes", refusal(later))
        self.assertEqual(refusal(later | {"lathe_version": "0.1.0", "hashes": {"m.onnx": "56"}}), "")

    def test_an_unknown_figure_is_an_error(self):
        self.readme.write_text("<!-- figure:none -->1<!-- /figure -->\n", encoding="utf-8")
        self.assertIn("unknown figure 'none'", self.run_script().stderr)

    def test_a_table_that_no_result_gives_any_more_is_an_error(self):
        self.assertIn("no result gives the table 'latency'", self.run_script("--check").stderr)

    def test_a_gpus_results_make_its_table(self):
        self.readme.write_text("<!-- table:gpu -->\n<!-- /table -->\n", encoding="utf-8")
        self.assertEqual(self.run_script("--check").returncode, 0)
        (self.results / "net.gpu.json").write_text(json.dumps(GPU), encoding="utf-8")
        self.assertEqual(self.run_script().returncode, 0)
        text = self.readme.read_text(encoding="utf-8")
        self.assertIn("| **Lathe int8** | 0.15 (3.00×) |\n", text)
        self.assertIn("| torch compile-fp16 | 0.45 |\n", text)
        self.assertIn("Some GPU, driver 1.2, torch 3, 1980 MHz at the end.", text)
        self.assertEqual(self.run_script("--check").returncode, 0)

    def gpu_table(self, name, ending, document):
        """A table made from one document."""
        self.readme.write_text(f"<!-- table:{name} -->\n<!-- /table -->\n", encoding="utf-8")
        (self.results / f"net.{ending}.json").write_text(json.dumps(document), encoding="utf-8")
        result = self.run_script()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.run_script("--check").returncode, 0)
        return self.readme.read_text(encoding="utf-8")

    def test_the_faster_of_torch_compiles_modes_counts(self):
        autotuned = {"subject": "int8", "reference": "max-autotune", "size": "1", "times_as_fast": 2.5}
        text = self.gpu_table("gpu", "gpu", GPU | {"ratios": [*GPU["ratios"], autotuned]})
        self.assertIn("| **Lathe int8** | 0.15 (2.50×) |\n", text)

    def test_memory_of_both_sides(self):
        mib = 2**20
        engine = {"name": "int8", "build_seconds": 11.84, "rebuild_seconds": 0.7, "engine_bytes": 30 * mib,
                  "weight_bytes": 20 * mib, "arena_bytes": 10 * mib, "workspace_bytes": 0, "process_gpu_bytes": 600 * mib}
        rows = [{"subject": "eager-fp16", "size": size, "weight_bytes": 50 * mib, "ready_seconds": 2.0,
                 "peak_allocated_bytes": taken * mib, "peak_reserved_bytes": 200 * mib} for size, taken in (("1", 60), ("8", 90))]
        text = self.gpu_table("gpu-memory", "gpu", GPU | {"subjects": [engine, engine | {"name": "int8-large"}],
                                                          "memory": rows, "context_bytes": 500 * mib})
        self.assertIn("| Net | **Lathe int8** | 11.8 / 0.7 | 30 | 30 | 600 |\n", text)
        self.assertIn("| Net, batch 8 | torch eager-fp16 | 2.0 | 50 | 90 | 700 |\n", text)
        self.assertNotIn("int8-large", text)
        self.assertNotIn("| 60 |", text)

    def test_throughput_names_the_best_batch(self):
        rows = [{"subject": "int8", "size": size, "samples_per_second_device": rate} for size, rate in (("64", 5e4), ("128", 61234))]
        tail = [{"subject": "int8", "runs": 10000, "device_ms": {"p99_over_median": 1.02}}]
        text = self.gpu_table("gpu-throughput", "gpu", GPU | {"throughput": rows, "tail": tail})
        self.assertIn("| Net | **Lathe int8** | 61,234 (batch 128) | 1.020 | 10,000 |\n", text)

    def test_accuracy_of_classifiers_and_encoders(self):
        base = {"network": "Net", "time": "2026-01-01T00:00:00Z", "machine": {"gpu": "Some GPU", "driver": "1.2"}, "data": {"samples": 5000}}
        versus = {"agreement": 0.9958, "mean_kl": 0.00012}
        text = self.gpu_table("gpu-accuracy", "accuracy", base | {"subjects": [
            {"name": "fp32", "top1": 0.6852, "top1_ci95": [0.672, 0.698]},
            {"name": "fp16", "top1": 0.685, "top1_ci95": [0.672, 0.698], "vs_reference": versus}]})
        self.assertIn("| **Lathe fp32** | 68.52 % (67.2–69.8) | reference |  |\n", text)
        self.assertIn("| **Lathe fp16** | 68.50 % (67.2–69.8) | 99.58 % | 0.00012 |\n", text)
        pairs = {"data": {"name": "STS-B test", "pairs": 1379}, "subjects": [{"name": "fp16", "spearman": 0.82031}]}
        self.assertIn("| **Lathe fp16** | 0.82031 |\n", self.gpu_table("gpu-accuracy", "accuracy", base | pairs))

    def test_scaling_over_gpus(self):
        rows = [{"precision": "int8", "batch": 128, "inputs": "host", "gpus": 2, "samples_per_second": 1e5, "times": 1.97}]
        text = self.gpu_table("gpu-scaling", "scaling", {"network": "Net", "time": "2026-01-01T00:00:00Z", "machine": {"gpu": "Some GPU"}, "rows": rows})
        self.assertIn("| Net | **Lathe int8**, batch 128 | host | 2 | 100,000 | 1.97× |\n", text)

    def test_the_notes_tables(self):
        """Ratios between our own engines, from one run each."""
        run = BENCH | {"latency": [entry("int8", 1, 2.0), entry("fp32", 1, 5.0)]}
        versus = {"agreement": 0.97, "mean_kl": 0.004, "top1_delta": -0.002, "top1_delta_ci95": [-0.01, 0.006]}
        judged = {"network": "Net", "time": run["time"], "machine": run["machine"], "data": {"samples": 9}, "subjects": [{"name": "int8", "vs_reference": versus}]}
        (self.results / "net.eval.json").write_text(json.dumps(judged), encoding="utf-8")
        text = self.gpu_table("note-int8-cpu", "bench", run)
        self.assertIn("| Net | 1 | 2.50× | 97.00 % | 0.0040 | -0.20 (-1.00..+0.60) |\n", text)
        times = [{"subject": name, "size": "1", "device_ms": ms} for name, ms in (("fp16", 0.2), ("int8", 0.25))]
        text = self.gpu_table("note-int8-gpu", "gpu", GPU | {"latency": times})
        self.assertIn("| Net | 1 | 0.2 | 0.25 | 0.80× |\n", text)

    def test_detectors(self):
        judged = {"map": 0.3, "map_delta": -0.0012, "map_delta_ci95": [-0.006, 0.004], "same": 0.981,
                  "same_ci95": [0.97, 0.9904]}
        worse = judged | {"map": 0.25, "map_delta": -0.05}
        method = {"tool": "lathe", "variant": "effort 1", "samples": 160, "seconds": 21.4, "openvino": judged,
                  "onnxruntime": judged, "median_ms": 4.2, "noisy": False, "speedup": None}
        peer = method | {"tool": "nncf", "version": "3.4.0", "variant": "default", "openvino": worse, "noisy": True, "speedup": 1.1}
        failed = {"tool": "x", "version": "1", "variant": "max", "samples": 160, "failed": "Error: no"}
        del peer["seconds"], peer["onnxruntime"]
        document = {"network": "Net", "time": "2026-01-01T00:00:00Z", "machine": {"cpu": "Some CPU", "cores": 2}, "photos": 80,
                    "pictures": "photos", "fp32": {"map": 0.2997, "detections": 312, "median_ms": 9.0, "noisy": False, "speedup": 2.14}, "beside": "lathe-effort-1",
                    "methods": [method, peer, failed]}
        text = self.gpu_table("detectors", "detector", document)
        self.assertIn("| **Lathe** | fp32 |  |  | 29.97 mAP | 312 of them |  | 9 | 2.14× |\n", text)
        self.assertIn("| **Lathe** | effort 1 | 160 | 21 | -0.12 (-0.60..+0.40) | 98.10 (97.0..99.0) | -0.12 (-0.60..+0.40) | 4.2 |  |\n", text)
        self.assertIn("| nncf 3.4.0 | default | 160 | – | -5.00 (-0.60..+0.40) | 98.10 (97.0..99.0) | – | ~4.2 | 1.10× |\n", text)
        self.assertIn("| x 1 | max | 160 | failed | – | – | – | – | – |\n", text)
        del document["fp32"]["median_ms"]
        text = self.gpu_table("detectors", "detector", document)
        self.assertIn("| **Lathe** | effort 1 | 160 | 21 | -0.12 (-0.60..+0.40) | 98.10 (97.0..99.0) | -0.12 (-0.60..+0.40) |\n", text)
        for judge in (judged, worse):
            judge.pop("map_delta")
        del document["fp32"]["map"]
        text = self.gpu_table("detectors", "detector", document)
        self.assertIn("| Net, 80 photos | method | read | seconds | FP32's own found, mAP 0.50, % (95 %) | the same in ONNX Runtime |\n",
                      text)
        self.assertIn("| **Lathe** | effort 1 | 160 | 21 | 98.10 (97.0..99.0) | 98.10 (97.0..99.0) |\n", text)
        self.assertIn("| x 1 | max | 160 | failed | – | – |\n", text)

    def test_serving(self):
        at = {"time": "2026-01-01T00:00:00Z", "machine": {"cpu": "Some CPU", "cores": 2}}
        row = {"kib": 10240, "requests": 30000, "versions": 2}
        faults = dict.fromkeys(("bad", "gone", "cancelled", "small", "version", "damaged", "killed"), 3)
        ended = [{"words": ["f in tritonserver"]}, {"words": ["f in libtriton_lathe.so"]}, {"words": ["f in tritonserver"]}]
        text = self.gpu_table("soak", "soak", at | {
            "requests": 100000, "answered": 99999, "lost": 1, "crossed": 0, "asked_again": 12, "faults": faults, "wrong": ["x"],
            "server_ended": ended, "clients": 8, "seconds": 61.4, "seconds_between_faults": 1,
            "memory": {"from": row, "to": row | {"kib": 11264, "requests": 80000, "versions": 7}}})
        self.assertIn("| requests answered, of those sent | 99,999 of 100,000 |\n| lost, crossed | 1, 0 |\n", text)
        self.assertIn("backend among the last words | 1 |\n| the same, without it | 2 |\n", text)
        self.assertIn("5 new versions between | 10.0 to 11.0 MiB |", text)
        runs = [{"system": "triton", "scenario": "Server", "mode": "accuracy", "accuracy": {"top1": 0.7, "answered": 10}},
                {"system": "triton", "scenario": "Server", "mode": "performance",
                 "figures": {"Result is": "INVALID", "Early stopping satisfied": "NO", "QPS": 1234.0}}]
        suite = at | {"network": "Net", "eval": {"top1": 0.8}, "runs": runs, "busy": True, "load_average": 7.6}
        text = self.gpu_table("mlperf", "mlperf", suite)
        self.assertIn("| accuracy | top-1 70.00 % of 10 (`lathe eval`: 80.00 %) |\n", text)
        self.assertIn("| performance | invalid (early stopping) |\n", text)
        self.assertIn("load 8", text)
        self.assertNotIn("1234", text)

    def test_the_best_mix_as_judged_and_timed(self):
        text = self.gpu_table("tune", "tune.cpu", TUNE | {"network": "Net"})
        self.assertIn("| Net, batch 4 | Some CPU, 2 cores | INT8, 1 layer FP32 | ~3.22× (3.20..3.24) | 0.982× (0.971..0.995) | "
                      "0.1 pt (top1) | 0.93 pt (-0.78..2.69) | 215 | 2 in 60 s |\n", text)
        self.assertIn("215 photos cannot show 0.1 points (Net, Some CPU, 2 cores): one photo is 0.47 points, and the "
                      "interval reaches 2.69.", text)
        certain = TUNE | {"network": "Net", "judged": TUNE["judged"] | {"drop": -0.2, "drop_ci95": [-0.5, 0.05]}}
        self.assertNotIn("cannot show", self.gpu_table("tune", "tune.cpu", certain))
        noise = TUNE["judged"] | {"drop": 0.000221, "drop_ci95": [0.000221, 0.000221]}
        text = self.gpu_table("tune", "tune.gpu", TUNE | {
            "network": "Enc", "metric": "sqnr", "drop_unit": "%", "time": "2026-01-01T00:00:00Z", "machine": {"gpu": "Some GPU"}, "judged": noise})
        self.assertIn("| Enc, batch 4 | Some GPU |", text)
        self.assertIn("| 0.1 % (sqnr) | 0.00022 % | 215 |", text)
        # NETWORK.tune.gpu.json is no NETWORK.gpu.json.
        self.readme.write_text("<!-- table:gpu -->\n<!-- /table -->\n", encoding="utf-8")
        self.assertEqual(self.run_script("--check").returncode, 0)

    def test_sensitivity(self):
        layers = [{"node": name, "quantized": True, "damage_share": share, "macs_share": 0.25}
                  for name, share in (("a", 0.7), ("b", 0.2), ("c", 0.1))]
        document = {"network": "Net", "machine": TUNE["machine"], "time": TUNE["time"], "samples": 500, "seconds": 389, "float_seconds": 10.3,
                    "outstanding": ["a"], "layers": [*layers, {"node": "d", "quantized": False}]}
        text = self.gpu_table("sensitivity", "sensitivity", document)
        self.assertIn("| Net | Some CPU, 2 cores | 3 | 500 | 389 s | 38× | 1: 70 % of the damage, 25.0 % of the work |\n", text)

    def keep_mix(self, document, *options):
        result = Path(self.folder.name) / "r.json"
        result.write_text(json.dumps(document), encoding="utf-8")
        command = [sys.executable, SCRIPT.with_name("keep_mix.py"), result, "--title", "Net", "--name", "net", "--results",
                   self.results, *options]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_finished_mixes_are_kept_without_folders(self):
        self.assertEqual(self.keep_mix(TUNE).returncode, 0)
        kept = json.loads((self.results / "net.tune.cpu.json").read_text(encoding="utf-8"))
        self.assertEqual((kept["network"], kept["engine"], kept["command"]), ("Net", "e.engine", "lathe tune m.onnx -o e.engine"))
        self.assertEqual((kept["model"]["file"], kept["data"]["path"]), ("m.onnx", "photos/validation"))
        self.assertNotIn("/somewhere", json.dumps(kept))
        self.assertIn("--gpu", self.keep_mix(TUNE | {"device": "cuda"}).stderr)
        self.assertEqual(self.keep_mix(TUNE | {"device": "cuda"}, "--gpu", "Some GPU").returncode, 0)
        self.assertEqual(json.loads((self.results / "net.tune.gpu.json").read_text(encoding="utf-8"))["machine"]["gpu"], "Some GPU")

    def test_unfinished_mixes_are_refused(self):
        unjudged = TUNE | {"judged": TUNE["judged"] | {"samples": 0}}
        untimed = TUNE | {"judged": TUNE["judged"] | {"timed": TUNE["judged"]["timed"][1:]}}
        for document, words in ((unjudged, "did not see"), (untimed, "saved engine"), (TUNE | {"chosen": "FP16"}, "chosen"),
                                (TUNE | {"kind": "bench"}, "bench")):
            result = self.keep_mix(document)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(words, result.stderr)
        self.assertEqual(list(self.results.iterdir()), [])

    def test_an_unknown_table_is_an_error(self):
        self.readme.write_text("<!-- table:nothing -->\n<!-- /table -->\n", encoding="utf-8")
        result = self.run_script()
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("unknown table 'nothing'", result.stderr)


if __name__ == "__main__":
    unittest.main()
