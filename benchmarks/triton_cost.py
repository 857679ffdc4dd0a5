"""What a request of one sample costs through a Triton server, beyond the engine's own run: gRPC, system shared memory.

    triton_cost.py ENGINE LATHE [--calls 2000] [--rounds 5]

The client sends the same serialised request again and again, so that of Python little more than gRPC's own call is in the
time. A round tells the median of its calls; from it the mean time is taken that the server counted for the engine's run
(compute_infer, which is Session::run) in the same calls. The server counts the other stages too: queue, compute_input,
compute_output.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import grpc
import numpy
import tritonclient.grpc as client_library
import tritonclient.utils.shared_memory as shared_memory
from tritonclient.grpc import service_pb2

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "triton"))
from server import Server  # noqa: E402

NUMPY_TYPES = {"FP32": "float32", "FP16": "float16", "INT64": "int64", "INT32": "int32", "UINT8": "uint8"}
STAGES = ("queue", "compute_input", "compute_infer", "compute_output")


def shared_request(client, metadata, regions):
    """A request whose tensors all lie in shared memory; open sizes are 1."""
    request = service_pb2.ModelInferRequest(model_name="m")
    for tensors, into in ((metadata.inputs, request.inputs), (metadata.outputs, request.outputs)):
        for tensor in tensors:
            shape = [max(1, size) for size in tensor.shape]
            size = int(numpy.prod(shape)) * numpy.dtype(NUMPY_TYPES[tensor.datatype]).itemsize
            key = f"lathe-cost-{os.getpid()}-{tensor.name}"
            region = shared_memory.create_shared_memory_region(key, f"/{key}", size)
            regions.append(region)
            client.register_system_shared_memory(key, f"/{key}", size)
            entry = into.add(name=tensor.name)
            if tensors is metadata.inputs:
                entry.datatype = tensor.datatype
                entry.shape.extend(shape)
            entry.parameters["shared_memory_region"].string_param = key
            entry.parameters["shared_memory_byte_size"].int64_param = size
    return request.SerializeToString()


def counted(client):
    stats = client.get_inference_statistics("m").model_stats[0].inference_stats
    return stats.success.count, {stage: getattr(stats, stage).ns for stage in STAGES}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", type=pathlib.Path)
    parser.add_argument("lathe")
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    regions, rounds = [], []
    with tempfile.TemporaryDirectory() as folder:
        told = subprocess.run([options.lathe, "deploy", "triton", options.engine, "--name", "m", "-o", folder,
                               "--backend", "lathe", "--json"], check=True, stdout=subprocess.PIPE, text=True).stdout
        # Without others to wait for a request is run at once.
        with Server(folder, json.loads(told)["backend_directory"]) as server:
            client = client_library.InferenceServerClient(server.grpc)
            try:
                request = shared_request(client, client.get_model_metadata("m"), regions)
                channel = grpc.insecure_channel(server.grpc)
                call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer",
                                           request_serializer=None, response_deserializer=None)
                for _ in range(200):
                    call(request)
                for _ in range(options.rounds):
                    count, before = counted(client)
                    times = []
                    for _ in range(options.calls):
                        start = time.perf_counter()
                        call(request)
                        times.append(1e6 * (time.perf_counter() - start))
                    now, after = counted(client)
                    stages = {stage: (after[stage] - before[stage]) / 1000 / (now - count) for stage in STAGES}
                    median = statistics.median(times)
                    rounds.append({"call_us": round(median, 1), **{f"{k}_us": round(v, 1) for k, v in stages.items()},
                                   "cost_us": round(median - stages["compute_infer"], 1)})
            finally:
                client.unregister_system_shared_memory()
                for region in regions:
                    shared_memory.destroy_shared_memory_region(region)
    print(json.dumps({"kind": "triton_cost", "engine": options.engine.name, "calls": options.calls, "rounds": rounds,
                      "cost_us": statistics.median(row["cost_us"] for row in rounds)}, indent=1))


if __name__ == "__main__":
    main()
