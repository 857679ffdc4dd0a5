#include "backends/cuda/plan/patterns/head_view.hpp"
#include "backends/cuda/plan/patterns/patterns.hpp"

namespace lathe::cuda {
namespace {

/// What spelled_attention.cpp writes rotary positions as. Heads are read where they lie in their product.
Result<void> rotary(Lowering& lowering, Node& node) {
    const Shape dims = lowering.dims(node.output(0));
    const auto type = lowering.stored_type(lowering.type_of(node.output(0)));
    if (!type || !is_real(*type) || dims.size() != 4)
        return Lowering::cannot(node, "only heads of floating point are taken");
    const HeadOperand seen =
        see_heads(lowering, node.input(0), node, {dims[0], dims[1], dims[2], dims[3]}, HeadRole::values);
    Rotary detail;
    detail.interleaved = node.int_or("interleaved", 0) != 0;
    detail.turned = node.int_or("turned", 0);
    const auto place = heads_place(lowering, seen, dims[1], *type, 1);
    if (!place) return Lowering::cannot(node, "its heads lie in a way that is not read");
    detail.x = place->view;
    LATHE_TRY(const ValueId x, lowering.want(place->value, *type, Layout::linear));
    std::vector<ValueId> inputs{x};
    for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
        // Tables that are constants keep their precision: they are small.
        const std::string& name = node.input(i);
        LATHE_TRY(const ValueId table, lowering.constant(name) ? lowering.want(name, ElementType::f32, Layout::linear)
                                                               : lowering.want_linear(name));
        inputs.push_back(table);
    }
    const ValueId made = lowering.make_result(node.output(0), *type, Layout::linear);
    lowering.add(node, {}, detail, std::move(inputs), {made}, ElementType::f32);
    return {};
}

} // namespace

void add_rotary(LoweringTable& table) { table.emplace("Rotary", rotary); }

} // namespace lathe::cuda
