#include "autocast/insert.hpp"

#include "onnx/op_types.hpp"

namespace lathe {

namespace {

Result<void> check_edges(const Model& model, const AutocastPlan& plan, const AutocastOptions& options) {
    if (options.io_type == DataType::float32) return {};
    for (const TensorFacts& facts : plan.tensors) {
        const bool at_edge = model.graph.find_input(facts.tensor) != nullptr || model.graph.is_output(facts.tensor);
        if (!at_edge || facts.absmax <= options.format.largest) continue;
        return Error{ErrorCode::out_of_range,
                     "an input or output of the model reaches values above " +
                         std::to_string(static_cast<long long>(options.format.largest)),
                     facts.tensor, "keep the types of inputs and outputs: --io-types keep"};
    }
    return {};
}

} // namespace

Result<CastModel> insert_casts(const Model& model, const AutocastPlan& plan, const AutocastOptions& options) {
    if (options.io_type != DataType::float32 && options.io_type != options.format.type) {
        return Error{ErrorCode::invalid_argument,
                     "inputs and outputs can keep their type or take the one the model is cast to", "--io-types",
                     std::string("choose keep or ") + options.format.name};
    }
    LATHE_CHECK(check_edges(model, plan, options));
    CastRequest request;
    request.half = options.format.type;
    request.io_type = options.io_type;
    request.forms.assign(model.graph.nodes.size(), FloatForm::full);
    for (const CastDecision& decision : plan.decisions) {
        if (decision.is_cast()) request.forms[decision.index] = FloatForm::half;
    }
    request.follows = [opset = model.opset(), half = request.half](const Node& node, std::size_t input) {
        const auto formal = formal_input(node, opset, input, half);
        return formal && formal->allowed;
    };
    return write_casts(model, request);
}

} // namespace lathe
