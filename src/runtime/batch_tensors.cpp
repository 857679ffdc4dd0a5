#include "runtime/batch_tensors.hpp"

#include <cstring>
#include <utility>

#include "runtime/match_inputs.hpp"

namespace lathe {

namespace {

Error cannot_batch(const IoInfo& input, const std::string& why) {
    return {ErrorCode::invalid_argument, "requests of this engine cannot share a batch: " + why, input.name,
            "use a Session"};
}

Result<void> check_view(const IoInfo& input, const TensorView& view, std::int64_t most) {
    if (view.type != input.type) {
        return Error{ErrorCode::invalid_argument,
                     "the input is " + to_string(input.type) + ", " + to_string(view.type) + " was given", input.name,
                     ""};
    }
    const Shape& min = input.range.min;
    const Shape& max = input.range.max;
    bool fits = view.shape.size() == max.size() && view.shape[0] >= 1 && view.shape[0] <= most;
    for (std::size_t axis = 1; fits && axis < max.size(); ++axis)
        fits = view.shape[axis] >= min[axis] && view.shape[axis] <= max[axis];
    if (!fits) {
        return Error{ErrorCode::out_of_range,
                     "shape " + to_string(view.shape) + " is not within " + input.range.describe() + " with 1 to " +
                         std::to_string(most) + " samples",
                     input.name, "split the request, or raise max_batch"};
    }
    const std::size_t bytes = byte_size(view.type, static_cast<std::size_t>(element_count(view.shape)));
    if (view.bytes.size() != bytes) {
        return Error{ErrorCode::invalid_argument,
                     to_string(view.shape) + " needs " + std::to_string(bytes) + " bytes, " +
                         std::to_string(view.bytes.size()) + " were given",
                     input.name, ""};
    }
    return {};
}

} // namespace

Result<BatchLimits> BatchLimits::of(std::vector<IoInfo> inputs, std::int64_t asked) {
    if (inputs.empty()) return Error{ErrorCode::invalid_argument, "the engine has no inputs", "", ""};
    BatchLimits limits;
    for (const IoInfo& input : inputs) {
        const ShapeRange& range = input.range;
        if (range.max.empty()) return cannot_batch(input, "an input has no axis for samples");
        if (bit_width(input.type) < 8) return cannot_batch(input, "elements of " + to_string(input.type));
        if (range.min[0] != inputs[0].range.min[0] || range.max[0] != inputs[0].range.max[0])
            return cannot_batch(input, "the first axes of its inputs differ");
    }
    limits.least = inputs[0].range.min[0];
    limits.most = asked > 0 ? asked : inputs[0].range.max[0];
    if (asked < 0 || limits.most > inputs[0].range.max[0]) {
        return Error{ErrorCode::invalid_argument,
                     "max_batch is " + std::to_string(asked) + ", the engine takes " + inputs[0].range.describe(),
                     inputs[0].name, "ask for less, or build the engine for more"};
    }
    limits.inputs = std::move(inputs);
    return limits;
}

Result<std::vector<TensorView>> BatchLimits::checked(std::span<const TensorView> views) const {
    LATHE_TRY(const auto indices, match_inputs(inputs, views));
    std::vector<TensorView> ordered(views.size());
    for (std::size_t place = 0; place < views.size(); ++place) {
        const IoInfo& input = inputs[indices[place]];
        LATHE_CHECK(check_view(input, views[place], most));
        ordered[indices[place]] = views[place];
        ordered[indices[place]].name = input.name;
    }
    for (std::size_t i = 1; i < ordered.size(); ++i) {
        if (ordered[i].shape[0] == ordered[0].shape[0]) continue;
        return Error{ErrorCode::invalid_argument,
                     "the inputs have different numbers of samples: " + ordered[0].name + " " +
                         to_string(ordered[0].shape) + ", " + ordered[i].name + " " + to_string(ordered[i].shape),
                     "", "the first axis of all inputs is the samples"};
    }
    return ordered;
}

std::span<const TensorView> JoinedInputs::join(const std::vector<BatchRequest>& batch, std::int64_t samples,
                                               const SessionMemory& session_memory) {
    if (batch.size() == 1 && batch[0].samples == samples) return batch[0].inputs;
    const std::size_t inputs = batch[0].inputs.size();
    memory_.resize(inputs);
    views_.resize(inputs);
    for (std::size_t i = 0; i < inputs; ++i) {
        const TensorView& like = batch[0].inputs[i];
        const std::size_t row = like.bytes.size() / static_cast<std::size_t>(batch[0].samples);
        const std::size_t bytes = row * static_cast<std::size_t>(samples);
        std::span<std::byte> memory = session_memory(i);
        if (memory.size() < bytes) {
            if (memory_[i].size() < bytes) memory_[i].resize(bytes);
            memory = memory_[i];
        }
        std::byte* to = memory.data();
        for (const BatchRequest& request : batch) {
            const std::span<std::byte> from = request.inputs[i].bytes;
            if (!from.empty()) std::memcpy(to, from.data(), from.size());
            to += from.size();
        }
        for (const std::byte* end = memory.data() + bytes; row > 0 && to < end; to += row)
            std::memcpy(to, to - row, row);
        views_[i] = {like.name, like.type, like.shape, memory.first(bytes)};
        views_[i].shape[0] = samples;
    }
    return views_;
}

std::vector<HostTensor> rows_of(const std::vector<TensorView>& outputs, std::int64_t samples, std::int64_t first,
                                std::int64_t count) {
    std::vector<HostTensor> rows;
    rows.reserve(outputs.size());
    for (const TensorView& output : outputs) {
        Shape shape = output.shape;
        shape[0] = count;
        HostTensor& part = rows.emplace_back(output.name, output.type, std::move(shape));
        const std::size_t row = output.bytes.size() / static_cast<std::size_t>(samples);
        if (!part.bytes.empty())
            std::memcpy(part.bytes.data(), output.bytes.data() + row * static_cast<std::size_t>(first),
                        part.bytes.size());
    }
    return rows;
}

Result<void> check_rows(const std::vector<TensorView>& outputs, std::int64_t samples) {
    for (const TensorView& output : outputs) {
        if (!output.shape.empty() && output.shape[0] == samples && bit_width(output.type) >= 8) continue;
        return Error{ErrorCode::mismatch,
                     "the output's first axis is not the samples: " + to_string(output.type) + " " +
                         to_string(output.shape) + " after a run of " + std::to_string(samples),
                     output.name, "requests of this engine cannot share a batch; use a Session"};
    }
    return {};
}

} // namespace lathe
