#include "onnx/macs.hpp"

#include <limits>

namespace lathe {
namespace {

/// Dimensions of a value with unknown ones as 1.
class Dimensions {
public:
    Dimensions(const ValueLookup& lookup, MacCount& count) : lookup_(lookup), count_(count) {}

    std::optional<Shape> operator()(const std::string& value) const {
        const auto info = value.empty() ? std::nullopt : lookup_(value);
        auto shape = info ? info->shape() : std::nullopt;
        if (!shape) return std::nullopt;
        for (std::int64_t& dim : *shape) {
            if (dim >= 0) continue;
            dim = 1;
            count_.assumed_dimensions = true;
        }
        return shape;
    }

private:
    const ValueLookup& lookup_;
    MacCount& count_;
};

/// Saturating, so that absurd shapes cannot wrap around.
std::int64_t times(std::int64_t a, std::int64_t b) {
    std::int64_t product = 0;
    return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::int64_t>::max() : product;
}

std::int64_t volume(const Shape& shape, std::size_t from = 0) {
    std::int64_t product = 1;
    for (std::size_t i = from; i < shape.size(); ++i)
        product = times(product, shape[i]);
    return product;
}

/// Batch times spatial positions of an N×C×... tensor.
std::int64_t positions(const Shape& shape) { return times(shape[0], volume(shape, 2)); }

} // namespace

MacCount count_macs(const Node& node, const ValueLookup& lookup) {
    MacCount count;
    if (!node.domain.empty()) return count;
    const Dimensions dims(lookup, count);
    const auto unknown = [&] {
        count.known = false;
        return count;
    };
    const std::string& type = node.op_type;
    count.multiplies = true;
    if (type == "Conv" || type == "ConvInteger" || type == "QLinearConv" || type == "ConvTranspose") {
        const auto weight = dims(node.input(type == "QLinearConv" ? 3 : 1));
        const auto over = dims(type == "ConvTranspose" ? node.input(0) : node.output(0));
        if (!weight || !over || over->size() < 2) return unknown();
        count.macs = times(positions(*over), volume(*weight));
    } else if (type == "Gemm") {
        const auto a = dims(node.input(0));
        const auto out = dims(node.output(0));
        if (!a || !out || a->size() != 2) return unknown();
        count.macs = times(volume(*out), (*a)[node.int_or("transA", 0) != 0 ? 0 : 1]);
    } else if (type == "MatMul" || type == "MatMulInteger" || type == "QLinearMatMul") {
        const auto a = dims(node.input(0));
        const auto out = dims(node.output(0));
        if (!a || !out || a->empty()) return unknown();
        count.macs = times(volume(*out), a->back());
    } else if (type == "LSTM" || type == "GRU" || type == "RNN") {
        const auto x = dims(node.input(0)); // steps × batch × features, or batch first: the product is the same
        const auto w = dims(node.input(1));
        const auto r = dims(node.input(2));
        if (!x || !w || !r || x->size() != 3) return unknown();
        const std::int64_t weights = volume(*w) > std::numeric_limits<std::int64_t>::max() - volume(*r)
                                         ? std::numeric_limits<std::int64_t>::max()
                                         : volume(*w) + volume(*r);
        count.macs = times(times((*x)[0], (*x)[1]), weights);
    } else {
        count.multiplies = false;
    }
    return count;
}

} // namespace lathe
