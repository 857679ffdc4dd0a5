#include "backends/cuda/device/machine_profile.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

#include "backends/cuda/device/compare.hpp"
#include "backends/cuda/device/handles.hpp"
#include "backends/cuda/device/probe.hpp"
#include "backends/cuda/device/state.hpp"
#include "backends/cuda/tactics/provider.hpp"
#include "support/log.hpp"

namespace lathe::cuda {

namespace {

/// In the timing cache: what was done as tactics, and the microseconds that it took.
const std::string entry = "machine profile 1";
constexpr std::size_t memory_bytes = std::size_t{512} << 20, cache_bytes = std::size_t{8} << 20;
constexpr int cache_times = 40, launches = 200, repeats = 5;
constexpr std::int64_t product_m = 8192, product_n = 4096, product_k = 4096;
constexpr std::size_t candidates_a_provider = 3;

struct ProductType {
    const char* name;
    ElementType in, out;
    bool tf32;
};
constexpr std::array<ProductType, 5> product_types{{
    {"fp32", ElementType::f32, ElementType::f32, false},
    {"tf32", ElementType::f32, ElementType::f32, true},
    {"fp16", ElementType::f16, ElementType::f16, false},
    {"bf16", ElementType::bf16, ElementType::bf16, false},
    {"int8", ElementType::s8, ElementType::s8, false},
}};

/// out[m, n] = in[m, k] weight[n, k]^T, and nothing else.
Plan product(const ProductType& type) {
    Plan plan;
    plan.weights = std::make_shared<WeightStore>();
    const auto weight = [&](const char* key, ElementType element, Shape dims) {
        plan.weights->weights.push_back({key, element, std::move(dims), {}, nullptr});
        return static_cast<WeightId>(plan.weights->weights.size() - 1);
    };
    Value input;
    input.name = "input";
    input.role = Role::input;
    input.type = type.in;
    input.dims = {product_m, product_k};
    Value output = input;
    output.name = "output";
    output.role = Role::output;
    output.type = type.out;
    output.dims = {product_m, product_n};
    plan.values = {input, output};
    plan.inputs = {0};
    plan.outputs = {1};
    Gemm gemm;
    gemm.m = product_m;
    gemm.n = product_n;
    gemm.k = product_k;
    gemm.weight = weight("product", type.in, {product_n, product_k});
    if (type.in == ElementType::s8) {
        gemm.epilogue.scale = weight("scale", ElementType::f32, {product_n});
        gemm.epilogue.bias = weight("bias", ElementType::f32, {product_n});
    }
    FusedOp op;
    op.name = "the profile's product";
    op.detail = gemm;
    op.inputs = {0};
    op.outputs = {1};
    op.compute = type.in;
    op.tf32 = type.tf32;
    op.macs = product_m * product_n * product_k;
    plan.ops.push_back(std::move(op));
    return plan;
}

class Probe {
public:
    explicit Probe(const Device& device) : device_(device) {}

    Result<std::vector<Timing>> run() {
        LATHE_CUDA(cudaSetDevice(device_.index), "choosing the GPU");
        LATHE_TRY(stream_, Stream::create());
        LATHE_TRY(start_, Event::create(true));
        LATHE_TRY(end_, Event::create(true));
        std::vector<Timing> found;
        const auto add = [&](const std::string& what, double us) {
            Timing timing;
            timing.tactic = what;
            timing.mixed_us = us;
            found.push_back(std::move(timing));
        };
        LATHE_CHECK(copies(add));
        LATHE_TRY(const double launch, graph_of_nothing());
        add("launch", launch);
        for (const ProductType& type : product_types) {
            LATHE_TRY(const auto us, best_product(type));
            if (us) add(std::string("product ") + type.name, *us);
        }
        return found;
    }

private:
    /// Microseconds of what `enqueue` puts into the stream: the least of several, behind one that does not count.
    Result<double> time(const std::function<Result<void>()>& enqueue) {
        double best = 0;
        for (int i = 0; i <= repeats; ++i) {
            LATHE_CHECK(start_.record(stream_));
            LATHE_CHECK(enqueue());
            LATHE_CHECK(end_.record(stream_));
            LATHE_CHECK(end_.synchronize("measuring the GPU"));
            LATHE_TRY(const double ms, end_.since(start_));
            if (i == 1 || (i > 1 && 1e3 * ms < best)) best = 1e3 * ms;
        }
        return best;
    }

    template <class Add>
    Result<void> copies(const Add& add) {
        LATHE_TRY(const DeviceMemory from, DeviceMemory::allocate(memory_bytes, "measuring the GPU"));
        LATHE_TRY(const DeviceMemory to, DeviceMemory::allocate(memory_bytes, "measuring the GPU"));
        LATHE_CUDA(kernels::launch_fill(from.data(), static_cast<int>(ElementType::f32), memory_bytes / 4, 1, 0, 0,
                                        stream_.get()),
                   "filling memory");
        const auto by_engine = [&]() -> Result<void> {
            LATHE_CUDA(cudaMemcpyAsync(to.data(), from.data(), memory_bytes, cudaMemcpyDeviceToDevice, stream_.get()),
                       "copying");
            return {};
        };
        const auto by_kernel = [&](std::size_t bytes, int times, int blocks) {
            return time([&, bytes, times, blocks]() -> Result<void> {
                LATHE_CUDA(kernels::launch_copy(to.data(), from.data(), bytes, times, blocks, stream_.get()),
                           "copying");
                return {};
            });
        };
        LATHE_TRY(double memory, time(by_engine));
        LATHE_TRY(const double ours, by_kernel(memory_bytes, 1, device_.multiprocessors * 16));
        add("memory copy", std::min(memory, ours));
        LATHE_TRY(const double cache, by_kernel(cache_bytes, cache_times, device_.multiprocessors * 4));
        add("cache copy", cache);
        return {};
    }

    Result<double> graph_of_nothing() {
        LATHE_TRY(const Graph graph, Graph::capture(
                                         stream_,
                                         [&]() -> Result<void> {
                                             for (int i = 0; i < launches; ++i)
                                                 LATHE_CUDA(kernels::launch_nothing(stream_.get()), "launching");
                                             return {};
                                         },
                                         "recording launches"));
        LATHE_TRY(const double us, time([&] { return graph.launch(stream_); }));
        return us / launches;
    }

    /// Of the first candidates of every provider but the reference; nothing where none takes it or memory is short.
    Result<std::optional<double>> best_product(const ProductType& type) {
        const Plan plan = product(type);
        std::vector<DeviceMemory> memory;
        const auto take = [&](ElementType element, std::size_t bytes, std::int64_t most) -> Result<void*> {
            LATHE_TRY(DeviceMemory taken, DeviceMemory::allocate(bytes, "measuring the GPU"));
            LATHE_CUDA(kernels::launch_fill(taken.data(), static_cast<int>(element), bytes / bytes_of(element),
                                            memory.size() + 1, 0, most, stream_.get()),
                       "filling memory");
            memory.push_back(std::move(taken));
            return static_cast<void*>(memory.back().data());
        };
        std::vector<void*> values;
        std::vector<const void*> weights;
        for (const Value& value : plan.values) {
            LATHE_TRY(void* const at, take(value.type, value.byte_size(), 1));
            values.push_back(at);
        }
        for (const Weight& weight : plan.weights->weights) {
            const auto count = static_cast<std::size_t>(element_count(weight.dims));
            LATHE_TRY(void* const at, take(weight.type, count * bytes_of(weight.type), 1));
            weights.push_back(at);
        }
        const FusedOp& op = plan.ops.front();
        std::optional<double> best;
        for (const Provider* provider : usable_providers()) {
            if (provider->name() == "reference") continue;
            std::string why;
            const auto ids = provider->candidates(op, plan, device_, Effort::standard, why);
            for (std::size_t i = 0; i < std::min(ids.size(), candidates_a_provider); ++i) {
                const auto kernel = provider->prepare(ids[i], op, plan, device_);
                if (!kernel) continue;
                LATHE_TRY(const DeviceMemory workspace,
                          DeviceMemory::allocate((*kernel)->workspace_bytes(), "measuring the GPU"));
                const auto bound = (*kernel)->bind({values, weights, workspace.data()});
                if (!bound) continue;
                const auto us = time([&] { return (*bound)->launch(stream_.get(), false); });
                if (us && (!best || *us < *best)) best = *us;
            }
        }
        LATHE_CHECK(stream_.synchronize("measuring the GPU"));
        return best;
    }

    const Device& device_;
    Stream stream_;
    Event start_, end_;
};

MachineLimits limits_from(const std::vector<Timing>& timings, const Device& device) {
    MachineLimits limits;
    limits.cache_bytes = static_cast<double>(device.l2_bytes);
    const std::string product_prefix = "product ";
    for (const Timing& timing : timings) {
        if (timing.mixed_us <= 0) continue;
        const double seconds = timing.mixed_us * 1e-6;
        if (timing.tactic == "memory copy") limits.memory_bytes_per_second = 2.0 * memory_bytes / seconds;
        if (timing.tactic == "cache copy") limits.cache_bytes_per_second = 2.0 * cache_bytes * cache_times / seconds;
        if (timing.tactic == "launch") limits.launch_us = timing.mixed_us;
        if (timing.tactic.starts_with(product_prefix)) {
            limits.operations_per_second[timing.tactic.substr(product_prefix.size())] =
                2.0 * product_m * product_n * product_k / seconds;
        }
    }
    return limits;
}

} // namespace

Result<MachineLimits> machine_limits(const Device& device, TimingCache& cache) {
    if (const auto known = cache.find(entry)) return limits_from(*known, device);
    auto found = Probe(device).run();
    if (!found) {
        if (found.error().code != ErrorCode::out_of_memory) return std::move(found).error();
        log(LogLevel::info, "the GPU's limits were not measured: " + found.error().message);
        return MachineLimits{};
    }
    cache.store(entry, *found, static_cast<int>(Effort::full));
    return limits_from(*found, device);
}

} // namespace lathe::cuda
