#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "passes/evaluate_support.hpp"

namespace lathe::evaluation {
namespace {

enum class Reduction { sum, mean, product, maximum, minimum, sum_of_squares, l1, l2 };

/// One reduced element. Sums are taken in double, so that the result does not depend on the order.
template <class T>
class Accumulator {
public:
    explicit Accumulator(Reduction kind) : kind_(kind), total_(kind == Reduction::product ? 1 : 0) {}

    void add(T value) {
        ++count_;
        const Wide wide = static_cast<Wide>(value);
        switch (kind_) {
            case Reduction::sum:
            case Reduction::mean: total_ = plus(total_, wide); break;
            case Reduction::product: total_ = times(total_, wide); break;
            case Reduction::sum_of_squares:
            case Reduction::l2: total_ = plus(total_, times(wide, wide)); break;
            case Reduction::l1: total_ = plus(total_, wide < 0 ? times(wide, Wide{-1}) : wide); break;
            case Reduction::maximum: total_ = count_ == 1 || !(wide <= total_) ? wide : total_; break;
            case Reduction::minimum: total_ = count_ == 1 || !(wide >= total_) ? wide : total_; break;
        }
        if constexpr (std::is_floating_point_v<T>) has_nan_ = has_nan_ || std::isnan(value);
    }

    T value() const {
        if (has_nan_) return std::numeric_limits<T>::quiet_NaN();
        if (kind_ == Reduction::mean) return static_cast<T>(total_ / static_cast<Wide>(count_));
        if (kind_ == Reduction::l2) return static_cast<T>(std::sqrt(static_cast<double>(total_)));
        return static_cast<T>(total_);
    }

private:
    using Wide = std::conditional_t<std::is_floating_point_v<T>, double, std::int64_t>;
    static Wide plus(Wide a, Wide b) {
        if constexpr (std::is_floating_point_v<T>)
            return a + b;
        else
            return static_cast<Wide>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    }
    static Wide times(Wide a, Wide b) {
        if constexpr (std::is_floating_point_v<T>)
            return a * b;
        else
            return static_cast<Wide>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    }

    Reduction kind_;
    Wide total_;
    std::size_t count_ = 0;
    bool has_nan_ = false;
};

template <Reduction kind>
Outputs reduce(const Call& call) {
    LATHE_TRY(const Tensor* input, call.required(0));
    const Shape& from = input->shape();
    const auto axes = call.integers("axes", 1).value_or(std::vector<std::int64_t>{});
    if (axes.empty() && call.node.int_or("noop_with_empty_axes", 0) != 0) return std::vector<Tensor>{*input};
    std::vector<bool> reduced(from.size(), axes.empty());
    for (const std::int64_t axis : axes) {
        const auto place = normalised_axis(axis, from.size());
        if (!place) return invalid(call, "axis out of range");
        reduced[*place] = true;
    }
    const bool keep = call.node.int_or("keepdims", 1) != 0;
    Shape kept(from.size());
    Shape shape;
    for (std::size_t i = 0; i < from.size(); ++i) {
        if (reduced[i] && from[i] == 0) return cannot(call, "nothing to reduce");
        kept[i] = reduced[i] ? 1 : from[i];
        if (!reduced[i] || keep) shape.push_back(kept[i]);
    }
    LATHE_CHECK(check_size(call, input->type(), shape));
    LATHE_TRY(const auto elements, elements_of(call, *input));
    const auto strides = broadcast_strides(kept, from);
    return std::visit(
        [&](const auto& values) -> Outputs {
            using Values = std::decay_t<decltype(values)>;
            using T = typename Values::value_type;
            std::vector<Accumulator<T>> sums(static_cast<std::size_t>(element_count(kept)), Accumulator<T>(kind));
            walk(from, strides, 0, [&](std::size_t i, std::size_t offset) { sums[offset].add(values[i]); });
            Values results;
            for (const auto& sum : sums)
                results.push_back(sum.value());
            return std::vector<Tensor>{tensor_from(input->type(), shape, results)};
        },
        elements);
}

} // namespace

void add_reductions(FunctionTable& table) {
    table["ReduceSum"] = reduce<Reduction::sum>;
    table["ReduceMean"] = reduce<Reduction::mean>;
    table["ReduceProd"] = reduce<Reduction::product>;
    table["ReduceMax"] = reduce<Reduction::maximum>;
    table["ReduceMin"] = reduce<Reduction::minimum>;
    table["ReduceSumSquare"] = reduce<Reduction::sum_of_squares>;
    table["ReduceL1"] = reduce<Reduction::l1>;
    table["ReduceL2"] = reduce<Reduction::l2>;
}

} // namespace lathe::evaluation
