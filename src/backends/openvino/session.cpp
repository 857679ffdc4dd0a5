#include <cstdlib>
#include <cstring>

#include "backends/openvino/compiled.hpp"

namespace lathe::openvino {

namespace {

ov::Shape to_ov(const Shape& shape) { return {shape.begin(), shape.end()}; }
Shape from_ov(const ov::Shape& shape) { return {shape.begin(), shape.end()}; }

/// Uninitialised memory, aligned as vector loads like it.
class Buffer {
public:
    std::byte* reserve(std::size_t bytes) {
        if (bytes > size_) {
            constexpr std::size_t alignment = 64;
            const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
            data_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, rounded)));
            if (!data_) throw std::bad_alloc();
            size_ = rounded;
        }
        return data_.get();
    }

private:
    struct Free {
        void operator()(std::byte* data) const { std::free(data); }
    };
    std::unique_ptr<std::byte, Free> data_;
    std::size_t size_ = 0;
};

/// A request and the memory it is bound to, so that memory used again is not bound again.
struct Bound {
    ov::InferRequest request;
    bool may_fail = false; ///< while it runs, by what it is given
    std::vector<const void*> inputs;
    std::vector<const void*> outputs;
    std::vector<Shape> shapes;
};

class Session final : public BackendSession {
public:
    explicit Session(std::shared_ptr<const State> state)
        : state_(std::move(state)), given_(state_->inputs.size()), results_(state_->outputs.size()),
          placed_(state_->outputs.size()), buffers_(state_->outputs.size()), own_(state_->parts.size()),
          sliced_(state_->parts.size()) {}

    Result<void> set_input(std::size_t index, const TensorView& view) override {
        if (index >= given_.size()) {
            return Error{ErrorCode::invalid_argument, "input index " + std::to_string(index) + " does not exist", "",
                         "the model has " + std::to_string(given_.size()) + " inputs"};
        }
        const IoInfo& io = state_->inputs[index];
        if (view.type != io.type) {
            return Error{ErrorCode::invalid_argument,
                         "input has type " + to_string(view.type) + ", the model wants " + to_string(io.type), io.name,
                         "convert the data"};
        }
        if (!io.range.contains(view.shape)) {
            return Error{ErrorCode::out_of_range,
                         "shape " + to_string(view.shape) + " is outside the engine's range " + io.range.describe(),
                         io.name, "rebuild with a --shape that covers it"};
        }
        const std::int64_t count = element_count(view.shape);
        if (count < 0 || view.bytes.size() != byte_size(view.type, static_cast<std::size_t>(count))) {
            return Error{ErrorCode::invalid_argument,
                         "input holds " + std::to_string(view.bytes.size()) + " bytes, not what shape " +
                             to_string(view.shape) + " of " + to_string(view.type) + " takes",
                         io.name, ""};
        }
        given_[index] = view;
        return {};
    }

    Result<void> set_output(std::size_t index, std::span<std::byte> memory) override {
        if (index >= placed_.size()) {
            return Error{ErrorCode::invalid_argument, "output index " + std::to_string(index) + " does not exist", "",
                         "the model has " + std::to_string(placed_.size()) + " outputs"};
        }
        const IoInfo& io = state_->outputs[index];
        const std::int64_t count = io.range.opt.empty() ? -1 : element_count(io.range.opt); // empty: rank not known
        if (count < 0) {
            return Error{ErrorCode::unsupported, "the size of this output is not known before it runs", io.name, ""};
        }
        if (memory.size() != byte_size(io.type, static_cast<std::size_t>(count))) {
            return Error{ErrorCode::invalid_argument,
                         std::to_string(memory.size()) + " bytes were given for an output of shape " +
                             to_string(io.range.opt),
                         io.name, ""};
        }
        placed_[index] = memory;
        return {};
    }

    Result<void> run() override {
        for (std::size_t i = 0; i < given_.size(); ++i) {
            if (given_[i].type == DataType::undefined) {
                return Error{ErrorCode::invalid_argument, "input was not set", state_->inputs[i].name, ""};
            }
        }
        ran_ = nullptr;
        for (auto& result : results_)
            result.type = DataType::undefined;
        return guarded("inference failed", "openvino",
                       [&]() -> Result<void> { return state_->kind == PlanKind::split ? run_split() : run_whole(); });
    }

    Result<TensorView> output(std::size_t index) override {
        if (index >= results_.size() || results_[index].type == DataType::undefined) {
            return Error{ErrorCode::invalid_argument, "no output " + std::to_string(index) + " yet", "",
                         "run the session first"};
        }
        return results_[index];
    }

    Result<std::vector<LayerInfo>> profile() override {
        if (!state_->profiling) {
            return Error{ErrorCode::unsupported, "this engine was compiled without profiling", "", "compile it anew"};
        }
        if (ran_ == nullptr) return Error{ErrorCode::invalid_argument, "nothing ran yet", "", "run the session first"};
        LATHE_TRY(const ov::CompiledModel compiled, state_->parts[ran_part_]->get());
        return profile_of(compiled, ran_->request);
    }

private:
    Result<void> run_whole() {
        const std::size_t part = whole_part();
        if (part == state_->parts.size()) {
            return Error{ErrorCode::internal, "no compiled form for these shapes", to_string(given_[0].shape), ""};
        }
        return run_one(part);
    }

    std::size_t whole_part() const {
        std::size_t dynamic = state_->parts.size();
        for (std::size_t p = 0; p < state_->parts.size(); ++p) {
            const PartSpec& spec = state_->parts[p]->spec();
            if (spec.is_dynamic()) {
                dynamic = p;
                continue;
            }
            bool same = true;
            for (std::size_t i = 0; i < given_.size() && same; ++i)
                same = spec.shapes[i] == given_[i].shape;
            if (same) return p;
        }
        return dynamic;
    }

    Result<void> run_split() {
        const std::int64_t batch = given_[0].shape[0];
        for (std::size_t i = 1; i < given_.size(); ++i) {
            if (given_[i].shape[0] != batch) {
                return Error{ErrorCode::invalid_argument,
                             "inputs have different batch sizes: " + std::to_string(batch) + " and " +
                                 std::to_string(given_[i].shape[0]),
                             state_->inputs[i].name, "give every input the same batch size"};
            }
        }
        if (batch != cut_) {
            rounds_ = cut_batch(state_->specs(), batch);
            cut_ = batch;
        }
        if (rounds_.empty()) {
            return Error{ErrorCode::internal, "no compiled form for batch " + std::to_string(batch), "", ""};
        }
        if (rounds_.size() == 1 && rounds_[0].pieces.size() == 1) return run_one(rounds_[0].part);
        for (std::size_t r = 0; r < rounds_.size(); ++r)
            LATHE_CHECK(run_round(rounds_[r], r == 0, batch));
        return {};
    }

    Result<Bound*> request_of(std::vector<Bound>& pool, std::size_t part, std::size_t index) {
        while (pool.size() <= index) {
            LATHE_TRY(ov::CompiledModel compiled, state_->parts[part]->get());
            const bool may_fail = state_->one_thread && !has_fixed_shapes(compiled);
            pool.push_back({compiled.create_infer_request(), may_fail, {}, {}, {}});
            pool.back().inputs.resize(state_->inputs.size());
            pool.back().outputs.resize(state_->outputs.size());
            pool.back().shapes.resize(state_->inputs.size());
        }
        return &pool[index];
    }

    void bind_input(Bound& bound, std::size_t input, const Shape& shape, const std::byte* data) {
        if (state_->input_ports[input] == unread) return;
        if (bound.inputs[input] == data && bound.shapes[input] == shape) return;
        const ov::element::Type type = element_type(state_->inputs[input].type);
        bound.request.set_input_tensor(state_->input_ports[input],
                                       ov::Tensor(type, to_ov(shape), const_cast<std::byte*>(data)));
        bound.inputs[input] = data;
        bound.shapes[input] = shape;
    }

    void bind_output(Bound& bound, std::size_t output, const Shape& shape, std::byte* data) {
        if (bound.outputs[output] == data) return;
        bound.request.set_output_tensor(state_->output_ports[output],
                                        ov::Tensor(element_type(state_->outputs[output].type), to_ov(shape), data));
        bound.outputs[output] = data;
    }

    /// The whole request in one piece; outputs are views of the request's own memory, or of what was given.
    Result<void> run_one(std::size_t part) {
        LATHE_TRY(Bound * bound, request_of(own_[part], part, 0));
        for (std::size_t i = 0; i < given_.size(); ++i)
            bind_input(*bound, i, given_[i].shape, given_[i].bytes.data());
        for (std::size_t o = 0; o < results_.size(); ++o) {
            if (!placed_[o].empty() && !is_passed_on(o))
                bind_output(*bound, o, state_->outputs[o].range.opt, placed_[o].data());
        }
        if (bound->may_fail) {
            run_and_wait(bound->request);
        } else {
            bound->request.infer();
        }
        for (std::size_t o = 0; o < results_.size(); ++o) {
            if (is_passed_on(o)) {
                LATHE_CHECK(pass_on(o));
                continue;
            }
            ov::Tensor tensor = bound->request.get_output_tensor(state_->output_ports[o]);
            if (results_[o].name.empty()) results_[o].name = state_->outputs[o].name;
            results_[o].type = state_->outputs[o].type;
            const ov::Shape& shape = tensor.get_shape();
            results_[o].shape.assign(shape.begin(), shape.end());
            results_[o].bytes = {static_cast<std::byte*>(tensor.data()), tensor.get_byte_size()};
            if (!placed_[o].empty() && results_[o].bytes.data() != placed_[o].data()) {
                return Error{ErrorCode::internal, "OpenVINO wrote an output elsewhere than it was told to",
                             results_[o].name, ""};
            }
        }
        ran_ = bound;
        ran_part_ = part;
        return {};
    }

    /// OpenVINO's requests have one tensor for such an output and its input: what is bound last is both, and nothing is
    /// copied.
    bool is_passed_on(std::size_t output) const { return state_->passed_on[output] != unread; }

    Result<void> pass_on(std::size_t output) {
        const TensorView& from = given_[state_->passed_on[output]];
        if (!placed_[output].empty() && placed_[output].size() != from.bytes.size()) {
            return Error{ErrorCode::corrupt,
                         "the engine says that this output is input \"" + from.name + "\", which has another size",
                         state_->outputs[output].name, "build the engine again"};
        }
        std::byte* const to =
            placed_[output].empty() ? buffers_[output].reserve(from.bytes.size()) : placed_[output].data();
        if (!from.bytes.empty()) std::memcpy(to, from.bytes.data(), from.bytes.size());
        results_[output] = {state_->outputs[output].name, from.type, from.shape, {to, from.bytes.size()}};
        return {};
    }

    /// Outputs of all pieces lie one after another in our buffers, so that the views show the whole batch.
    Result<void> make_buffers(const ov::CompiledModel& compiled, std::int64_t batch) {
        for (std::size_t o = 0; o < results_.size(); ++o) {
            if (is_passed_on(o)) {
                LATHE_CHECK(pass_on(o));
                continue;
            }
            Shape shape = from_ov(compiled.output(state_->output_ports[o]).get_shape());
            shape.at(0) = batch;
            const std::int64_t count = element_count(shape);
            if (count < 0) return Error{ErrorCode::internal, "output size overflows", state_->outputs[o].name, ""};
            const std::size_t bytes = byte_size(state_->outputs[o].type, static_cast<std::size_t>(count));
            std::byte* const data = placed_[o].empty() ? buffers_[o].reserve(bytes) : placed_[o].data();
            results_[o] = {state_->outputs[o].name, state_->outputs[o].type, shape, {data, bytes}};
        }
        return {};
    }

    Result<void> run_round(const Round& round, bool first, std::int64_t batch) {
        const Part& part = *state_->parts[round.part];
        if (first) {
            LATHE_TRY(const ov::CompiledModel compiled, part.get());
            LATHE_CHECK(make_buffers(compiled, batch));
        }
        const auto total = static_cast<std::size_t>(batch);
        std::vector<Bound>& pool = sliced_[round.part];
        LATHE_CHECK(request_of(pool, round.part, round.pieces.size() - 1));
        std::size_t started = 0;
        std::exception_ptr failure;
        try {
            for (; started < round.pieces.size(); ++started) {
                const Piece& piece = round.pieces[started];
                Bound& bound = pool[started];
                const auto begin = static_cast<std::size_t>(piece.first);
                for (std::size_t i = 0; i < given_.size(); ++i) {
                    const std::byte* data = given_[i].bytes.data() + given_[i].bytes.size() / total * begin;
                    bind_input(bound, i, part.spec().shapes[i], data);
                }
                for (std::size_t o = 0; o < results_.size(); ++o) {
                    if (is_passed_on(o)) continue;
                    std::byte* data = results_[o].bytes.data() + results_[o].bytes.size() / total * begin;
                    Shape shape = results_[o].shape;
                    shape[0] = piece.count;
                    bind_output(bound, o, shape, data);
                }
                bound.request.start_async();
            }
        } catch (...) {
            failure = std::current_exception();
        }
        // Every started request is awaited, failed or not: it writes to memory that must outlive it.
        for (std::size_t i = 0; i < started; ++i) {
            try {
                pool[i].request.wait();
            } catch (...) {
                if (!failure) failure = std::current_exception();
            }
        }
        if (failure) std::rethrow_exception(failure);
        return {};
    }

    std::shared_ptr<const State> state_;
    std::vector<TensorView> given_;
    std::vector<TensorView> results_;
    std::vector<std::span<std::byte>> placed_; ///< by output: memory of others that it is written to, or empty
    std::vector<Buffer> buffers_;
    std::vector<std::vector<Bound>> own_;    ///< by part: requests with memory of their own
    std::vector<std::vector<Bound>> sliced_; ///< by part: requests that write into `buffers_`
    std::vector<Round> rounds_;
    std::int64_t cut_ = -1; ///< the batch size `rounds_` is for
    Bound* ran_ = nullptr;
    std::size_t ran_part_ = 0;
};

} // namespace

std::unique_ptr<BackendSession> make_session_for(std::shared_ptr<const State> state) {
    return std::make_unique<Session>(std::move(state));
}

} // namespace lathe::openvino
