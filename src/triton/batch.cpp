#include "triton/batch.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace lathe::triton {

namespace {

bool is_filled(const Serving& serving, std::size_t input) {
    return serving.filling && serving.filling->values[input].has_value();
}

/// The engine's range with the lengths and samples that a request may have, which are filled up to the engine's least.
Result<void> check_shape(const Serving& serving, std::size_t index, const Shape& shape) {
    const IoInfo& input = serving.inputs[index];
    const Shape& min = input.range.min;
    const Shape& max = input.range.max;
    bool fits = shape.size() == max.size();
    for (std::size_t axis = 0; fits && axis < max.size(); ++axis) {
        const bool added = (axis == 0 && serving.batched) || (axis == 1 && is_filled(serving, index));
        const std::int64_t most = axis == 0 && serving.batched ? serving.most : max[axis];
        fits = shape[axis] >= (added ? std::min<std::int64_t>(1, min[axis]) : min[axis]) && shape[axis] <= most;
    }
    if (fits) return {};
    return Error{ErrorCode::out_of_range,
                 "shape " + to_string(shape) + " is outside the engine's range " + input.range.describe() +
                     (serving.batched ? " with at most " + std::to_string(serving.most) + " samples" : ""),
                 input.name, "send a shape within it, or build the engine with a --shape that covers this one"};
}

void fill(std::byte* to, std::size_t bytes, DataType type, std::int64_t value) {
    if (type == DataType::int64) {
        for (std::size_t at = 0; at < bytes; at += sizeof(value))
            std::memcpy(to + at, &value, sizeof(value));
        return;
    }
    const auto narrow = static_cast<std::int32_t>(value);
    for (std::size_t at = 0; at < bytes; at += sizeof(narrow))
        std::memcpy(to + at, &narrow, sizeof(narrow));
}

/// Reads an input's pieces one behind the other.
class PieceReader {
public:
    explicit PieceReader(const std::vector<std::span<const std::byte>>& pieces) : pieces_(pieces) {}
    void read(std::byte* to, std::size_t bytes) {
        while (bytes > 0) {
            const std::span<const std::byte> piece = pieces_[next_].subspan(at_);
            const std::size_t part = std::min(bytes, piece.size());
            if (part > 0) std::memcpy(to, piece.data(), part);
            to += part;
            bytes -= part;
            at_ += part;
            if (at_ == pieces_[next_].size()) ++next_, at_ = 0;
        }
    }

private:
    const std::vector<std::span<const std::byte>>& pieces_;
    std::size_t next_ = 0;
    std::size_t at_ = 0;
};

/// The value that fills an input up.
std::int64_t filler(const Serving& serving, std::size_t input) { return *serving.filling->values[input]; }

bool is_aligned(const void* data, DataType type) {
    return reinterpret_cast<std::uintptr_t>(data) % std::max<std::size_t>(1, bit_width(type) / 8) == 0;
}

} // namespace

std::size_t InputPieces::bytes() const {
    std::size_t sum = 0;
    for (const auto& piece : pieces)
        sum += piece.size();
    return sum;
}

bool InputPieces::any_in_gpu() const { return std::ranges::find(in_gpu, true) != in_gpu.end(); }

TensorView Serving::view_of(std::size_t input, const Shape& like, const RunSize& size) const {
    TensorView view{inputs[input].name, inputs[input].type, like, {}};
    if (batched) view.shape[0] = size.samples;
    if (is_filled(*this, input)) view.shape[1] = size.length;
    return view;
}

RunSize Serving::size_of(std::span<const RequestInputs* const> requests) const {
    RunSize size;
    std::int64_t longest = 0;
    for (const RequestInputs* request : requests) {
        size.samples += request->samples;
        longest = std::max(longest, request->length);
    }
    size.samples = run_size(size.samples);
    size.length = filling ? length_for(size.samples, longest) : 0;
    return size;
}

Result<void> Serving::check(RequestInputs& request) const {
    request.samples = 1;
    request.length = 0;
    bool first = true;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const InputPieces& given = request.inputs[i];
        LATHE_CHECK(check_shape(*this, i, given.shape));
        const std::size_t wanted = byte_size(inputs[i].type, static_cast<std::size_t>(element_count(given.shape)));
        if (given.bytes() != wanted) {
            return Error{ErrorCode::invalid_argument,
                         "the input holds " + std::to_string(given.bytes()) + " bytes, and " + to_string(given.shape) +
                             " of " + to_string(inputs[i].type) + " takes " + std::to_string(wanted),
                         inputs[i].name, ""};
        }
        if (batched && !first && given.shape[0] != request.samples) {
            return Error{ErrorCode::invalid_argument,
                         "the inputs have different numbers of samples: " + std::to_string(request.samples) + " and " +
                             std::to_string(given.shape[0]),
                         inputs[i].name, "the first axis of all inputs is the samples"};
        }
        if (batched) request.samples = given.shape[0];
        first = false;
        if (!is_filled(*this, i)) continue;
        if (request.length != 0 && request.length != given.shape[1]) {
            return Error{ErrorCode::invalid_argument,
                         "the inputs have different lengths: " + std::to_string(request.length) + " and " +
                             std::to_string(given.shape[1]),
                         inputs[i].name, "the second axis of all inputs is the length"};
        }
        request.length = given.shape[1];
    }
    return {};
}

bool Serving::can_share(const RequestInputs& one, const RequestInputs& other) const {
    if (!batched) return false;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const Shape& a = one.inputs[i].shape;
        const Shape& b = other.inputs[i].shape;
        const std::size_t from = is_filled(*this, i) ? 2 : 1;
        if (!std::equal(a.begin() + static_cast<std::ptrdiff_t>(from), a.end(),
                        b.begin() + static_cast<std::ptrdiff_t>(from), b.end()))
            return false;
    }
    return true;
}

void Serving::next_run(std::span<const RequestInputs* const> waiting, std::vector<std::size_t>& group) const {
    group.clear();
    const RequestInputs* first = nullptr;
    std::int64_t samples = 0;
    for (std::size_t i = 0; i < waiting.size(); ++i) {
        const RequestInputs* const request = waiting[i];
        if (request == nullptr) continue;
        if (first != nullptr && (samples + request->samples > most || !can_share(*first, *request))) continue;
        if (first == nullptr) first = request;
        samples += request->samples;
        group.push_back(i);
    }
}

std::int64_t Serving::run_size(std::int64_t samples) const {
    const std::int64_t needed = std::max(samples, least);
    const auto found = std::ranges::lower_bound(sizes, needed);
    return found == sizes.end() ? needed : *found;
}

std::int64_t Serving::length_for(std::int64_t samples, std::int64_t longest) const {
    const std::int64_t needed = std::max(longest, filling->least);
    std::int64_t best = needed;
    bool found = false;
    for (const auto& [profile_samples, length] : filling->profiles) {
        if (profile_samples != samples || length < needed || (found && length >= best)) continue;
        best = length;
        found = true;
    }
    return best;
}

std::span<const TensorView> BatchInputs::join(const Serving& serving, std::span<const RequestInputs* const> requests,
                                              const Memory& memory) {
    size_ = serving.size_of(requests);
    own_.resize(serving.inputs.size());
    views_.resize(serving.inputs.size());
    for (std::size_t i = 0; i < serving.inputs.size(); ++i) {
        const IoInfo& input = serving.inputs[i];
        const InputPieces& like = requests[0]->inputs[i];
        const bool filled = is_filled(serving, i);
        const std::size_t element = bit_width(input.type) / 8;
        TensorView& view = views_[i] = serving.view_of(i, like.shape, size_);
        const std::span<std::byte> given = memory(i);
        const bool alone = requests.size() == 1 && view.shape == like.shape && like.pieces.size() == 1;
        if (alone && given.empty() && is_aligned(like.pieces[0].data(), input.type)) {
            const std::span<const std::byte> piece = like.pieces[0];
            view.bytes = {const_cast<std::byte*>(piece.data()), piece.size()}; // sessions read it alone
            continue;
        }
        const std::size_t bytes = byte_size(input.type, static_cast<std::size_t>(element_count(view.shape)));
        std::byte* to = given.data();
        if (given.size() < bytes) {
            if (own_[i].size() < bytes) own_[i].resize(bytes);
            to = own_[i].data();
        }
        view.bytes = {to, bytes};
        const std::size_t row = serving.batched ? bytes / static_cast<std::size_t>(size_.samples) : bytes;
        for (const RequestInputs* request : requests) {
            PieceReader reader(request->inputs[i].pieces);
            if (!filled || request->length == size_.length) {
                const std::size_t part = request->inputs[i].bytes();
                reader.read(to, part);
                to += part;
                continue;
            }
            const std::size_t own = static_cast<std::size_t>(request->length) * element;
            for (std::int64_t sample = 0; sample < request->samples; ++sample, to += row) {
                reader.read(to + (serving.filling->in_front ? row - own : 0), own);
                fill(to + (serving.filling->in_front ? 0 : own), row - own, input.type, filler(serving, i));
            }
        }
        // Up to the run's samples the last one is repeated; nobody gets what comes of it.
        for (const std::byte* end = view.bytes.data() + bytes; row > 0 && to < end; to += row)
            std::memcpy(to, to - row, row);
    }
    return views_;
}

Result<std::span<const TensorView>> DeviceInputs::join(const Serving& serving,
                                                       std::span<const RequestInputs* const> requests,
                                                       const BatchInputs::Memory& memory) {
    size_ = serving.size_of(requests);
    own_.resize(serving.inputs.size());
    views_.resize(serving.inputs.size());
    for (std::size_t i = 0; i < serving.inputs.size(); ++i) {
        TensorView& view = views_[i] = serving.view_of(i, requests[0]->inputs[i].shape, size_);
        const std::size_t bytes = byte_size(view.type, static_cast<std::size_t>(element_count(view.shape)));
        LATHE_TRY(const std::span<std::byte> there, copies_.memory(i, bytes));
        view.bytes = there.first(bytes);
        std::span<std::byte> host = memory(i);
        if (host.size() < bytes) {
            if (own_[i].size() < bytes) own_[i].resize(bytes);
            host = own_[i];
        }
        LATHE_CHECK(join_input(serving, i, requests, view.bytes, host.first(bytes)));
    }
    LATHE_CHECK(copies_.wait());
    return std::span<const TensorView>(views_);
}

Result<void> DeviceInputs::join_input(const Serving& serving, std::size_t input,
                                      std::span<const RequestInputs* const> requests, std::span<std::byte> there,
                                      std::span<std::byte> host) {
    const bool filled = is_filled(serving, input);
    const DataType type = serving.inputs[input].type;
    const std::size_t row = serving.batched ? there.size() / static_cast<std::size_t>(size_.samples) : there.size();
    std::size_t at = 0;
    const auto from_host = [&](std::size_t bytes) -> Result<void> { // was written at the same place there
        LATHE_CHECK(copies_.copy(there.data() + at, host.data() + at, bytes));
        at += bytes;
        return {};
    };
    const auto fill_up = [&](std::size_t bytes) -> Result<void> {
        fill(host.data() + at, bytes, type, filler(serving, input));
        return from_host(bytes);
    };
    for (const RequestInputs* request : requests) {
        const InputPieces& given = request->inputs[input];
        const bool whole = !filled || request->length == size_.length;
        const std::size_t part =
            whole ? given.bytes() : static_cast<std::size_t>(request->length) * (bit_width(type) / 8);
        std::size_t left = whole ? 0 : part; // of the row that is begun
        const bool in_front = !whole && serving.filling->in_front;
        if (in_front) LATHE_CHECK(fill_up(row - part));
        for (std::size_t p = 0; p < given.pieces.size(); ++p) {
            std::span<const std::byte> piece = given.pieces[p];
            while (!piece.empty()) {
                if (!whole && left == 0) { // the next sample's row
                    left = part;
                    if (in_front) LATHE_CHECK(fill_up(row - part));
                }
                const std::size_t now = whole ? piece.size() : std::min(left, piece.size());
                if (!given.in_gpu.empty() && given.in_gpu[p]) {
                    LATHE_CHECK(copies_.copy(there.data() + at, piece.data(), now));
                    at += now;
                } else {
                    std::memcpy(host.data() + at, piece.data(), now);
                    LATHE_CHECK(from_host(now));
                }
                piece = piece.subspan(now);
                if (whole) continue;
                left -= now;
                if (left == 0 && !in_front) LATHE_CHECK(fill_up(row - part));
            }
        }
    }
    // As on the host: nobody gets what comes of the rest. Copies follow one another.
    for (; row > 0 && at < there.size(); at += row)
        LATHE_CHECK(copies_.copy(there.data() + at, there.data() + at - row, row));
    return {};
}

Result<OutputPart> OutputPart::of(const Serving& serving, std::size_t output, const TensorView& whole,
                                  const RunSize& run, const RequestInputs& request, std::int64_t first) {
    OutputPart part;
    part.shape_ = whole.shape;
    part.from_ = whole.bytes.data();
    part.row_bytes_ = part.stride_ = whole.bytes.size();
    if (!serving.batched) return part;
    if (whole.shape.empty() || whole.shape[0] != run.samples) {
        return Error{ErrorCode::mismatch,
                     "the output's first axis is not the samples: " + to_string(whole.shape) + " after a run of " +
                         std::to_string(run.samples),
                     whole.name, "serve the model with max_batch_size 0"};
    }
    part.shape_[0] = request.samples;
    part.rows_ = static_cast<std::size_t>(request.samples);
    part.row_bytes_ = part.stride_ = whole.bytes.size() / static_cast<std::size_t>(run.samples);
    part.from_ += part.stride_ * static_cast<std::size_t>(first);
    const ShapeRange& range = serving.outputs[output].range;
    const bool follows_length = run.length > request.length && request.length > 0 && whole.shape.size() >= 2 &&
                                range.max.size() == whole.shape.size() && range.max[1] < 0 &&
                                whole.shape[1] == run.length;
    if (follows_length) {
        part.shape_[1] = request.length;
        const std::size_t position = part.stride_ / static_cast<std::size_t>(run.length);
        part.row_bytes_ = position * static_cast<std::size_t>(request.length);
        if (serving.filling->in_front) part.from_ += part.stride_ - part.row_bytes_;
    }
    return part;
}

void OutputPart::write(std::byte* to) const {
    if (bytes() == 0) return;
    if (row_bytes_ == stride_) {
        std::memcpy(to, from_, bytes());
        return;
    }
    for (std::size_t row = 0; row < rows_; ++row)
        std::memcpy(to + row * row_bytes_, from_ + row * stride_, row_bytes_);
}

Result<void> OutputPart::write(std::byte* to, DeviceCopies& copies) const {
    if (bytes() == 0) return {};
    if (row_bytes_ == stride_) return copies.copy(to, from_, bytes());
    for (std::size_t row = 0; row < rows_; ++row)
        LATHE_CHECK(copies.copy(to + row * row_bytes_, from_ + row * stride_, row_bytes_));
    return {};
}

} // namespace lathe::triton
