// Every variant of every generated kernel, compiled by the host's compiler and run thread by thread on the host,
// against the plan's interpreter: over the kernel tests' table and over seeded random operations. Needs no GPU.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <map>
#include <optional>
#include <random>

#include <gtest/gtest.h>

#include "../kernels/cases.hpp"
#include "../kernels/numbers.hpp"
#include "backends/cuda/plan/interpret.hpp"
#include "backends/cuda/plan/lower.hpp"
#include "host_kernels.hpp"
#include "random_cases.hpp"
#include "support/half.hpp"

namespace lathe::cuda::test {
namespace {

using T = ElementType;

/// Memory whose end is the end of what can be read: a kernel that reads or writes behind it is stopped.
class Buffer {
public:
    explicit Buffer(std::size_t bytes) : bytes_(bytes) {
        const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        mapped_ = (bytes + page - 1) / page * page + page;
        base_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        mprotect(static_cast<std::byte*>(base_) + mapped_ - page, page, PROT_NONE);
        data_ = static_cast<std::byte*>(base_) + (mapped_ - page - (bytes + 15) / 16 * 16);
    }
    Buffer(Buffer&& other) noexcept
        : base_(std::exchange(other.base_, nullptr)), mapped_(other.mapped_), bytes_(other.bytes_), data_(other.data_) {
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    Buffer& operator=(Buffer&&) = delete;
    ~Buffer() {
        if (base_ != nullptr) munmap(base_, mapped_);
    }
    std::byte* data() const { return data_; }
    std::size_t size() const { return bytes_; }

private:
    void* base_ = nullptr;
    std::size_t mapped_ = 0, bytes_ = 0;
    std::byte* data_ = nullptr;
};

/// Places of a value's elements in memory, in the order of its dims.
std::vector<std::size_t> places(const Value& v) {
    const auto count = static_cast<std::size_t>(element_count(v.dims));
    std::vector<std::size_t> all(count);
    std::size_t plane = 1;
    for (std::size_t d = 2; d < v.dims.size(); ++d)
        plane *= static_cast<std::size_t>(v.dims[d]);
    for (std::size_t i = 0; i < count; ++i) {
        if (v.layout == Layout::linear) {
            all[i] = i;
            continue;
        }
        const auto channels = static_cast<std::size_t>(v.dims[1]);
        all[i] = (i / plane / channels * plane + i % plane) * static_cast<std::size_t>(v.channel_stride) +
                 i / plane % channels;
    }
    return all;
}

/// One tested plan: its values as the interpreter has them, and its kernels.
struct Tested {
    std::string name;
    TestPlan test;
    std::vector<HostTensor> values;
    std::vector<std::pair<std::string, std::size_t>> kernels; ///< variant, index
};

std::vector<HostTensor> inputs_of(const Plan& plan) {
    std::mt19937 random(7);
    std::vector<HostTensor> tensors;
    for (const ValueId id : plan.inputs)
        tensors.push_back(random_input(plan.values[id], random));
    return tensors;
}

Buffer laid_out(const Value& v, const HostTensor& tensor) {
    Buffer buffer(v.byte_size());
    std::memset(buffer.data(), 0x3C, v.byte_size()); // padding: finite in every type
    const std::size_t size = bytes_of(v.type);
    const auto where = places(v);
    for (std::size_t i = 0; i < where.size(); ++i)
        std::memcpy(buffer.data() + where[i] * size, &tensor.bytes[i * size], size);
    return buffer;
}

/// "" or what is wrong with a result.
double square_sum(const Value& v, const HostTensor& t) {
    double sum = 0;
    for (std::size_t i = 0; i < t.bytes.size(); i += bytes_of(v.type))
        sum += number(&t.bytes[i], v.type) * number(&t.bytes[i], v.type);
    return sum;
}

// Relative to the expected values, or to `least`, the square sum of what they are differences of.
std::string difference(const Value& v, const HostTensor& expected, const Buffer& found, double least) {
    const std::size_t size = bytes_of(v.type);
    const auto where = places(v);
    std::vector<bool> used(v.byte_size() / size, false);
    double error = 0, reference = 0;
    std::size_t off = 0;
    for (std::size_t i = 0; i < where.size(); ++i) {
        used[where[i]] = true;
        const double a = number(&expected.bytes[i * size], v.type), b = number(found.data() + where[i] * size, v.type);
        if (v.type == T::s8) {
            if (std::abs(a - b) > 1)
                return "element " + std::to_string(i) + " is " + std::to_string(b) + ", not " + std::to_string(a);
            off += a != b ? 1 : 0;
        } else if (is_real(v.type) || v.type == T::f64) {
            if (a == b) continue; // infinities too
            if (!std::isfinite(b))
                return "element " + std::to_string(i) + " is not finite; expected " + std::to_string(a);
            error += (a - b) * (a - b);
            reference += a * a;
        } else if (a != b) {
            return "element " + std::to_string(i) + " is " + std::to_string(b) + ", not " + std::to_string(a);
        }
    }
    for (std::size_t i = 0; i < used.size(); ++i) {
        if (used[i]) continue;
        const std::byte* at = found.data() + i * size;
        if (v.part && std::any_of(at, at + size, [](std::byte b) { return b != std::byte{0xFF}; }))
            return "a neighbour of the part is written";
        if (!v.part && !std::isfinite(number(at, v.type))) return "padding is not finite";
    }
    // Halves between two integers: a product with 1 / scale rounds some of them otherwise than a quotient.
    if (static_cast<double>(off) > 2 + 0.05 * static_cast<double>(where.size()))
        return std::to_string(off) + " of " + std::to_string(where.size()) + " integers differ by 1";
    const double limit = v.type == T::f32 || v.type == T::f64 ? 2e-6 : v.type == T::f16 ? 1e-3 : 8e-3;
    const double relative = std::sqrt(error / std::max({reference, least, 1e-30}));
    return error > 0 && relative > limit ? "relative error " + std::to_string(relative) : "";
}

/// The same operation with its images as parts of wider ones, where that is asked of its kernels; nothing where not.
std::optional<TestPlan> with_parts(TestPlan test) {
    Plan& plan = test.plan;
    FusedOp& op = plan.ops[test.main];
    const auto* concat = std::get_if<Concat>(&op.detail);
    const bool reads = std::holds_alternative<Pointwise>(op.detail) || std::holds_alternative<Slice>(op.detail) ||
                       std::holds_alternative<Reformat>(op.detail) || std::holds_alternative<Pool>(op.detail) ||
                       std::holds_alternative<GlobalPool>(op.detail) || std::holds_alternative<Resize>(op.detail) ||
                       (concat != nullptr && concat->axis == 1 && !concat->interleaved);
    if (!reads) return std::nullopt;
    const bool writes = op.outputs.size() == 1 && concat == nullptr && !std::holds_alternative<GlobalPool>(op.detail) &&
                        !std::holds_alternative<Slice>(op.detail);
    std::size_t made = 0;
    const auto widen = [&](ValueId id) {
        const Value v = plan.values[id];
        const auto size = static_cast<std::int64_t>(bytes_of(v.type));
        const bool takes = v.role == Role::activation && v.layout == Layout::nhwc && v.dims.size() == 4 &&
                           v.alias_of == none && v.zero_point == 0 && v.dims[1] * size % 16 == 0 &&
                           v.channel_stride == v.dims[1];
        if (!takes) return;
        Value whole = v;
        const std::int64_t before = 16 / size, behind = 2 * before;
        whole.name.clear();
        whole.dims[1] = whole.channel_stride = v.dims[1] + before + behind;
        Value& part = plan.values[id];
        part.part = true;
        part.alias_of = static_cast<ValueId>(plan.values.size());
        part.alias_from = before;
        part.channel_stride = whole.channel_stride;
        plan.values.push_back(std::move(whole));
        ++made;
    };
    for (const ValueId id : op.inputs)
        widen(id);
    if (writes) widen(op.outputs[0]);
    if (made == 0) return std::nullopt;
    return test;
}

/// All cases, and those that have them with parts of images.
std::vector<Case> and_parted(std::vector<Case> cases) {
    std::vector<Case> all;
    for (Case& each : cases) {
        if (each.interpret) {
            if (auto parted = with_parts(each.make()))
                all.push_back({each.name + "_parts", [test = *std::move(parted)] { return test; }, true});
        }
        all.push_back(std::move(each));
    }
    return all;
}

void check(std::vector<Case> cases, std::size_t least) {
    constexpr GeneratedTarget target{90, 132};
    HostKernels host;
    std::vector<Tested> tested;
    std::map<std::string, std::size_t> refusals;
    for (const Case& each : cases) {
        if (!each.interpret) continue;
        Tested one{each.name, each.make(), {}, {}};
        const Plan& plan = one.test.plan;
        const FusedOp& op = plan.ops[one.test.main];
        std::string why;
        const auto variants = generated_variants(op, plan, target, why);
        if (variants.empty()) ++refusals[std::string(kind_of(op)) + ": " + why];
        for (const std::string& variant : variants) {
            auto kernel = generate(variant, op, plan, target);
            ASSERT_TRUE(kernel) << each.name << " " << variant << ": " << kernel.error().describe();
            one.kernels.emplace_back(variant, host.add(std::move(kernel).value()));
        }
        if (one.kernels.empty()) continue;
        std::vector<HostTensor> inputs = inputs_of(plan);
        std::vector<TensorView> views;
        for (HostTensor& t : inputs)
            views.push_back(t.view());
        auto values = interpret(plan, views, {true, true});
        ASSERT_TRUE(values) << each.name << ": " << values.error().describe();
        one.values = std::move(values).value();
        tested.push_back(std::move(one));
    }
    const std::string said = host.compile();
    ASSERT_EQ(said, "");
    for (const Tested& one : tested) {
        const Plan& plan = one.test.plan;
        const FusedOp& op = plan.ops[one.test.main];
        std::map<ValueId, Buffer> inputs;
        for (const ValueId id : op.inputs)
            if (!inputs.contains(id)) inputs.emplace(id, laid_out(plan.values[id], one.values[id]));
        std::map<WeightId, Buffer> weights;
        for (const auto& [variant, index] : one.kernels) {
            std::map<ValueId, Buffer> outputs;
            for (const ValueId id : op.outputs) {
                Buffer buffer(plan.values[id].byte_size());
                std::memset(buffer.data(), 0xFF, buffer.size());
                outputs.emplace(id, std::move(buffer));
            }
            std::vector<void*> arguments;
            for (const GeneratedArgument& argument : host.kernel(index).arguments) {
                if (argument.weight != none) {
                    if (!weights.contains(argument.weight)) {
                        const auto bytes = plan.weights->weights[argument.weight].bytes;
                        Buffer buffer(bytes.size());
                        std::memcpy(buffer.data(), bytes.data(), bytes.size());
                        weights.emplace(argument.weight, std::move(buffer));
                    }
                    arguments.push_back(weights.at(argument.weight).data());
                } else {
                    const auto out = outputs.find(argument.value);
                    arguments.push_back(out != outputs.end() ? out->second.data() : inputs.at(argument.value).data());
                }
            }
            host.run(index, arguments);
            for (const ValueId id : op.outputs) {
                // A shift is a mean that nearly cancels, times the factor.
                const ValueId first = op.outputs.front();
                const double least = std::holds_alternative<GroupFactors>(op.detail)
                                         ? square_sum(plan.values[first], one.values[first])
                                         : 0;
                const std::string wrong = difference(plan.values[id], one.values[id], outputs.at(id), least);
                EXPECT_EQ(wrong, "") << one.name << " " << variant << "\n" << host.kernel(index).source;
                if (!wrong.empty()) break;
            }
        }
    }
    for (const auto& [why, count] : refusals)
        std::cout << count << " without a kernel: " << why << "\n";
    std::cout << host.size() << " kernels of " << tested.size() << " operations\n";
    EXPECT_GE(host.size(), least);
}

TEST(GeneratedKernels, AgreeWithTheInterpreterOnTheKernelTable) {
    Cases cases;
    add_other_cases(cases);
    check(and_parted(cases.take()), 200);
}

TEST(GeneratedKernels, AgreeWithTheInterpreterOnRandomOperations) { check(and_parted(random_cases(20261125)), 300); }

} // namespace
} // namespace lathe::cuda::test
