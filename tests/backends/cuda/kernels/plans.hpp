#pragma once
// Plans of one op each, for the kernel tests: f32 inputs of the model, changes of layout around the op under test.

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backends/cuda/plan/ir.hpp"
#include "support/half.hpp"

namespace lathe::cuda::test {

struct TestPlan {
    Plan plan;
    std::size_t main = 0; ///< index of the op under test
};

class PlanBuilder {
public:
    PlanBuilder() : random_(20261121) { test_.plan.weights = std::make_shared<WeightStore>(); }

    Plan& plan() { return test_.plan; }

    ValueId value(Shape dims, ElementType type, Layout layout = Layout::linear, float scale = 1,
                  Role role = Role::activation) {
        Value v;
        v.name = "v" + std::to_string(test_.plan.values.size());
        v.role = role;
        v.type = type;
        v.layout = layout;
        v.scale = type == ElementType::s8 ? scale : 1.0F;
        if (layout == Layout::nhwc) {
            const auto step = static_cast<std::int64_t>(16 / bytes_of(type));
            v.channel_stride = (dims[1] + step - 1) / step * step;
        }
        v.dims = std::move(dims);
        test_.plan.values.push_back(std::move(v));
        return static_cast<ValueId>(test_.plan.values.size() - 1);
    }
    /// An input of the model as it is.
    ValueId input(Shape dims, ElementType type = ElementType::f32) {
        const ValueId id = value(std::move(dims), type, Layout::linear, 1, Role::input);
        test_.plan.inputs.push_back(id);
        return id;
    }
    /// An input of the model brought to a type and layout. int8: normal numbers at 32 steps a deviation.
    ValueId ready(const Shape& dims, ElementType type, Layout layout = Layout::linear, float scale = 1.0F / 32) {
        const ValueId from = input(dims);
        if (type == ElementType::f32 && layout == Layout::linear) return from;
        const ValueId to = value(dims, type, layout, scale);
        op("reformat", Reformat{}, {from}, {to}, type);
        return to;
    }
    ValueId image(const Shape& dims, ElementType type) { return ready(dims, type, Layout::nhwc); }
    /// Channels of an image.
    ValueId part_of(ValueId whole, std::int64_t first, std::int64_t channels) {
        Value v = test_.plan.values[whole];
        v.name = "v" + std::to_string(test_.plan.values.size());
        v.dims[1] = channels;
        v.alias_of = whole;
        v.alias_from = first;
        v.part = true;
        test_.plan.values.push_back(std::move(v));
        return static_cast<ValueId>(test_.plan.values.size() - 1);
    }

    /// Normal numbers of the given deviation; int8: uniform -90..90.
    WeightId weight(Shape dims, ElementType type, float deviation, std::int64_t padded_from = -1) {
        const auto count = static_cast<std::size_t>(element_count(dims));
        const std::int64_t last = dims.back();
        std::vector<float> numbers(count);
        std::normal_distribution<float> normal(0, deviation);
        std::uniform_int_distribution<int> integers(-90, 90);
        for (std::size_t i = 0; i < count; ++i) {
            numbers[i] = type == ElementType::s8 ? static_cast<float>(integers(random_)) : normal(random_);
            if (padded_from >= 0 && static_cast<std::int64_t>(i) % last >= padded_from) numbers[i] = 0;
        }
        return store(std::move(dims), type, numbers);
    }
    /// A constant as other values are.
    ValueId constant(Shape dims, ElementType type, const std::vector<float>& numbers) {
        const WeightId weight = store(dims, type, numbers);
        const ValueId id = value(std::move(dims), type, Layout::linear, 1, Role::constant);
        test_.plan.values[id].weight = weight;
        return id;
    }
    /// f32 numbers between low and high.
    WeightId vector(std::int64_t count, float low, float high) {
        std::vector<float> numbers(static_cast<std::size_t>((count + 15) / 16 * 16));
        std::uniform_real_distribution<float> uniform(low, high);
        for (float& v : numbers)
            v = uniform(random_);
        return store({static_cast<std::int64_t>(numbers.size())}, ElementType::f32, numbers);
    }

    FusedOp& op(std::string name, OpDetail detail, std::vector<ValueId> inputs, std::vector<ValueId> outputs,
                ElementType compute) {
        FusedOp made;
        made.name = std::move(name);
        made.nodes = {made.name};
        made.detail = std::move(detail);
        made.inputs = std::move(inputs);
        made.outputs = std::move(outputs);
        made.compute = compute;
        test_.plan.ops.push_back(std::move(made));
        return test_.plan.ops.back();
    }
    /// The op under test; its results become outputs of the model, in f32 and linear.
    TestPlan finish(OpDetail detail, std::vector<ValueId> inputs, const std::vector<ValueId>& outputs,
                    ElementType compute, bool tf32 = false, std::int64_t macs = 0) {
        test_.main = test_.plan.ops.size();
        FusedOp& made = op("tested", std::move(detail), std::move(inputs), outputs, compute);
        made.tf32 = tf32;
        made.macs = macs;
        for (const ValueId id : outputs) {
            const Value v = test_.plan.values[id];
            if (v.layout == Layout::linear && v.type != ElementType::s8) {
                test_.plan.values[id].role = Role::output;
                test_.plan.outputs.push_back(id);
                continue;
            }
            const ValueId to = value(v.dims, ElementType::f32, Layout::linear, 1, Role::output);
            op("result", Reformat{}, {id}, {to}, ElementType::f32);
            test_.plan.outputs.push_back(to);
        }
        return std::move(test_);
    }

private:
    WeightId store(Shape dims, ElementType type, const std::vector<float>& numbers) {
        auto bytes = std::make_shared<std::vector<std::byte>>(numbers.size() * bytes_of(type));
        for (std::size_t i = 0; i < numbers.size(); ++i) {
            std::byte* to = bytes->data() + i * bytes_of(type);
            if (type == ElementType::f32) {
                std::memcpy(to, &numbers[i], 4);
            } else if (type == ElementType::s8) {
                *to = static_cast<std::byte>(static_cast<std::int8_t>(numbers[i]));
            } else {
                const std::uint16_t bits =
                    type == ElementType::f16 ? half_from_float(numbers[i]) : bfloat16_from_float(numbers[i]);
                std::memcpy(to, &bits, 2);
            }
        }
        WeightStore& weights = *test_.plan.weights;
        const auto id = static_cast<WeightId>(weights.weights.size());
        Weight w;
        w.key = "w" + std::to_string(id);
        w.type = type;
        w.dims = std::move(dims);
        w.bytes = *bytes;
        w.owner = bytes;
        weights.by_key[w.key] = id;
        weights.weights.push_back(std::move(w));
        return id;
    }

    TestPlan test_;
    std::mt19937 random_;
};

} // namespace lathe::cuda::test
