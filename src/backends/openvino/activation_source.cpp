#include "backends/openvino/activation_source.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include <openvino/op/op.hpp>
#include <openvino/op/ops.hpp>

#include "backends/openvino/core.hpp"
#include "backends/openvino/long_chains.hpp"
#include "support/thread_pool.hpp"

namespace lathe::openvino {

namespace {

struct Observed {
    bool is_input = false;
    std::size_t index = 0; ///< of the model input, or of OpenVINO's output
};

/// What the observing operations of a lane's run do with an output's values.
using Show = std::function<void(std::size_t output, std::span<const float> values, const Shape& shape)>;

/// One entry a lane; written only while nothing runs on that lane.
using Shows = std::vector<Show>;

/// Shows a tensor in the middle of the model while it runs. Against making the tensor an output of the model, that
/// saves a buffer of its own for every tensor, the reorder into it and the copy out of it: 10 ms of ResNet-50's 28 ms
/// an image. Its inputs are the tensor and the lane's number; its output says nothing but keeps it alive.
class Observe final : public ov::op::Op {
public:
    OPENVINO_OP("Observe", "lathe");
    Observe(const ov::Output<ov::Node>& values, const ov::Output<ov::Node>& lane, std::int64_t output, bool turned,
            std::shared_ptr<const Shows> shows)
        : Op({values, lane}), output_(output), turned_(turned), shows_(std::move(shows)) {
        constructor_validate_and_infer_types();
    }

    void validate_and_infer_types() override { set_output_type(0, ov::element::f32, ov::PartialShape{1}); }
    std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override {
        return std::make_shared<Observe>(inputs.at(0), inputs.at(1), output_, turned_, shows_);
    }
    bool visit_attributes(ov::AttributeVisitor& visitor) override {
        visitor.on_attribute("output", output_); // two of them are never one and the same
        return true;
    }
    bool can_constant_fold(const ov::OutputVector& /*inputs*/) const override { return false; }
    bool has_evaluate() const override { return true; }
    bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override {
        const auto lane = static_cast<std::size_t>(*inputs[1].data<const std::int32_t>());
        const ov::Shape& held = inputs[0].get_shape();
        shows_->at(lane)(static_cast<std::size_t>(output_), {inputs[0].data<const float>(), inputs[0].get_size()},
                         turned_ ? Shape{} : Shape(held.begin(), held.end()));
        *outputs[0].data<float>() = 0.0F;
        return true;
    }

private:
    std::int64_t output_ = 0;
    bool turned_ = false; ///< shown in another order than the tensor's own
    std::shared_ptr<const Shows> shows_;
};

/// Whether the CPU plugin will hold a tensor channels last: a convolution's result, up to the next change of shape.
bool comes_from_convolution(ov::Output<ov::Node> port) {
    const ov::Rank rank = port.get_partial_shape().rank();
    if (rank.is_dynamic() || rank.get_length() < 4) return false;
    while (port.get_partial_shape().rank() == rank) {
        const ov::Node* node = port.get_node();
        const std::string_view type = node->get_type_info().name;
        if (type.find("Convolution") != std::string_view::npos) return true;
        if (type == "Reshape" || type == "Transpose" || type == "MatMul" || node->get_input_size() == 0) return false;
        port = node->input_value(0);
    }
    return false;
}

/// The tensor in the order of its memory, so that showing it moves nothing.
ov::Output<ov::Node> as_held(const ov::Output<ov::Node>& port) {
    if (!comes_from_convolution(port)) return port;
    std::vector<std::int64_t> order{0};
    for (std::int64_t axis = 2; axis < port.get_partial_shape().rank().get_length(); ++axis)
        order.push_back(axis);
    order.push_back(1);
    const auto constant = ov::op::v0::Constant::create(ov::element::i64, {order.size()}, order);
    return std::make_shared<ov::op::v1::Transpose>(port, constant);
}

/// The model with an Observe in place of each output, and with the lane's number as its last input.
std::shared_ptr<ov::Model> with_observers(const ov::Model& model, const std::shared_ptr<const Shows>& shows) {
    const auto lane = std::make_shared<ov::op::v0::Parameter>(ov::element::i32, ov::PartialShape{1});
    ov::ResultVector results;
    for (const auto& result : model.get_results()) {
        const ov::Output<ov::Node> port = result->input_value(0);
        const auto observe = std::make_shared<Observe>(as_held(port), lane, static_cast<std::int64_t>(results.size()),
                                                       comes_from_convolution(port), shows);
        results.push_back(std::make_shared<ov::op::v0::Result>(observe));
    }
    ov::ParameterVector parameters = model.get_parameters();
    parameters.push_back(lane);
    return std::make_shared<ov::Model>(results, parameters);
}

/// The model compiled for one set of input shapes.
struct Form {
    std::vector<Shape> shapes;
    ov::CompiledModel compiled;
    std::vector<ov::InferRequest> requests; ///< one a lane
};

Result<void> check_float(const ov::element::Type& type, const std::string& tensor) {
    if (type == ov::element::f32 || type.is_dynamic()) return {};
    return Error{ErrorCode::invalid_argument, "tensor is " + type.get_type_name() + ", not float32", tensor,
                 "observe floating-point tensors only"};
}

class Source final : public ActivationSource {
public:
    Source(std::vector<std::string> tensors, std::vector<Observed> observed, std::vector<ValueInfo> inputs,
           std::vector<std::size_t> ports, const std::shared_ptr<ov::Model>& model, std::size_t threads)
        : tensors_(std::move(tensors)), observed_(std::move(observed)), inputs_(std::move(inputs)),
          ports_(std::move(ports)), threads_(threads), shows_(std::make_shared<Shows>(1)),
          shown_by_(model->outputs().size()), model_(with_observers(*model, shows_)) {
        for (std::size_t t = 0; t < observed_.size(); ++t) {
            if (!observed_[t].is_input) shown_by_[observed_[t].index].push_back(t);
        }
    }

    const std::vector<std::string>& tensors() const override { return tensors_; }

    std::size_t set_lanes(std::size_t most) override {
        constexpr std::size_t sensible = 16; // a lane holds the activations of a batch
        const std::size_t lanes = std::clamp<std::size_t>(std::min(most, sensible), 1, threads_);
        if (lanes != shows_->size()) {
            shows_->resize(lanes);
            forms_.clear();
        }
        return lanes;
    }

    Result<void> run(std::size_t lane, std::span<const TensorView> inputs, const Observer& observer) override {
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
        for (std::size_t t = 0; t < observed_.size(); ++t) {
            if (!observed_[t].is_input) continue;
            const TensorView& input = inputs[observed_[t].index];
            LATHE_CHECK(check_float(element_type(input.type), tensors_[t]));
            observer(t, input.as<const float>(), input.shape);
        }
        if (std::ranges::all_of(shown_by_, [](const auto& shown) { return shown.empty(); })) return {};
        shows_->at(lane) = [&](std::size_t output, std::span<const float> values, const Shape& shape) {
            for (const std::size_t tensor : shown_by_[output])
                observer(tensor, values, shape);
        };
        return guarded("running the model for calibration failed", "openvino", [&]() -> Result<void> {
            const std::shared_ptr<Form> form = form_for(shapes);
            ov::InferRequest& request = form->requests[lane];
            for (std::size_t i = 0; i < inputs.size(); ++i) {
                if (ports_[i] == unread) continue;
                const ov::Shape shape(inputs[i].shape.begin(), inputs[i].shape.end());
                request.set_input_tensor(ports_[i],
                                         ov::Tensor(element_type(inputs[i].type), shape, inputs[i].bytes.data()));
            }
            auto number = static_cast<std::int32_t>(lane);
            request.set_input_tensor(model_->inputs().size() - 1, ov::Tensor(ov::element::i32, {1}, &number));
            run_and_wait(request);
            return {};
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

    /// Whether the model reads sequences of any length. Then one form serves all: compiling one a length would take
    /// longer than the runs. (Pictures of free size are mostly all of one size, which a static form runs faster.)
    bool reads_sequences() const {
        return std::ranges::any_of(inputs_, [](const ValueInfo& input) {
            return input.dims && input.dims->size() == 2 && !input.dims->back().size;
        });
    }

    /// One static form a set of input shapes: a calibration has one batch size and perhaps a smaller last batch.
    std::shared_ptr<Form> form_for(const std::vector<Shape>& shapes) {
        const std::lock_guard lock(mutex_);
        for (const auto& form : forms_) {
            if (form->shapes == shapes || reads_sequences()) return form;
        }
        constexpr std::size_t kept = 3;
        if (forms_.size() >= kept) forms_.erase(forms_.begin());
        const std::shared_ptr<ov::Model> model = model_->clone();
        std::map<std::size_t, ov::PartialShape> partial;
        for (std::size_t i = 0; i < shapes.size(); ++i) {
            if (ports_[i] == unread) continue;
            partial[ports_[i]] = ov::PartialShape(std::vector<ov::Dimension>(shapes[i].begin(), shapes[i].end()));
        }
        if (!reads_sequences()) model->reshape(partial);
        auto form = std::make_shared<Form>();
        form->shapes = shapes;
        const std::size_t lanes = shows_->size();
        form->compiled = compile_on_cpu(model, properties(Precision::float32, lanes, threads_, false));
        for (std::size_t lane = 0; lane < lanes; ++lane)
            form->requests.push_back(form->compiled.create_infer_request());
        forms_.push_back(form);
        return form;
    }

    std::vector<std::string> tensors_;
    std::vector<Observed> observed_;
    std::vector<ValueInfo> inputs_;
    std::vector<std::size_t> ports_;
    std::size_t threads_;
    std::shared_ptr<Shows> shows_;
    std::vector<std::vector<std::size_t>> shown_by_; ///< positions in tensors_, an OpenVINO output an entry
    std::shared_ptr<ov::Model> model_;
    std::mutex mutex_;
    std::vector<std::shared_ptr<Form>> forms_;
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
        if (added) watched.graph.outputs.push_back(model.graph.info_or_name(name));
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
                LATHE_CHECK(check_float(outputs[observed[t].index].get_element_type(), tensors[t]));
            }
            return std::unique_ptr<ActivationSource>(
                std::make_unique<Source>(std::move(tensors), std::move(observed), std::move(inputs), std::move(ports),
                                         std::move(converted), threads > 0 ? threads : available_cores()));
        });
}

} // namespace lathe::openvino
