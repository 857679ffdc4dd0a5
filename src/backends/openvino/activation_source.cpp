#include "backends/openvino/activation_source.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "backends/openvino/core.hpp"
#include "support/thread_pool.hpp"

namespace lathe::openvino {

namespace {

struct Observed {
    bool is_input = false;
    std::size_t index = 0; ///< of the model input, or of OpenVINO's output
};

class Source final : public ActivationSource {
public:
    Source(std::vector<std::string> tensors, std::vector<Observed> observed, std::vector<ValueInfo> inputs,
           std::vector<std::size_t> ports, std::shared_ptr<ov::Model> model, std::size_t threads)
        : tensors_(std::move(tensors)), observed_(std::move(observed)), inputs_(std::move(inputs)),
          ports_(std::move(ports)), model_(std::move(model)), threads_(threads) {}

    const std::vector<std::string>& tensors() const override { return tensors_; }

    Result<std::vector<TensorView>> run(std::span<const TensorView> inputs) override {
        if (inputs.size() != inputs_.size()) {
            return Error{ErrorCode::invalid_argument,
                         "the model has " + std::to_string(inputs_.size()) + " inputs, " +
                             std::to_string(inputs.size()) + " were given",
                         "", ""};
        }
        std::vector<Shape> shapes;
        for (std::size_t i = 0; i < inputs.size(); ++i) {
            LATHE_CHECK(check_input(inputs_[i], inputs[i]));
            shapes.push_back(inputs[i].shape);
        }
        return guarded("running the model for calibration failed", "openvino",
                       [&]() -> Result<std::vector<TensorView>> {
                           ov::InferRequest& request = request_for(shapes);
                           for (std::size_t i = 0; i < inputs.size(); ++i) {
                               if (ports_[i] == unread) continue;
                               const ov::Shape shape(inputs[i].shape.begin(), inputs[i].shape.end());
                               request.set_input_tensor(
                                   ports_[i], ov::Tensor(element_type(inputs[i].type), shape, inputs[i].bytes.data()));
                           }
                           if (!model_->outputs().empty()) request.infer();
                           return views(request, inputs);
                       });
    }

private:
    static Result<void> check_input(const ValueInfo& wanted, const TensorView& given) {
        const std::int64_t count = element_count(given.shape);
        const bool rank_fits = !wanted.dims || wanted.dims->size() == given.shape.size();
        if (given.type != wanted.type || !rank_fits || count < 0 ||
            given.bytes.size() != byte_size(given.type, static_cast<std::size_t>(count))) {
            return Error{ErrorCode::invalid_argument,
                         "input is " + to_string(given.type) + " " + to_string(given.shape) + ", the model wants " +
                             to_string(wanted.type) +
                             (wanted.shape() ? " " + to_string(*wanted.shape()) : std::string()),
                         wanted.name, ""};
        }
        return {};
    }

    /// One static form a set of input shapes: a calibration has one batch size and perhaps a smaller last batch.
    ov::InferRequest& request_for(const std::vector<Shape>& shapes) {
        for (auto& [known, request] : requests_) {
            if (known == shapes) return request;
        }
        constexpr std::size_t kept = 3;
        if (requests_.size() >= kept) requests_.erase(requests_.begin());
        const std::shared_ptr<ov::Model> model = model_->clone();
        std::map<std::size_t, ov::PartialShape> partial;
        for (std::size_t i = 0; i < shapes.size(); ++i) {
            if (ports_[i] == unread) continue;
            partial[ports_[i]] = ov::PartialShape(std::vector<ov::Dimension>(shapes[i].begin(), shapes[i].end()));
        }
        model->reshape(partial);
        ov::CompiledModel compiled =
            core().compile_model(model, "CPU", properties(Precision::float32, 1, threads_, false));
        requests_.emplace_back(shapes, compiled.create_infer_request());
        return requests_.back().second;
    }

    Result<std::vector<TensorView>> views(ov::InferRequest& request, std::span<const TensorView> inputs) const {
        std::vector<TensorView> list;
        for (std::size_t t = 0; t < observed_.size(); ++t) {
            if (observed_[t].is_input) {
                list.push_back(inputs[observed_[t].index]);
                list.back().name = tensors_[t];
                continue;
            }
            ov::Tensor tensor = request.get_output_tensor(observed_[t].index);
            if (tensor.get_element_type() != ov::element::f32) {
                return Error{ErrorCode::invalid_argument,
                             "tensor is " + tensor.get_element_type().get_type_name() + ", not float32", tensors_[t],
                             "observe floating-point tensors only"};
            }
            const ov::Shape& shape = tensor.get_shape();
            list.push_back({tensors_[t],
                            DataType::float32,
                            Shape(shape.begin(), shape.end()),
                            {static_cast<std::byte*>(tensor.data()), tensor.get_byte_size()}});
        }
        return list;
    }

    std::vector<std::string> tensors_;
    std::vector<Observed> observed_;
    std::vector<ValueInfo> inputs_;
    std::vector<std::size_t> ports_;
    std::shared_ptr<ov::Model> model_;
    std::size_t threads_;
    std::vector<std::pair<std::vector<Shape>, ov::InferRequest>> requests_;
};

} // namespace

Result<std::unique_ptr<ActivationSource>> make_activation_source(const Model& model, std::vector<std::string> tensors,
                                                                 std::size_t threads) {
    Model watched = model;
    watched.graph.outputs.clear();
    std::vector<ValueInfo> inputs;
    for (const auto& input : model.graph.inputs) {
        if (model.graph.initializer(input.name) == nullptr) inputs.push_back(input);
    }
    std::unordered_set<std::string> computed;
    for (const auto& node : model.graph.nodes)
        computed.insert(node->outputs.begin(), node->outputs.end());
    std::vector<Observed> observed;
    std::unordered_map<std::string, std::size_t> output_of;
    for (const auto& name : tensors) {
        const auto input =
            std::find_if(inputs.begin(), inputs.end(), [&](const ValueInfo& info) { return info.name == name; });
        if (input != inputs.end()) {
            observed.push_back({true, static_cast<std::size_t>(input - inputs.begin())});
            continue;
        }
        if (name.empty() || !computed.contains(name)) {
            return Error{ErrorCode::not_found, "the model computes no tensor of this name", name,
                         "see `lathe inspect` for the names"};
        }
        const auto [entry, added] = output_of.emplace(name, watched.graph.outputs.size());
        if (added) {
            ValueInfo info = model.graph.info(name).value_or(ValueInfo{});
            info.name = name;
            watched.graph.outputs.push_back(std::move(info));
        }
        observed.push_back({false, entry->second});
    }
    // OpenVINO wants an output even if only inputs are observed.
    if (watched.graph.outputs.empty()) watched.graph.outputs = model.graph.outputs;
    LATHE_TRY(std::shared_ptr<ov::Model> converted, to_openvino(watched));
    return guarded(
        "OpenVINO cannot show these tensors", model.graph.name, [&]() -> Result<std::unique_ptr<ActivationSource>> {
            std::vector<std::string> names;
            for (const auto& input : inputs)
                names.push_back(input.name);
            LATHE_TRY(std::vector<std::size_t> ports, input_ports_of(converted->inputs(), names));
            const auto outputs = converted->outputs();
            for (std::size_t t = 0; t < tensors.size(); ++t) {
                if (observed[t].is_input) continue;
                // OpenVINO keeps the order of outputs; two names of one value share a port.
                if (outputs.size() != watched.graph.outputs.size() ||
                    !outputs[observed[t].index].get_names().contains(tensors[t])) {
                    const auto at = std::find_if(outputs.begin(), outputs.end(), [&](const auto& port) {
                        return port.get_names().contains(tensors[t]);
                    });
                    if (at == outputs.end()) {
                        return Error{ErrorCode::unsupported, "OpenVINO dropped this tensor", tensors[t],
                                     "simplify the model first: lathe simplify"};
                    }
                    observed[t].index = static_cast<std::size_t>(at - outputs.begin());
                }
            }
            return std::unique_ptr<ActivationSource>(
                std::make_unique<Source>(std::move(tensors), std::move(observed), std::move(inputs), std::move(ports),
                                         std::move(converted), threads > 0 ? threads : available_cores()));
        });
}

} // namespace lathe::openvino
