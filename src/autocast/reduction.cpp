#include "autocast/reduction.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <vector>

namespace lathe {

namespace {

constexpr std::array<std::string_view, 8> reducing_sums{"ReduceMean",      "ReduceSum",      "ReduceL1",
                                                        "ReduceL2",        "ReduceProd",     "ReduceLogSum",
                                                        "ReduceLogSumExp", "ReduceSumSquare"};

class Reader {
public:
    Reader(const Graph& graph, const Node& node, std::int64_t opset, std::int64_t open_size)
        : graph_(graph), node_(node), opset_(opset), open_size_(open_size) {}

    std::optional<Reduction> read(Accumulators accumulators) {
        const bool wide = accumulators == Accumulators::fp32;
        if (node_.is("Conv") || node_.is("ConvTranspose")) {
            // Conv's filters are [M, C/g, k...], ConvTranspose's [C, M/g, k...].
            const auto dims = shape(node_.input(1));
            std::int64_t depth = dims ? all_but(*dims, node_.is("Conv") ? 0 : 1) : 0;
            if (node_.is("ConvTranspose")) depth /= std::max<std::int64_t>(1, node_.int_or("group", 1));
            return result({depth, false, wide, false, true, false});
        }
        if (node_.is("Gemm"))
            return result(
                {axis(node_.input(1), node_.int_or("transB", 0) != 0 ? 1 : 0), false, wide, false, true, false});
        if (node_.is("MatMul")) return result({axis(node_.input(0), -1), false, wide, false, true, false});
        if (node_.is("Einsum")) return result({0, false, wide, false, true, false});
        if (node_.is("Attention")) return result({axis(node_.input(0), -1), false, wide, false, true, false});
        if (std::ranges::find(reducing_sums, node_.op_type) != reducing_sums.end() && node_.domain.empty()) {
            const bool squares = node_.is("ReduceL2") || node_.is("ReduceSumSquare");
            return result({reduced_axes(), false, false, squares, false, false});
        }
        if (node_.is("GlobalAveragePool") || node_.is("GlobalLpPool"))
            return result({from_axis(2), false, false, node_.is("GlobalLpPool"), false, false});
        if (node_.is("AveragePool") || node_.is("LpPool")) {
            std::int64_t depth = 1;
            for (const std::int64_t size : node_.ints_or("kernel_shape", {}))
                depth *= size;
            return result({depth, false, false, node_.is("LpPool"), false, false});
        }
        if (node_.is("Softmax") || node_.is("LogSoftmax")) {
            // Before opset 13 everything from the axis on is one vector.
            const std::int64_t at = node_.int_or("axis", opset_ < 13 ? 1 : -1);
            return result({opset_ < 13 ? from_axis(at) : axis(node_.input(0), at), false, false, false, false, true});
        }
        const bool stashed = node_.int_or("stash_type", 1) == 1;
        if (node_.is("LayerNormalization") || node_.is("RMSNormalization"))
            return result({from_axis(node_.int_or("axis", -1)), false, stashed, true, false, false});
        if (node_.is("InstanceNormalization")) return result({from_axis(2), false, false, true, false, false});
        if (node_.is("GroupNormalization")) {
            const std::int64_t groups = std::max<std::int64_t>(1, node_.int_or("num_groups", 1));
            return result({from_axis(1) / groups, false, opset_ >= 21 && stashed, true, false, false});
        }
        if (node_.is("LpNormalization"))
            return result({axis(node_.input(0), node_.int_or("axis", -1)), false, false, true, false, false});
        if (node_.is("LRN")) return result({node_.int_or("size", 1), false, false, true, false, false});
        if (node_.is("MeanVarianceNormalization")) return result({0, false, false, true, false, false});
        if (node_.is("CumSum")) {
            const Tensor* at = graph_.constant(node_.input(1));
            const auto values = at == nullptr ? std::vector<std::int64_t>{} : at->to_int64s();
            return result(
                {values.empty() ? 0 : axis(node_.input(0), values.front()), false, false, false, false, false});
        }
        return std::nullopt;
    }

private:
    Reduction result(Reduction reduction) const {
        reduction.assumed = assumed_;
        return reduction;
    }
    std::optional<Shape> shape(const std::string& value) const {
        if (const Tensor* tensor = graph_.initializer(value)) return tensor->shape();
        const auto info = graph_.info(value);
        return info ? info->shape() : std::nullopt;
    }
    std::int64_t size(std::int64_t dim) {
        if (dim >= 0) return dim;
        assumed_ = true;
        return open_size_;
    }
    std::int64_t all_but(const Shape& dims, std::size_t left_out) {
        std::int64_t product = 1;
        for (std::size_t i = 0; i < dims.size(); ++i)
            product *= i == left_out ? 1 : size(dims[i]);
        return product;
    }
    std::int64_t axis(const std::string& value, std::int64_t at) {
        const auto dims = shape(value);
        if (!dims) return 0;
        const auto rank = static_cast<std::int64_t>(dims->size());
        if (at < 0) at += rank;
        return at < 0 || at >= rank ? 0 : size((*dims)[static_cast<std::size_t>(at)]);
    }
    std::int64_t from_axis(std::int64_t at) {
        const auto dims = shape(node_.input(0));
        if (!dims) return 0;
        const auto rank = static_cast<std::int64_t>(dims->size());
        if (at < 0) at += rank;
        if (at < 0 || at > rank) return 0;
        std::int64_t product = 1;
        for (std::int64_t i = at; i < rank; ++i)
            product *= size((*dims)[static_cast<std::size_t>(i)]);
        return product;
    }
    /// Of ReduceMean and kin: axes are an attribute or, later, an input; none mean all.
    std::int64_t reduced_axes() {
        std::vector<std::int64_t> axes = node_.ints_or("axes", {});
        if (!node_.input(1).empty()) {
            const Tensor* given = graph_.constant(node_.input(1));
            if (given == nullptr) return 0;
            axes = given->to_int64s();
        }
        if (axes.empty()) return node_.int_or("noop_with_empty_axes", 0) != 0 ? 1 : from_axis(0);
        std::int64_t product = 1;
        for (const std::int64_t each : axes)
            product *= axis(node_.input(0), each);
        return product;
    }

    const Graph& graph_;
    const Node& node_;
    std::int64_t opset_;
    std::int64_t open_size_;
    bool assumed_ = false;
};

} // namespace

std::optional<Reduction> reduction_of(const Graph& graph, const Node& node, std::int64_t opset, std::int64_t open_size,
                                      Accumulators accumulators) {
    return Reader(graph, node, opset, open_size).read(accumulators);
}

double error_bound(const Reduction& reduction, const HalfFormat& format) {
    const double root = std::sqrt(static_cast<double>(reduction.depth));
    return reduction.wide ? 3 * format.unit_roundoff + root * 0x1p-24 : root * format.unit_roundoff;
}

} // namespace lathe
