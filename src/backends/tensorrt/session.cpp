#include "backends/tensorrt/session.hpp"

#include <algorithm>

#include "backends/api/tensorrt_layers.hpp"
#include "backends/cuda/device/cuda.hpp"
#include "backends/cuda/device/handles.hpp"
#include "backends/tensorrt/library.hpp"
#include "backends/tensorrt/messages.hpp"
#include "backends/tensorrt/refit.hpp"
#include "support/json.hpp"
#include "support/log.hpp"

namespace lathe::tensorrt {

/// Members are destroyed from the last: engine before runtime before plan.
class LoadedPlan {
public:
    std::shared_ptr<const Plan> plan;
    std::unique_ptr<nvinfer1::IRuntime> runtime;
    std::unique_ptr<nvinfer1::ICudaEngine> engine;
};

namespace {

Error failed(const std::string& what, const Capture& capture) {
    return {ErrorCode::unsupported, std::string(product_name) + " " + what + capture.because(), "--device tensorrt",
            ""};
}

std::size_t bytes_of(DataType type, const Shape& shape) {
    return byte_size(type, static_cast<std::size_t>(element_count(shape)));
}

/// Times that TensorRT tells after a run.
class LayerTimes final : public nvinfer1::IProfiler {
public:
    void reportLayerTime(char const* name, float milliseconds) noexcept override {
        LayerInfo layer;
        layer.name = name;
        layer.milliseconds = static_cast<double>(milliseconds);
        layers.push_back(std::move(layer));
    }
    std::vector<LayerInfo> layers;
};

/// One input or output: its memory on the device, and on the host for outputs.
struct Binding {
    TensorView given; ///< inputs: the caller's memory
    Shape shape;
    cuda::DeviceMemory device;
    cuda::PinnedMemory host;
};

class TensorRtSession final : public BackendSession {
public:
    TensorRtSession(std::shared_ptr<const LoadedPlan> loaded, std::unique_ptr<nvinfer1::IExecutionContext> context,
                    cuda::Stream stream)
        : loaded_(std::move(loaded)), context_(std::move(context)), stream_(std::move(stream)),
          inputs_(plan().inputs.size()), outputs_(plan().outputs.size()) {}

    ~TensorRtSession() override {
        // Its memory may still be in use by what was enqueued; a failure was told when it happened.
        static_cast<void>(stream_.synchronize("ending a session"));
    }

    Result<void> set_input(std::size_t index, const TensorView& view) override {
        const IoInfo& info = plan().inputs.at(index);
        if (view.type != info.type) {
            return Error{ErrorCode::invalid_argument,
                         "the input is " + to_string(info.type) + ", " + to_string(view.type) + " was given", info.name,
                         ""};
        }
        if (!info.range.contains(view.shape)) {
            return Error{ErrorCode::out_of_range,
                         "shape " + to_string(view.shape) + " is outside the engine's " + info.range.describe(),
                         info.name, "build the engine with a range that covers it"};
        }
        if (view.bytes.size() != bytes_of(view.type, view.shape)) {
            return Error{ErrorCode::invalid_argument, "the memory's size does not fit the shape", info.name, ""};
        }
        inputs_[index].given = view;
        return {};
    }

    Result<void> run() override {
        LATHE_CHECK(start());
        return wait();
    }

    Result<void> start() override {
        LATHE_CHECK(take_shapes());
        for (std::size_t i = 0; i < inputs_.size(); ++i) {
            const TensorView& view = inputs_[i].given;
            LATHE_CUDA(cudaMemcpyAsync(inputs_[i].device.data(), view.bytes.data(), view.bytes.size(),
                                       cudaMemcpyHostToDevice, stream_.get()),
                       "copying input " + plan().inputs[i].name);
        }
        LATHE_CHECK(enqueue());
        for (std::size_t i = 0; i < outputs_.size(); ++i) {
            LATHE_CUDA(cudaMemcpyAsync(outputs_[i].host.data(), outputs_[i].device.data(),
                                       bytes_of(plan().outputs[i].type, outputs_[i].shape), cudaMemcpyDeviceToHost,
                                       stream_.get()),
                       "copying output " + plan().outputs[i].name);
        }
        return {};
    }

    Result<void> wait() override { return stream_.synchronize("running a TensorRT engine"); }

    Result<TensorView> output(std::size_t index) override {
        const IoInfo& info = plan().outputs.at(index);
        const Binding& binding = outputs_[index];
        return TensorView{
            info.name, info.type, binding.shape, {binding.host.data(), bytes_of(info.type, binding.shape)}};
    }

    /// Runs the last inputs again, without the graph, since only then TensorRT times layers.
    Result<std::vector<LayerInfo>> profile() override {
        LATHE_CHECK(take_shapes());
        LayerTimes times;
        const Capture capture;
        context_->setProfiler(&times);
        const bool enqueued = context_->enqueueV3(stream_.get());
        const Result<void> done = wait();
        context_->setProfiler(nullptr);
        if (!enqueued) return failed("could not run the engine", capture);
        LATHE_CHECK(done);
        LATHE_TRY(const auto layers, inspected_layers(*loaded_));
        for (LayerInfo& layer : times.layers) {
            const auto found = std::ranges::find(layers, layer.name, &LayerInfo::name);
            if (found == layers.end()) continue;
            layer.type = found->type;
            layer.precision = found->precision;
            layer.implementation = found->implementation;
            layer.nodes = found->nodes;
        }
        return std::move(times.layers);
    }

private:
    const Plan& plan() const { return *loaded_->plan; }

    /// The first profile that all inputs lie in.
    Result<std::size_t> profile_for() const {
        for (std::size_t i = 0; i < plan().profiles.size(); ++i) {
            bool all = true;
            for (std::size_t j = 0; j < inputs_.size(); ++j)
                all = all && plan().profiles[i][j].contains(inputs_[j].given.shape);
            if (all) return i;
        }
        return Error{ErrorCode::out_of_range, "no profile of the engine covers the inputs' shapes together", "",
                     "build the engine with a profile that does"};
    }

    /// Binds the inputs' shapes and memory for them and the outputs, where anything changed.
    Result<void> take_shapes() {
        bool changed = !bound_;
        for (const Binding& input : inputs_)
            changed = changed || input.shape != input.given.shape;
        if (!changed) return {};
        bound_ = false;
        graph_ = cuda::Graph();
        runs_ = 0;
        const Capture capture;
        LATHE_TRY(const std::size_t profile, profile_for());
        if (profile != profile_) {
            if (!context_->setOptimizationProfileAsync(static_cast<std::int32_t>(profile), stream_.get()))
                return failed("does not take profile " + std::to_string(profile), capture);
            LATHE_CHECK(stream_.synchronize("changing the profile"));
            profile_ = profile;
        }
        for (std::size_t i = 0; i < inputs_.size(); ++i) {
            const IoInfo& info = plan().inputs[i];
            inputs_[i].shape = inputs_[i].given.shape;
            if (!context_->setInputShape(info.name.c_str(), dims_of(inputs_[i].shape)))
                return failed("does not take shape " + to_string(inputs_[i].shape) + " of " + info.name, capture);
            LATHE_CHECK(bind(inputs_[i], info));
        }
        for (std::size_t i = 0; i < outputs_.size(); ++i) {
            const IoInfo& info = plan().outputs[i];
            outputs_[i].shape = shape_of(context_->getTensorShape(info.name.c_str()));
            if (element_count(outputs_[i].shape) < 0) {
                return Error{ErrorCode::unsupported, "this output's size depends on the data", info.name,
                             "export the model so that its size follows from the inputs' shapes"};
            }
            LATHE_CHECK(bind(outputs_[i], info));
            const std::size_t bytes = bytes_of(info.type, outputs_[i].shape);
            if (outputs_[i].host.size() < bytes) {
                LATHE_TRY(outputs_[i].host, cuda::PinnedMemory::allocate(bytes, "output " + info.name));
            }
        }
        bound_ = true;
        return {};
    }

    Result<void> bind(Binding& binding, const IoInfo& info) {
        // TensorRT wants an address even for tensors without elements.
        const std::size_t bytes = std::max<std::size_t>(bytes_of(info.type, binding.shape), 1);
        if (binding.device.size() < bytes) {
            LATHE_TRY(binding.device, cuda::DeviceMemory::allocate(bytes, info.name));
        }
        const Capture capture;
        if (context_->setTensorAddress(info.name.c_str(), binding.device.data())) return {};
        return failed("does not take memory for " + info.name, capture);
    }

    Result<void> enqueue_once() {
        const Capture capture;
        if (context_->enqueueV3(stream_.get())) return {};
        return failed("could not run the engine", capture);
    }

    /// The first run for a shape is enqueued as it is: TensorRT prepares in it. The second is recorded as a CUDA graph,
    /// which then serves all until the shapes change. Engines that cannot be recorded are enqueued each time.
    Result<void> enqueue() {
        if (graph_) return graph_.launch(stream_);
        ++runs_;
        if (runs_ != 2 || !may_record_) return enqueue_once();
        auto recorded = cuda::Graph::capture(
            stream_, [&] { return enqueue_once(); }, "recording a TensorRT engine");
        if (!recorded) {
            log(LogLevel::warning, "runs without a CUDA graph: " + recorded.error().describe());
            may_record_ = false;
            return enqueue_once();
        }
        graph_ = std::move(recorded).value();
        return graph_.launch(stream_);
    }

    std::shared_ptr<const LoadedPlan> loaded_;
    std::unique_ptr<nvinfer1::IExecutionContext> context_;
    cuda::Stream stream_;
    std::vector<Binding> inputs_, outputs_;
    cuda::Graph graph_;
    std::size_t profile_ = 0, runs_ = 0;
    bool bound_ = false, may_record_ = true;
};

} // namespace

Result<std::shared_ptr<const LoadedPlan>> load_plan(std::shared_ptr<const Plan> plan) {
    LATHE_TRY(const cuda::Device device, cuda::device(0));
    LATHE_CUDA(cudaSetDevice(device.index), "choosing the GPU");
    auto loaded = std::make_shared<LoadedPlan>();
    loaded->plan = std::move(plan);
    LATHE_TRY(loaded->runtime, library().make_runtime());
    const std::optional<TensorRtOptions>& options = loaded->plan->options;
    // Such a plan holds the lean runtime of the version that built it.
    if (options && options->version_compatible) loaded->runtime->setEngineHostCodeAllowed(true);
    const Capture capture;
    loaded->engine.reset(
        loaded->runtime->deserializeCudaEngine(loaded->plan->bytes.data(), loaded->plan->bytes.size()));
    if (!loaded->engine) {
        Error error = failed("does not load the engine on " + device.name, capture);
        if (!options) error.hint = "an earlier Lathe made it and did not note how: build the engine again";
        return error;
    }
    if (lacks_weights(*loaded->plan, *loaded->engine)) LATHE_CHECK(give_weights_back(*loaded->plan, *loaded->engine));
    return std::shared_ptr<const LoadedPlan>(std::move(loaded));
}

Result<std::vector<LayerInfo>> inspected_layers(const LoadedPlan& loaded) {
    const std::unique_ptr<nvinfer1::IEngineInspector> inspector(loaded.engine->createEngineInspector());
    const char* text =
        inspector == nullptr ? nullptr : inspector->getEngineInformation(nvinfer1::LayerInformationFormat::kJSON);
    if (text == nullptr) return Error{ErrorCode::unsupported, "TensorRT does not tell the engine's layers", "", ""};
    LATHE_TRY(const Json json, parse_json(text, "TensorRT's inspector"));
    auto layers = layers_of_inspector(json);
    if (layers.empty()) return Error{ErrorCode::unsupported, "TensorRT's inspector tells no layers", "", ""};
    return layers;
}

Result<std::unique_ptr<BackendSession>> open_session(std::shared_ptr<const LoadedPlan> loaded) {
    LATHE_CUDA(cudaSetDevice(0), "choosing the GPU");
    LATHE_TRY(cuda::Stream stream, cuda::Stream::create());
    const Capture capture;
    // The engine is shared between threads, but making contexts is not const.
    std::unique_ptr<nvinfer1::IExecutionContext> context(loaded->engine->createExecutionContext());
    if (!context) return failed("gave no execution context", capture);
    return std::unique_ptr<BackendSession>(
        std::make_unique<TensorRtSession>(std::move(loaded), std::move(context), std::move(stream)));
}

} // namespace lathe::tensorrt
