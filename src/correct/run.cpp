#include "correct/run.hpp"

#include <algorithm>

namespace lathe {
namespace {

/// The shapes that the batches of one value have: static where they agree.
ShapeRange shapes_of(const Batches& batches) {
    ShapeRange range{batches.front().shape, batches.front().shape, batches.front().shape};
    for (const HostTensor& each : batches) {
        for (std::size_t axis = 0; axis < range.min.size() && axis < each.shape.size(); ++axis) {
            range.min[axis] = std::min(range.min[axis], each.shape[axis]);
            range.max[axis] = std::max(range.max[axis], each.shape[axis]);
        }
    }
    range.opt = range.max;
    return range;
}

ValueInfo input_info(const Given& given, const ShapeRange& shapes) {
    ValueInfo info;
    info.name = given.name;
    info.type = given.batches->front().type;
    info.dims.emplace();
    for (std::size_t axis = 0; axis < shapes.min.size(); ++axis) {
        const bool fixed = shapes.min[axis] == shapes.max[axis];
        info.dims->push_back(fixed ? Dimension::of(shapes.min[axis]) : Dimension::named("n" + std::to_string(axis)));
    }
    return info;
}

HostTensor copy_of(const TensorView& view, const std::string& name) {
    HostTensor tensor;
    tensor.name = name;
    tensor.type = view.type;
    tensor.shape = view.shape;
    tensor.bytes.assign(view.bytes.begin(), view.bytes.end());
    return tensor;
}

} // namespace

Result<std::vector<Batches>> run_batches(Model model, const std::vector<Given>& given, std::size_t threads,
                                         Precision precision) {
    if (given.empty() || given.front().batches->empty()) {
        return Error{ErrorCode::invalid_argument, "a part of the network reads no input", model.graph.name, ""};
    }
    CompileOptions options;
    options.threads = threads;
    options.batch_plan = BatchPlan::whole;
    options.precision = precision;
    for (const Given& each : given) {
        const ShapeRange shapes = shapes_of(*each.batches);
        model.graph.inputs.push_back(input_info(each, shapes));
        if (!shapes.is_static()) options.shapes[each.name] = shapes;
    }
    LATHE_TRY(const Backend* backend, default_backend());
    LATHE_TRY(const auto compiled, backend->compile(model, options));
    LATHE_TRY(const auto session, compiled->make_session());
    const auto& outputs = model.graph.outputs;
    std::vector<Batches> results(outputs.size());
    for (std::size_t batch = 0; batch < given.front().batches->size(); ++batch) {
        for (std::size_t i = 0; i < given.size(); ++i) {
            const HostTensor& tensor = given[i].batches->at(batch);
            // The session only reads it.
            auto* const bytes =
                const_cast<std::byte*>(tensor.bytes.data()); // NOLINT(cppcoreguidelines-pro-type-const-cast)
            LATHE_CHECK(
                session->set_input(i, {given[i].name, tensor.type, tensor.shape, {bytes, tensor.bytes.size()}}));
        }
        LATHE_CHECK(session->run());
        for (std::size_t i = 0; i < outputs.size(); ++i) {
            LATHE_TRY(const TensorView view, session->output(i));
            results[i].push_back(copy_of(view, outputs[i].name));
        }
    }
    return results;
}

} // namespace lathe
