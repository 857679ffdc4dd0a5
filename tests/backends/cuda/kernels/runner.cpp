#include "runner.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>

#include "numbers.hpp"

namespace lathe::cuda::test {

using T = ElementType;

namespace {

Result<DeviceMemory> upload(std::span<const std::byte> bytes) {
    LATHE_TRY(DeviceMemory memory, DeviceMemory::allocate(std::max<std::size_t>(bytes.size(), 16), "a test"));
    LATHE_CUDA(cudaMemcpy(memory.data(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice), "copying");
    return memory;
}

float number_at(const std::byte* data, T type, std::size_t i) {
    return static_cast<float>(number(data + i * bytes_of(type), type));
}

} // namespace

Comparison compare(const Value& v, const std::vector<std::byte>& reference, const std::vector<std::byte>& candidate) {
    Comparison result;
    double difference = 0, size = 0;
    std::size_t off = 0, count = 0;
    const std::size_t all = reference.size() / bytes_of(v.type);
    for (std::size_t i = 0; i < all; ++i) {
        const float a = number_at(reference.data(), v.type, i), b = number_at(candidate.data(), v.type, i);
        const bool padding = v.layout == Layout::nhwc && static_cast<std::int64_t>(i) % v.channel_stride >= v.dims[1];
        if (padding && v.part) { // nobody's to write
            const std::size_t size = bytes_of(v.type);
            if (std::memcmp(reference.data() + i * size, candidate.data() + i * size, size) != 0) {
                result.bad = true;
                result.what = "writes between its pixels";
            }
            continue;
        }
        if (padding) {
            if (!std::isfinite(b)) {
                result.bad = true;
                result.what = "padding is not finite";
            }
            continue;
        }
        ++count;
        if (!std::isfinite(b) || !std::isfinite(a)) {
            result.bad = true;
            result.what = "not finite at " + std::to_string(i);
            continue;
        }
        if (v.type == T::s8) {
            const float d = std::abs(a - b);
            if (d > 1) {
                result.bad = true;
                result.what = std::to_string(a) + " became " + std::to_string(b) + " at " + std::to_string(i);
            }
            if (d > 0) ++off;
        } else {
            difference += static_cast<double>(a - b) * static_cast<double>(a - b);
            size += static_cast<double>(a) * static_cast<double>(a);
        }
    }
    result.error = v.type == T::s8 ? static_cast<double>(off) / static_cast<double>(std::max<std::size_t>(count, 1))
                                   : std::sqrt(difference / std::max(size, 1e-30));
    return result;
}

double tolerance(const FusedOp& op, const Value& out) {
    if (out.type == T::s8) return 0.01;
    double t = out.type == T::bf16 ? 2e-2 : out.type == T::f16 ? 3e-3 : 1e-5;
    if (op.tf32) t = std::max(t, 2e-3);
    return t;
}

Result<std::unique_ptr<Runner>> Runner::make(const TestPlan& test, const Device& device) {
    auto runner = std::unique_ptr<Runner>(new Runner(test, device));
    const Plan& plan = test.plan;
    for (const Weight& w : plan.weights->weights) {
        LATHE_TRY(DeviceMemory memory, upload(w.bytes));
        runner->weight_pointers_.push_back(memory.data());
        runner->memory_.push_back(std::move(memory));
    }
    for (const Value& v : plan.values) {
        if (v.alias_of != none) {
            runner->pointers_.push_back(static_cast<std::byte*>(runner->pointers_[v.alias_of]) +
                                        static_cast<std::size_t>(v.alias_from) * bytes_of(v.type));
            continue;
        }
        // room behind each value shows writes beyond it
        LATHE_TRY(DeviceMemory memory, DeviceMemory::allocate(v.byte_size() + 256, "a test value"));
        LATHE_CUDA(cudaMemset(memory.data(), 0xFF, memory.size()), "poisoning");
        runner->pointers_.push_back(memory.data());
        runner->memory_.push_back(std::move(memory));
    }
    LATHE_TRY(runner->workspace_, DeviceMemory::allocate(std::size_t{64} << 20, "a test's workspace"));
    LATHE_CUDA(cudaStreamCreateWithFlags(&runner->stream_, cudaStreamNonBlocking), "a stream");
    std::mt19937 random(7);
    for (const ValueId id : plan.inputs) {
        const Value& v = plan.values[id];
        HostTensor tensor = random_input(v, random);
        LATHE_CUDA(cudaMemcpy(runner->pointers_[id], tensor.bytes.data(), tensor.bytes.size(), cudaMemcpyHostToDevice),
                   "copying an input");
        runner->inputs_.push_back(std::move(tensor));
    }
    // Copies from pageable memory and memset may return before they are done; the runner's stream does not wait for
    // them.
    LATHE_CUDA(cudaStreamSynchronize(nullptr), "copying the inputs");
    return runner;
}

Runner::~Runner() {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

Result<void> Runner::reference() {
    const auto provider = make_reference_provider();
    for (std::size_t i = 0; i < test_.plan.ops.size(); ++i) {
        LATHE_TRY(const auto prepared, provider->prepare("general", test_.plan.ops[i], test_.plan, device_));
        LATHE_CHECK(launch(*prepared));
    }
    LATHE_TRY(reference_, outputs());
    return {};
}

Result<std::vector<Comparison>> Runner::candidate(const Provider& provider, const std::string& id,
                                                  double* microseconds) {
    const FusedOp& op = test_.plan.ops[test_.main];
    LATHE_TRY(const auto prepared, provider.prepare(id, op, test_.plan, device_));
    if (prepared->workspace_bytes() > workspace_.size())
        return Error{ErrorCode::unsupported, "needs more workspace", "", ""};
    for (const ValueId output : op.outputs)
        LATHE_CUDA(cudaMemsetAsync(pointers_[output], 0xFF, test_.plan.values[output].byte_size(), stream_), "poison");
    LATHE_CUDA(cudaMemsetAsync(workspace_.data(), 0xFF, workspace_.size(), stream_), "poison");
    LATHE_CHECK(launch(*prepared));
    LATHE_TRY(const auto found, outputs());
    std::vector<Comparison> comparisons;
    for (std::size_t o = 0; o < op.outputs.size(); ++o)
        comparisons.push_back(compare(test_.plan.values[op.outputs[o]], reference_[o], found[o]));
    if (microseconds != nullptr) {
        LATHE_TRY(*microseconds, time(*prepared));
    }
    return comparisons;
}

Result<void> Runner::launch(const PreparedKernel& prepared) {
    LATHE_TRY(const auto bound, prepared.bind(pointers()));
    LATHE_CHECK(bound->launch(stream_, false));
    LATHE_CUDA(cudaStreamSynchronize(stream_), "running a kernel");
    LATHE_CUDA(cudaGetLastError(), "running a kernel");
    return {};
}

Result<double> Runner::time(const PreparedKernel& prepared) {
    LATHE_TRY(const auto bound, prepared.bind(pointers()));
    cudaEvent_t events[2];
    for (cudaEvent_t& event : events)
        LATHE_CUDA(cudaEventCreate(&event), "an event");
    constexpr int runs = 20;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    LATHE_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capturing");
    for (int i = 0; i < runs; ++i)
        LATHE_CHECK(bound->launch(stream_, prepared.waits() && i > 0));
    LATHE_CUDA(cudaStreamEndCapture(stream_, &graph), "capturing");
    LATHE_CUDA(cudaGraphInstantiate(&executable, graph, 0), "a graph");
    double best = std::numeric_limits<double>::infinity();
    for (int repeat = 0; repeat < 3; ++repeat) {
        LATHE_CUDA(cudaEventRecord(events[0], stream_), "timing");
        LATHE_CUDA(cudaGraphLaunch(executable, stream_), "timing");
        LATHE_CUDA(cudaEventRecord(events[1], stream_), "timing");
        LATHE_CUDA(cudaEventSynchronize(events[1]), "timing");
        float milliseconds = 0;
        LATHE_CUDA(cudaEventElapsedTime(&milliseconds, events[0], events[1]), "timing");
        best = std::min(best, static_cast<double>(milliseconds) * 1000 / runs);
    }
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
    for (const cudaEvent_t event : events)
        cudaEventDestroy(event);
    return best;
}

Result<std::vector<std::vector<std::byte>>> Runner::download(const std::vector<ValueId>& ids) {
    std::vector<std::vector<std::byte>> all;
    for (const ValueId id : ids) {
        const std::size_t size = test_.plan.values[id].byte_size();
        std::vector<std::byte> bytes(size + 256);
        LATHE_CUDA(cudaMemcpy(bytes.data(), pointers_[id], bytes.size(), cudaMemcpyDeviceToHost), "copying back");
        for (std::size_t i = size; i < bytes.size(); ++i)
            if (bytes[i] != std::byte{0xFF})
                return Error{ErrorCode::verification_failed, "a kernel wrote behind the end of its result", "", ""};
        bytes.resize(size);
        all.push_back(std::move(bytes));
    }
    return all;
}

} // namespace lathe::cuda::test
