#include "correct/run.hpp"

#include <algorithm>
#include <utility>

#include "support/huge_pages.hpp"

namespace lathe {
namespace {

/// The shapes that the batches of one value have: static where they agree.
ShapeRange shapes_of(const std::vector<TensorView>& batches) {
    ShapeRange range{batches.front().shape, batches.front().shape, batches.front().shape};
    for (const TensorView& each : batches) {
        for (std::size_t axis = 0; axis < range.min.size() && axis < each.shape.size(); ++axis) {
            range.min[axis] = std::min(range.min[axis], each.shape[axis]);
            range.max[axis] = std::max(range.max[axis], each.shape[axis]);
        }
    }
    range.opt = range.max;
    return range;
}

ValueInfo info_of(const CompiledPart::Input& input) {
    ValueInfo info;
    info.name = input.name;
    info.type = input.type;
    info.dims.emplace();
    for (std::size_t axis = 0; axis < input.shapes.min.size(); ++axis) {
        const bool fixed = input.shapes.min[axis] == input.shapes.max[axis];
        info.dims->push_back(fixed ? Dimension::of(input.shapes.min[axis])
                                   : Dimension::named(input.sizes + std::to_string(axis)));
    }
    return info;
}

/// The smallest piece of at least `size` bytes; empty without one.
std::vector<std::byte> take(SpareMemory* spare, std::size_t size) {
    std::vector<std::byte> memory;
    if (spare == nullptr) return memory;
    auto best = spare->end();
    for (auto each = spare->begin(); each != spare->end(); ++each) {
        if (each->capacity() >= size && (best == spare->end() || each->capacity() < best->capacity())) best = each;
    }
    if (best == spare->end()) return memory;
    memory = std::move(*best);
    spare->erase(best);
    return memory;
}

/// The engine only reads what it is given.
std::span<std::byte> writable(std::span<const std::byte> bytes) {
    return {const_cast<std::byte*>(bytes.data()), bytes.size()}; // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

HostTensor make_tensor(const std::string& name, DataType type, const Shape& shape, const RunOptions& options) {
    HostTensor tensor;
    const std::size_t size = byte_size(type, static_cast<std::size_t>(element_count(shape)));
    tensor.bytes = take(options.spare, size);
    reserve_huge(tensor.bytes, size, options.threads);
    tensor.bytes.resize(size);
    tensor.name = name;
    tensor.type = type;
    tensor.shape = shape;
    return tensor;
}

/// Without a rank nothing is known.
bool is_known(const Shape& shape) { return !shape.empty() && element_count(shape) >= 0; }

} // namespace

Given::Given(std::string name_, std::span<const HostTensor> values) : name(std::move(name_)) {
    batches.reserve(values.size());
    for (const HostTensor& each : values)
        batches.push_back({name, each.type, each.shape, writable(each.bytes)});
}

Given::Given(std::string name_, Shape shape, std::span<const float> values) : name(std::move(name_)) {
    batches.push_back({name, DataType::float32, std::move(shape), writable(std::as_bytes(values))});
}

Result<CompiledPart> CompiledPart::compile(Model model, const std::vector<Input>& inputs, std::size_t threads,
                                           Precision precision) {
    CompileOptions options;
    options.threads = threads;
    options.batch_plan = BatchPlan::whole;
    options.precision = precision;
    for (const Input& input : inputs) {
        model.graph.inputs.push_back(info_of(input));
        if (!input.shapes.is_static()) options.shapes[input.name] = input.shapes;
    }
    LATHE_TRY(const Backend* backend, default_backend());
    CompiledPart part;
    LATHE_TRY(part.compiled_, backend->compile(model, options));
    LATHE_TRY(part.session_, part.compiled_->make_session());
    return part;
}

Result<void> CompiledPart::run(const std::vector<TensorView>& values) {
    for (std::size_t i = 0; i < values.size(); ++i)
        LATHE_CHECK(session_->set_input(i, values[i]));
    return session_->run();
}

Result<std::vector<Batches>> run_batches(Model model, const std::vector<Given>& given, const RunOptions& options) {
    if (given.empty() || given.front().batches.empty()) {
        return Error{ErrorCode::invalid_argument, "a part of the network reads no input", model.graph.name, ""};
    }
    std::vector<CompiledPart::Input> inputs;
    for (const Given& each : given)
        inputs.push_back({each.name, each.batches.front().type, shapes_of(each.batches)});
    const std::vector<ValueInfo> outputs = model.graph.outputs;
    LATHE_TRY(CompiledPart part, CompiledPart::compile(std::move(model), inputs, options.threads, options.precision));
    std::vector<Batches> results(outputs.size());
    for (std::size_t batch = 0; batch < given.front().batches.size(); ++batch) {
        LATHE_CHECK(options.progress.check());
        std::vector<TensorView> values;
        for (const Given& each : given)
            values.push_back(each.batches.at(batch));
        for (std::size_t i = 0; i < outputs.size(); ++i) {
            const IoInfo& known = part.outputs()[i];
            if (!is_known(known.range.opt)) continue;
            results[i].push_back(make_tensor(outputs[i].name, known.type, known.range.opt, options));
            LATHE_CHECK(part.set_output(i, results[i].back().bytes));
        }
        LATHE_CHECK(part.run(values));
        for (std::size_t i = 0; i < outputs.size(); ++i) {
            if (results[i].size() > batch) continue; // written in place
            LATHE_TRY(const TensorView view, part.output(i));
            results[i].push_back(make_tensor(outputs[i].name, view.type, view.shape, options));
            std::ranges::copy(view.bytes, results[i].back().bytes.begin());
        }
    }
    return results;
}

} // namespace lathe
