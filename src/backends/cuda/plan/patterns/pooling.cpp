#include "backends/cuda/plan/lowering.hpp"
#include "backends/cuda/plan/patterns/patterns.hpp"
#include "backends/cuda/plan/windows.hpp"

namespace lathe::cuda {
namespace {

/// Where a pooling's result goes: averages of int8 are int8 again only if the one reader quantises them.
struct Result8 {
    ElementType type = ElementType::f16;
    std::string end;
    float scale = 1;
    float rescale = 1;
    std::vector<Node*> nodes;
};
Result8 result_of(const Lowering& lowering, const Node& node, const Value& in, bool average) {
    Result8 made;
    made.end = node.output(0);
    if (in.type != ElementType::s8) {
        made.type = in.type;
        return made;
    }
    if (!average) {
        made.type = ElementType::s8;
        made.scale = in.scale;
        return made;
    }
    Node* reader = lowering.only_reader(node.output(0));
    const auto scale =
        reader != nullptr && reader->is("QuantizeLinear") ? lowering.symmetric_scale(*reader) : std::nullopt;
    made.type = scale ? ElementType::s8 : lowering.base();
    made.scale = scale.value_or(1.0F);
    made.rescale = in.scale / made.scale;
    if (scale) {
        made.nodes.push_back(reader);
        made.end = reader->output(0);
    }
    return made;
}

Result<ValueId> image(Lowering& lowering, const Node& node) {
    const std::string& x = node.input(0);
    const auto type = lowering.stored_type(lowering.type_of(x));
    if (!type || (!is_real(*type) && *type != ElementType::s8)) {
        return Lowering::cannot(node, "type " + lathe::to_string(lowering.type_of(x)));
    }
    const bool quantised = lowering.quantised_form(x).has_value();
    return lowering.want(x, quantised ? ElementType::s8 : *type, Layout::nhwc);
}

Result<void> pool(Lowering& lowering, Node& node) {
    if (node.outputs.size() > 1 && !node.output(1).empty()) {
        return Lowering::cannot(node, "indices of the maxima are not given");
    }
    if (lowering.dims(node.input(0)).size() == 5) return volume_pool(lowering, node);
    LATHE_TRY(const Window window, window_of(node, lowering.dims(node.input(0)), {}));
    LATHE_TRY(const ValueId in, image(lowering, node));
    const Value source = lowering.value(in);
    Pool detail;
    detail.window = window;
    detail.average = node.is("AveragePool");
    detail.count_pad = node.int_or("count_include_pad", 0) != 0;
    const Result8 result = result_of(lowering, node, source, detail.average);
    detail.rescale = result.rescale;
    const ValueId out =
        lowering.make(result.end, result.type, lowering.dims(node.output(0)), Layout::nhwc, result.scale);
    lowering.add(node, result.nodes, detail, {in}, {out}, source.type);
    return {};
}

Result<void> global_pool(Lowering& lowering, Node& node) {
    if (lowering.dims(node.input(0)).size() == 5) return volume_global_pool(lowering, node);
    LATHE_TRY(const ValueId in, image(lowering, node));
    const Value source = lowering.value(in);
    GlobalPool detail;
    detail.average = node.is("GlobalAveragePool");
    const Result8 result = result_of(lowering, node, source, detail.average);
    detail.rescale = result.rescale;
    const ValueId out =
        lowering.make(result.end, result.type, lowering.dims(node.output(0)), Layout::nhwc, result.scale);
    lowering.add(node, result.nodes, detail, {in}, {out}, source.type);
    return {};
}

} // namespace

void add_pooling(LoweringTable& table) {
    table.emplace("MaxPool", pool);
    table.emplace("AveragePool", pool);
    table.emplace("GlobalAveragePool", global_pool);
    table.emplace("GlobalMaxPool", global_pool);
}

} // namespace lathe::cuda
