"""The machine that figures were taken on, and what its GPU did meanwhile."""

import os
import platform
import subprocess
import tempfile
from pathlib import Path

import numpy as np

SAMPLED = ["clocks.sm", "clocks.mem", "power.draw", "temperature.gpu", "memory.used", "utilization.gpu"]


def query_gpu(fields):
    """What nvidia-smi says of the first GPU, by field; empty where there is none."""
    try:
        text = subprocess.run(
            ["nvidia-smi", "--id=0", f"--query-gpu={','.join(fields)}", "--format=csv,noheader"],
            capture_output=True, text=True, timeout=20, check=True,
        ).stdout
        return dict(zip(fields, (value.strip() for value in text.splitlines()[0].split(","))))
    except (OSError, subprocess.SubprocessError, IndexError):
        return {}


def clocks():
    """Now, and what holds them back."""
    return query_gpu(["clocks.sm", "clocks.mem", "clocks_event_reasons.active", "temperature.gpu", "power.draw"])


def machine(device):
    """Processor and, for cuda, the first GPU."""
    cpu, text = platform.processor(), Path("/proc/cpuinfo").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("model name"):
            cpu = line.split(":", 1)[1].strip()
            break
    found = {"cpu": cpu, "cores": len(os.sched_getaffinity(0)), "virtual_machine": "hypervisor" in text}
    if device == "cuda":
        import torch

        properties = torch.cuda.get_device_properties(0)
        found |= {
            "gpu": properties.name,
            "gpus": torch.cuda.device_count(),
            "multiprocessors": properties.multi_processor_count,
            "gpu_memory_bytes": properties.total_memory,
            "driver": query_gpu(["driver_version"]).get("driver_version", "unknown"),
            "clocks_max": query_gpu(["clocks.max.sm", "clocks.max.mem"]),
        }
    return found


class Samples:
    """NVML's readings of the first GPU, five a second by nvidia-smi in a process of its own, while it is open."""

    def __init__(self):
        self.file = tempfile.NamedTemporaryFile("w+", suffix=".csv")
        try:
            self.process = subprocess.Popen(
                ["nvidia-smi", "--id=0", f"--query-gpu={','.join(SAMPLED)}", "--format=csv,noheader,nounits",
                 "--loop-ms=200"], stdout=self.file, stderr=subprocess.DEVNULL)
        except OSError:
            self.process = None

    def close(self):
        """Least, median and greatest of each reading; {} without any."""
        if self.process is None:
            return {}
        self.process.terminate()
        self.process.wait()
        self.file.seek(0)
        rows = []
        for line in self.file.read().splitlines():
            try:
                rows.append([float(word) for word in line.split(",")])
            except ValueError:
                continue  # a line cut short, or a reading that this GPU lacks
        rows = [row for row in rows if len(row) == len(SAMPLED)]
        self.file.close()
        if not rows:
            return {}
        table = np.array(rows)
        units = {"clocks.sm": "mhz", "clocks.mem": "mhz", "power.draw": "w", "temperature.gpu": "c", "memory.used": "mib",
                 "utilization.gpu": "percent"}
        found = {"samples": len(rows)}
        for column, name in enumerate(SAMPLED):
            values = table[:, column]
            found[f"{name.replace('.', '_')}_{units[name]}"] = [
                float(values.min()), float(np.median(values)), float(values.max())]
        return found
