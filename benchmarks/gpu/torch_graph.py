"""PyTorch's side of a comparison: a module as a CUDA graph with the copies around it, and what memory it takes."""

import time

import torch


def flat(outputs):
    return list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]


class TorchGraph:
    """A PyTorch module on fixed inputs."""

    def __init__(self, module, inputs, device, channels_last):
        self.device = device
        self.module = module  # the graph reads its weights where they lie
        with torch.no_grad():
            self.host = [tensor.pin_memory() if device == "cuda" else tensor for tensor in inputs]
            self.fixed = [tensor.to(device) for tensor in self.host]
            if channels_last:
                self.fixed = [
                    t.to(memory_format=torch.channels_last) if t.dim() == 4 else t for t in self.fixed
                ]
                self.host = [t.cpu().pin_memory() if device == "cuda" else t for t in self.fixed]
            if device != "cuda":
                self.outputs = flat(module(*self.fixed))
                return
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(4):
                    module(*self.fixed)
            torch.cuda.current_stream().wait_stream(stream)
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.outputs = flat(module(*self.fixed))
            self.back = [torch.empty_like(t, device="cpu").pin_memory() for t in self.outputs]
            self.start, self.stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def burst(self, calls, warm, launches=None):
        """Milliseconds between the events of each call; the microseconds that each launch took go to `launches`."""
        times = []
        for i in range(warm + calls):
            if self.device != "cuda":
                start = time.perf_counter()
                with torch.no_grad():
                    self.module(*self.fixed)
                took = 1e3 * (time.perf_counter() - start)
            else:
                for to, source in zip(self.fixed, self.host):
                    to.copy_(source, non_blocking=True)
                self.start.record()
                begun = time.perf_counter()
                self.graph.replay()
                launched = time.perf_counter() - begun
                self.stop.record()
                for to, source in zip(self.back, self.outputs):
                    to.copy_(source, non_blocking=True)
                torch.cuda.synchronize()
                took = self.start.elapsed_time(self.stop)
                if launches is not None and i >= warm:
                    launches.append(1e6 * launched)
            if i >= warm:
                times.append(took)
        return times


class Memory:
    """What making something takes of the GPU in this process, beyond what was taken before."""

    def __init__(self, device):
        self.active = device == "cuda"
        if self.active:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            self.allocated, self.reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()

    def taken(self):
        """Peak bytes of tensors, and of what the allocator held for them."""
        if not self.active:
            return {}
        torch.cuda.synchronize()
        return {"peak_allocated_bytes": torch.cuda.max_memory_allocated() - self.allocated,
                "peak_reserved_bytes": torch.cuda.max_memory_reserved() - self.reserved}


def weight_bytes(module):
    """Of parameters and buffers."""
    tensors = [*module.parameters(), *module.buffers()]
    return sum(t.numel() * t.element_size() for t in tensors)
