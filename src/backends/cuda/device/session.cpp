#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "backends/cuda/device/bound.hpp"
#include "backends/cuda/device/handles.hpp"
#include "backends/cuda/device/pictures.hpp"
#include "backends/cuda/device/state.hpp"
#include "backends/cuda/plan/rows.hpp"
#include "support/thread_pool.hpp"

namespace lathe::cuda {

namespace {

using Clock = std::chrono::steady_clock;

/// Memory for a request's inputs is copied by several threads from this size on.
constexpr std::size_t parallel_copy_bytes = std::size_t{1} << 20;
constexpr std::size_t bound_plans = 16;

double microseconds_since(Clock::time_point begin) {
    return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

std::size_t grown(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

class CudaSession final : public BackendSession {
public:
    CudaSession(std::shared_ptr<EngineState> state, std::size_t device)
        : state_(std::move(state)), place_(device), bound_(bound_plans), shapes_(state_->inputs.size()),
          from_device_(state_->inputs.size()), deciding_(state_->inputs.size()), kept_(state_->inputs.size()),
          staged_in_(state_->inputs.size()), staged_out_(state_->outputs.size()) {}

    ~CudaSession() override {
        // Memory that is still used must not be freed, nor given to another session.
        if (select()) static_cast<void>(cudaStreamSynchronize(stream_.get()));
        pictures_.release(state_->staging);
        for (auto* staged : {&staged_in_, &staged_out_})
            for (PinnedMemory& memory : *staged)
                state_->staging.give(std::move(memory));
        state_->staging.give(std::move(staged_counts_));
    }

    Result<void> open() {
        LATHE_CHECK(select());
        LATHE_TRY(stream_, Stream::create());
        LATHE_TRY(done_, Event::create(false));
        for (Event& event : marks_) {
            LATHE_TRY(event, Event::create(true));
        }
        const auto deciding = deciding_inputs(state_->prepared.model.graph);
        for (std::size_t i = 0; i < state_->inputs.size(); ++i)
            deciding_[i] = std::find(deciding.begin(), deciding.end(), state_->inputs[i].name) != deciding.end();
        std::size_t largest = 0;
        for (std::size_t i = 0; i < state_->inputs.size(); ++i) {
            const IoInfo& io = state_->inputs[i];
            const auto count = static_cast<std::size_t>(std::max<std::int64_t>(0, element_count(io.range.max)));
            const std::size_t bytes = byte_size(io.type, count);
            largest = std::max(largest, bytes);
            LATHE_TRY(staged_in_[i], state_->staging.take(grown(bytes), "input " + io.name));
        }
        if (largest >= parallel_copy_bytes && available_cores() > 1) {
            constexpr std::size_t copying_threads = 4; // a few cores fill the memory's bandwidth
            copiers_ = std::make_unique<ThreadPool>(std::min(available_cores(), copying_threads));
        }
        // Memory for the largest shapes first, so that later ones need no other.
        return reserve(state_->arena_bytes, state_->workspace_bytes);
    }

    Result<void> set_input(std::size_t index, const TensorView& view) override {
        LATHE_CHECK(usable());
        LATHE_CHECK(check_input(index, view.type, view.shape));
        const IoInfo& io = state_->inputs[index];
        const std::size_t bytes = byte_size(io.type, static_cast<std::size_t>(element_count(view.shape)));
        if (view.bytes.size() != bytes) {
            return Error{ErrorCode::invalid_argument,
                         "input holds " + std::to_string(view.bytes.size()) + " bytes, not what shape " +
                             lathe::to_string(view.shape) + " of " + lathe::to_string(view.type) + " takes",
                         io.name, ""};
        }
        if (running_) LATHE_CHECK(wait()); // the device may still read what was staged
        if (view.bytes.data() != staged_in_[index].data()) copy(staged_in_[index].data(), view.bytes.data(), bytes);
        set_shape(index, view.shape);
        take_value(index, view);
        from_device_[index] = nullptr;
        return {};
    }

    std::span<std::byte> input_memory(std::size_t index) override {
        if (index >= staged_in_.size()) return {};
        return {staged_in_[index].data(), staged_in_[index].size()};
    }

    Result<void> keep_input(std::size_t index, const TensorView& view) override {
        LATHE_CHECK(set_input(index, view));
        LATHE_CHECK(select());
        LATHE_CHECK(keep_room(index, view.bytes.size()));
        if (view.bytes.empty()) return {};
        LATHE_CUDA(cudaMemcpyAsync(kept_[index].data(), staged_in_[index].data(), view.bytes.size(),
                                   cudaMemcpyHostToDevice, stream_.get()),
                   "copying an input to the GPU");
        LATHE_CHECK(stream_.synchronize("copying an input to the GPU"));
        from_device_[index] = kept_[index].data();
        return {};
    }

    Result<void> keep_pictures(std::size_t index, const PictureBatch& batch) override {
        LATHE_CHECK(usable());
        const Shape shape = PictureStage::shape_of(batch);
        LATHE_CHECK(check_input(index, DataType::float32, shape));
        if (running_) LATHE_CHECK(wait());
        LATHE_CHECK(select());
        LATHE_CHECK(keep_room(index, byte_size(DataType::float32, static_cast<std::size_t>(element_count(shape)))));
        // The next run follows in the same stream; the staging memory is written again after its end alone.
        LATHE_CHECK(stream_.synchronize("waiting for the last run"));
        auto made = pictures_.enqueue(batch, reinterpret_cast<float*>(kept_[index].data()), stream_, state_->staging);
        if (!made) return failed(std::move(made).error());
        set_shape(index, shape);
        from_device_[index] = kept_[index].data();
        return {};
    }

    int device() const override { return place().index; }

    Result<void> set_device_input(std::size_t index, const DeviceTensor& tensor) override {
        LATHE_CHECK(usable());
        LATHE_CHECK(check_input(index, tensor.type, tensor.shape));
        if (tensor.device != place().index) {
            return Error{ErrorCode::invalid_argument,
                         "the tensor is on GPU " + std::to_string(tensor.device) + ", the session on GPU " +
                             std::to_string(place().index),
                         state_->inputs[index].name, "copy it there"};
        }
        if (running_) LATHE_CHECK(wait());
        set_shape(index, tensor.shape);
        if (deciding_[index]) { // which plan runs is chosen here
            std::vector<std::byte> bytes(byte_size(tensor.type, static_cast<std::size_t>(element_count(tensor.shape))));
            LATHE_CHECK(select());
            LATHE_CUDA(cudaMemcpy(bytes.data(), tensor.data, bytes.size(), cudaMemcpyDeviceToHost),
                       "reading an input that decides shapes");
            take_value(index, {state_->inputs[index].name, tensor.type, tensor.shape, bytes});
        }
        from_device_[index] = tensor.data;
        return {};
    }

    Result<void> run() override {
        LATHE_CHECK(start());
        return wait();
    }

    Result<void> start() override {
        LATHE_CHECK(usable());
        if (running_) LATHE_CHECK(wait());
        auto started = enqueue();
        if (!started) return failed(std::move(started).error());
        running_ = true;
        return {};
    }

    Result<void> wait() override {
        LATHE_CHECK(usable());
        if (!running_) return {};
        running_ = false;
        if (auto ended = done_.synchronize("running the model"); !ended) return failed(std::move(ended).error());
        return cut_outputs();
    }

    Result<TensorView> output(std::size_t index) override {
        LATHE_CHECK(usable());
        LATHE_CHECK(check_output(index));
        if (running_) LATHE_CHECK(wait());
        const Shape& shape = shape_of(index);
        const DataType type = state_->outputs[index].type;
        const std::size_t bytes = byte_size(type, static_cast<std::size_t>(element_count(shape)));
        return TensorView{state_->outputs[index].name, type, shape, std::span(staged_out_[index].data(), bytes)};
    }

    Result<DeviceTensor> device_output(std::size_t index) override {
        LATHE_CHECK(usable());
        LATHE_CHECK(check_output(index));
        if (running_) LATHE_CHECK(wait());
        const Port& port = current_->outputs[index];
        const Shape& shape = shape_of(index);
        for (const OpenOutput& open : current_->source->plan.open) {
            if (open.output != index || open.axis == 0 || shape == port.shape) continue;
            return Error{ErrorCode::unsupported, "on the GPU it lies with room for more behind each row",
                         state_->outputs[index].name, "take it in the host's memory"};
        }
        return DeviceTensor{port.device, state_->outputs[index].type, shape, place().index};
    }

    Result<void> set_timing(bool on) override {
        timing_ = on;
        return {};
    }

    Result<RunTimes> times() override {
        if (!timed_) {
            return Error{ErrorCode::invalid_argument, "the last run was not timed", "",
                         "set_timing(true) before it, and wait for its end"};
        }
        if (running_) LATHE_CHECK(wait());
        RunTimes times;
        LATHE_TRY(times.copy_in_ms, marks_[1].since(marks_[0]));
        LATHE_TRY(times.compute_ms, marks_[2].since(marks_[1]));
        LATHE_TRY(times.copy_out_ms, marks_[3].since(marks_[2]));
        times.enqueue_us = enqueue_us_;
        return times;
    }

    Result<double> host_overhead_us() override {
        LATHE_CHECK(usable());
        if (current_ == nullptr)
            return Error{ErrorCode::invalid_argument, "nothing ran yet", "", "run the session first"};
        return enqueue_us_ - graph_launch_us_;
    }

    /// Runs the last request again, operation by operation, each timed: the median of five runs.
    Result<std::vector<LayerInfo>> profile() override {
        LATHE_CHECK(usable());
        if (current_ == nullptr)
            return Error{ErrorCode::invalid_argument, "nothing ran yet", "", "run the session first"};
        if (running_) LATHE_CHECK(wait());
        LATHE_CHECK(select());
        auto layers = current_->time_layers(stream_, [this] { return copy_in(); });
        if (!layers) return failed(std::move(layers).error());
        return layers;
    }

private:
    const Device& place() const { return state_->devices[place_]->device; }

    Result<void> select() const {
        LATHE_CUDA(cudaSetDevice(place().index), "choosing the GPU");
        return {};
    }

    /// Once the device's state is lost, every call says so.
    Result<void> usable() const {
        if (lost_) return *lost_;
        return {};
    }

    Error failed(Error error) {
        // A sticky error stays: the same answer to whatever comes.
        if (const cudaError_t state = cudaStreamQuery(stream_.get());
            state != cudaSuccess && state != cudaErrorNotReady) {
            lost_ = error;
        }
        current_ = nullptr;
        running_ = false;
        return error;
    }

    Result<void> check_input(std::size_t index, DataType type, const Shape& shape) const {
        if (index >= state_->inputs.size()) {
            return Error{ErrorCode::invalid_argument, "input index " + std::to_string(index) + " does not exist", "",
                         "the model has " + std::to_string(state_->inputs.size()) + " inputs"};
        }
        const IoInfo& io = state_->inputs[index];
        if (type != io.type) {
            return Error{ErrorCode::invalid_argument,
                         "input has type " + lathe::to_string(type) + ", the model wants " + lathe::to_string(io.type),
                         io.name, "convert the data"};
        }
        if (!io.range.contains(shape)) {
            return Error{ErrorCode::out_of_range,
                         "shape " + lathe::to_string(shape) + " is outside the engine's range " + io.range.describe(),
                         io.name, "rebuild with a --shape that covers it"};
        }
        return {};
    }

    Result<void> check_output(std::size_t index) const {
        if (current_ == nullptr || index >= current_->outputs.size()) {
            return Error{ErrorCode::invalid_argument, "no output " + std::to_string(index) + " yet", "",
                         "run the session first"};
        }
        return {};
    }

    Result<void> keep_room(std::size_t index, std::size_t bytes) {
        if (bytes <= kept_[index].size()) return {};
        LATHE_CHECK(stream_.synchronize("waiting for the last run"));
        kept_[index] = DeviceMemory();
        LATHE_TRY(kept_[index], DeviceMemory::allocate(bytes, "a kept input"));
        return {};
    }

    void set_shape(std::size_t index, const Shape& shape) {
        if (shapes_[index] && *shapes_[index] == shape) return;
        shapes_[index] = shape;
        current_ = nullptr;
    }

    /// Another value of an input that decides shapes is another plan.
    void take_value(std::size_t index, const TensorView& view) {
        if (!deciding_[index]) return;
        const std::string& name = state_->inputs[index].name;
        std::string text = value_text(Tensor(name, view.type, view.shape, view.bytes));
        const std::string* built = state_->prepared.model.find_metadata(value_prefix + name);
        const auto held = values_.find(name);
        const std::string* before = held != values_.end() ? &held->second : built;
        if (before != nullptr && *before == text) return;
        current_ = nullptr;
        if (built != nullptr && *built == text)
            values_.erase(name);
        else
            values_.insert_or_assign(name, std::move(text));
    }

    void copy(std::byte* to, const std::byte* from, std::size_t bytes) {
        if (bytes < parallel_copy_bytes || copiers_ == nullptr) {
            std::memcpy(to, from, bytes);
            return;
        }
        constexpr std::size_t piece = std::size_t{256} << 10;
        copiers_->for_each((bytes + piece - 1) / piece, [&](std::size_t i) {
            std::memcpy(to + i * piece, from + i * piece, std::min(piece, bytes - i * piece));
        });
    }

    /// Makes the arena and the workspace at least so large; what was bound to smaller ones is bound anew.
    Result<void> reserve(std::size_t arena, std::size_t workspace) {
        if (arena <= arena_.size() && workspace <= workspace_.size()) return {};
        LATHE_CHECK(stream_.synchronize("waiting for the last run"));
        bound_ = LruCache<std::string, std::unique_ptr<Bound>>(bound_plans);
        if (arena > arena_.size()) {
            arena_ = DeviceMemory();
            LATHE_TRY(arena_, DeviceMemory::allocate(arena, "activations"));
            // Padding of channels must be finite before anything was computed.
            LATHE_CUDA(cudaMemsetAsync(arena_.data(), 0, arena_.size(), stream_.get()), "clearing the activations");
        }
        if (workspace > workspace_.size()) {
            workspace_ = DeviceMemory();
            LATHE_TRY(workspace_, DeviceMemory::allocate(workspace, "workspace"));
        }
        return {};
    }

    Result<std::unique_ptr<Bound>> bind(const std::vector<Shape>& shapes) {
        LATHE_TRY(auto source, plan_for(*state_, place_, shapes, values_));
        LATHE_CHECK(reserve(source->memory.peak, source->workspace));
        LATHE_TRY(auto bound, bind_plan(*state_, place_, std::move(source), arena_, workspace_));
        for (std::size_t i = 0; i < state_->outputs.size(); ++i) {
            const std::size_t bytes = bound->outputs[i].bytes;
            if (bytes <= staged_out_[i].size()) continue;
            // Graphs of other shapes copy to the old memory.
            LATHE_CHECK(stream_.synchronize("waiting for the last run"));
            bound_ = LruCache<std::string, std::unique_ptr<Bound>>(bound_plans);
            state_->staging.give(std::exchange(staged_out_[i], PinnedMemory()));
            LATHE_TRY(staged_out_[i], state_->staging.take(grown(bytes), "output " + state_->outputs[i].name));
        }
        const std::size_t counts = bound->counts.size() * sizeof(std::int64_t);
        if (counts > staged_counts_.size()) {
            LATHE_CHECK(stream_.synchronize("waiting for the last run"));
            bound_ = LruCache<std::string, std::unique_ptr<Bound>>(bound_plans);
            state_->staging.give(std::exchange(staged_counts_, PinnedMemory()));
            LATHE_TRY(staged_counts_, state_->staging.take(grown(counts), "the numbers of rows"));
        }
        return bound;
    }

    Result<void> find_bound() {
        if (current_ != nullptr) return {};
        std::vector<Shape> shapes;
        for (std::size_t i = 0; i < shapes_.size(); ++i) {
            if (!shapes_[i]) return Error{ErrorCode::invalid_argument, "input was not set", state_->inputs[i].name, ""};
            shapes.push_back(*shapes_[i]);
        }
        if (!state_->covers(shapes)) {
            return Error{ErrorCode::out_of_range, "no profile of the engine has " + shapes_text(shapes), "",
                         "rebuild with a --shape that covers them together"};
        }
        const std::string key = shapes_key(shapes, values_);
        if (auto* found = bound_.find(key)) {
            current_ = found->get();
            return {};
        }
        LATHE_TRY(auto bound, bind(shapes));
        current_ = bound_.insert(key, std::move(bound)).get();
        return {};
    }

    Result<void> copy_in() const {
        for (std::size_t i = 0; i < current_->inputs.size(); ++i) {
            const Port& port = current_->inputs[i];
            if (port.bytes == 0) continue;
            if (from_device_[i] != nullptr) {
                LATHE_CUDA(
                    cudaMemcpyAsync(port.device, from_device_[i], port.bytes, cudaMemcpyDeviceToDevice, stream_.get()),
                    "copying an input");
            } else {
                LATHE_CUDA(cudaMemcpyAsync(port.device, staged_in_[i].data(), port.bytes, cudaMemcpyHostToDevice,
                                           stream_.get()),
                           "copying an input to the GPU");
            }
        }
        return {};
    }

    /// Outputs have as many rows as the model counted. What was kept between its runs moves together.
    Result<void> cut_outputs() {
        const Plan& plan = current_->source->plan;
        cut_.resize(plan.open.size());
        for (std::size_t i = 0; i < plan.open.size(); ++i) {
            const auto [output, axis] = plan.open[i];
            std::int64_t count = 0;
            std::memcpy(&count, staged_counts_.data() + i * sizeof count, sizeof count);
            const Port& port = current_->outputs[output];
            cut_[i] = port.shape;
            cut_rows(std::span(staged_out_[output].data(), port.bytes), byte_size(state_->outputs[output].type, 1),
                     cut_[i], axis, count);
        }
        return {};
    }

    /// Of an output of the last run; outputs with a fixed length have the plan's.
    const Shape& shape_of(std::size_t output) const {
        const auto& open = current_->source->plan.open;
        for (std::size_t i = 0; i < open.size() && i < cut_.size(); ++i)
            if (open[i].output == output) return cut_[i];
        return current_->outputs[output].shape;
    }

    Result<void> copy_out() const {
        for (std::size_t i = 0; i < current_->counts.size(); ++i) {
            LATHE_CUDA(cudaMemcpyAsync(staged_counts_.data() + i * sizeof(std::int64_t), current_->counts[i],
                                       sizeof(std::int64_t), cudaMemcpyDeviceToHost, stream_.get()),
                       "copying the number of rows from the GPU");
        }
        for (std::size_t i = 0; i < current_->outputs.size(); ++i) {
            const Port& port = current_->outputs[i];
            if (port.bytes == 0) continue;
            LATHE_CUDA(
                cudaMemcpyAsync(staged_out_[i].data(), port.device, port.bytes, cudaMemcpyDeviceToHost, stream_.get()),
                "copying an output from the GPU");
        }
        return {};
    }

    Result<void> make_graphs() {
        const bool apart = split();
        if (apart ? static_cast<bool>(current_->compute) : static_cast<bool>(current_->whole)) return {};
        // Modules load at their first launch and libraries make a handle for each thread, neither of which may happen
        // while a graph is recorded.
        LATHE_CHECK(copy_in());
        LATHE_CHECK(current_->enqueue_kernels(stream_.get()));
        LATHE_CHECK(stream_.synchronize("running the model"));
        if (apart) {
            LATHE_TRY(current_->compute,
                      Graph::capture(
                          stream_, [&] { return current_->enqueue_kernels(stream_.get()); }, "recording the model"));
            return {};
        }
        LATHE_TRY(current_->whole, Graph::capture(
                                       stream_,
                                       [&]() -> Result<void> {
                                           LATHE_CHECK(copy_in());
                                           LATHE_CHECK(current_->enqueue_kernels(stream_.get()));
                                           return copy_out();
                                       },
                                       "recording the model"));
        return {};
    }

    /// Copies are not part of the graph: they are timed apart, or come from memory that is not ours.
    bool split() const {
        return timing_ ||
               std::any_of(from_device_.begin(), from_device_.end(), [](void* data) { return data != nullptr; });
    }

    Result<void> enqueue() {
        const auto begin = Clock::now();
        LATHE_CHECK(select());
        LATHE_CHECK(find_bound());
        LATHE_CHECK(make_graphs());
        if (!split()) {
            LATHE_CHECK(launch(current_->whole));
        } else {
            if (timing_) LATHE_CHECK(marks_[0].record(stream_));
            LATHE_CHECK(copy_in());
            if (timing_) LATHE_CHECK(marks_[1].record(stream_));
            LATHE_CHECK(launch(current_->compute));
            if (timing_) LATHE_CHECK(marks_[2].record(stream_));
            LATHE_CHECK(copy_out());
            if (timing_) LATHE_CHECK(marks_[3].record(stream_));
        }
        timed_ = timing_;
        LATHE_CHECK(done_.record(stream_));
        enqueue_us_ = microseconds_since(begin);
        return {};
    }

    Result<void> launch(const Graph& graph) {
        const auto begin = Clock::now();
        LATHE_CHECK(graph.launch(stream_));
        graph_launch_us_ = microseconds_since(begin);
        return {};
    }

    std::shared_ptr<EngineState> state_;
    std::size_t place_; ///< in state_->devices
    Stream stream_;
    Event done_;
    std::array<Event, 4> marks_;
    DeviceMemory arena_, workspace_;
    LruCache<std::string, std::unique_ptr<Bound>> bound_;
    Bound* current_ = nullptr; ///< for shapes_; nullptr: to be found
    std::vector<std::optional<Shape>> shapes_;
    std::vector<void*> from_device_;
    std::vector<bool> deciding_;     ///< whether an input's value decides shapes
    InputValues values_;             ///< of those that have another value than the engine was built for
    std::vector<DeviceMemory> kept_; ///< of keep_input and keep_pictures
    PictureStage pictures_;
    std::vector<PinnedMemory> staged_in_, staged_out_;
    PinnedMemory staged_counts_; ///< one an open output
    std::vector<Shape> cut_;     ///< of the last run, by open output
    std::unique_ptr<ThreadPool> copiers_;
    std::optional<Error> lost_;
    bool running_ = false, timing_ = false, timed_ = false;
    double enqueue_us_ = 0, graph_launch_us_ = 0; ///< of the last start
};

} // namespace

Result<std::unique_ptr<BackendSession>> make_cuda_session(std::shared_ptr<EngineState> state,
                                                          std::optional<std::size_t> device) {
    const std::size_t number = state->sessions.fetch_add(1);
    const std::size_t place = device.value_or(number % state->devices.size());
    auto session = std::make_unique<CudaSession>(std::move(state), place);
    LATHE_CHECK(session->open());
    return std::unique_ptr<BackendSession>(std::move(session));
}

} // namespace lathe::cuda
