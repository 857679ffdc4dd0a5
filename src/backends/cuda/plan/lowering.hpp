#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "backends/cuda/plan/ir.hpp"
#include "backends/cuda/plan/lower.hpp"
#include "backends/cuda/plan/rows.hpp"
#include "graph/graph.hpp"

namespace lathe::cuda {

/// A constant of the model. `tensor` is nullptr for a large one after load: then only its packings exist.
struct Constant {
    std::string name;
    DataType type = DataType::undefined;
    Shape shape;
    const Tensor* tensor = nullptr;
    bool large = false;

    std::int64_t count() const { return element_count(shape); }
    /// What its packings are called: the name, for small ones with a digest, since folding may give the same name
    /// another content for other shapes.
    std::string key() const;
};

/// Weights of a convolution or matrix product: floats, or symmetric int8 with scales (of one element, or along `axis`).
struct Filter {
    Constant values;
    std::optional<Constant> scales;
    std::int64_t axis = 0;
};

/// How int8 stands for real numbers: scale * (stored - zero_point).
struct Grid {
    float scale = 1;
    std::int32_t zero_point = 0;
};

/// What is fused behind a convolution or matrix product.
struct Tail {
    std::vector<Node*> nodes;
    std::string end;                  ///< the value the op gives
    std::vector<Constant> bias_terms; ///< constants along the channels
    std::string residual;             ///< "" if none
    bool residual_last = false;       ///< it is added behind the activation
    Activation act = Activation::none;
    float low = 0, high = 0, alpha = 0;
    std::optional<float> output_scale; ///< `end` is then int8
    std::int32_t output_zero_point = 0;
};

/// An activation found behind a value: the nodes it is made of and where it ends.
struct ActivationMatch {
    Activation act = Activation::none;
    float low = 0, high = 0, alpha = 0;
    std::vector<Node*> nodes;
    std::string end;
};

struct AttentionPlans; // patterns/attention.cpp

/// What the number of rows of a bounded value is called in the plan.
inline std::string count_of_rows(const std::string& source) { return source + "/count"; }

/// The state of one lowering: a model whose shapes are all known turns into a plan, node by node. Patterns look forward
/// from the node at hand and mark what they take as done.
///
/// A value of the model may have several forms in the plan (types and layouts); DequantizeLinear gives its result the
/// form of its input. Ops ask for the form they need by `want`.
class Lowering {
public:
    Lowering(Prepared& prepared, Model model, std::size_t inputs);
    /// `cut`: outputs whose length is counted, see rows.hpp.
    Result<Plan> run(const std::vector<CutOutput>& cut = {});
    /// Every node that cannot be taken, and whose results others are then given as if from outside; see `survey`.
    Result<std::vector<Refusal>> refusals();

    // What is known of the model
    Graph& graph() { return model_.graph; }
    const Uses& uses() const { return *uses_; }
    std::int64_t opset() const { return opset_; }
    const Shape& dims(const std::string& value) const;
    DataType type_of(const std::string& value) const;
    std::optional<Constant> constant(const std::string& value) const;
    /// Numbers of a constant that is at hand (small, or before load).
    Result<std::vector<float>> floats(const Constant& constant) const;
    /// The same as `type` is to hold them: masks of attention scores that it lacks are clamped, and that is told.
    Result<std::vector<float>> floats_with_masks(const Constant& constant, ElementType type);
    std::optional<float> scalar(const std::string& value) const;
    std::optional<Filter> filter(const std::string& value) const;
    /// Scale and zero point of a Q or DQ node if it is int8 with one constant scale.
    std::optional<Grid> grid(const Node& node) const;
    /// Scale of a Q or DQ node if it is symmetric int8 with one scale.
    std::optional<float> symmetric_scale(const Node& node) const;
    /// The one node that reads the value, if it is no output and read once.
    Node* only_reader(const std::string& value) const;
    bool is_done(const Node* node) const { return done_.contains(node); }
    void mark(const Node* node) { done_.insert(node); }
    ElementType base() const { return base_; }
    bool tf32() const { return tf32_; }
    /// How values of this type of the model are stored; nothing for types the plan does not have.
    std::optional<ElementType> stored_type(DataType type) const;

    // Values of the plan
    /// Whether the value can be had now; brings in Q, DQ and constants on the way.
    bool ready(const std::string& value);
    const std::vector<ValueId>& forms(const std::string& value) { return forms_[value]; }
    /// The value's int8 form, if it has one.
    std::optional<ValueId> quantised_form(const std::string& value);
    /// The value in this form; adds a Reformat where there is none yet.
    Result<ValueId> want(const std::string& value, ElementType type, Layout layout);
    /// The value as floating point (or integers) in any layout: what it has, int8 dequantised.
    Result<ValueId> want_any(const std::string& value);
    Result<ValueId> want_linear(const std::string& value);
    /// A new value of the plan as a form of the model's value.
    ValueId make(const std::string& value, ElementType type, Shape dims, Layout layout, float scale = 1);
    /// Where an op may write the model's value: the output itself if nothing else reads it and the op can write its
    /// type (linear only), else an activation.
    ValueId make_result(const std::string& value, ElementType type, Layout layout, float scale = 1);
    void add_form(const std::string& value, ValueId id) { forms_[value].push_back(id); }
    /// `from`: the number of `of` with which it begins.
    ValueId make_alias(const std::string& value, ValueId of, Shape dims, Layout layout, std::int64_t from = 0);
    /// Same numbers in the same order under other sizes (Reshape and kin).
    Result<void> reshape(const std::string& from, const std::string& to);
    Plan& plan() { return plan_; }
    Value& value(ValueId id) { return plan_.values[id]; }

    /// Appends the op, marks its nodes.
    FusedOp& add(const Node& main, const std::vector<Node*>& nodes, OpDetail detail, std::vector<ValueId> inputs,
                 std::vector<ValueId> outputs, ElementType compute);

    // Weights
    using Packer = std::function<Result<std::vector<std::byte>>()>;
    Result<WeightId> store(const std::string& key, ElementType type, Shape dims, const Packer& pack);
    /// A vector of f32, padded with zeros to `padded`.
    Result<WeightId> store_vector(const std::string& key, std::int64_t padded,
                                  const std::function<Result<std::vector<float>>()>& make);
    /// A vector given as a value of these dims (f32), packed under `key`.
    Result<ValueId> vector_value(const std::string& key, Shape dims,
                                 const std::function<Result<std::vector<float>>()>& make);
    /// What is stored as a value of the plan, with the sizes that it is stored by.
    ValueId stored_value(WeightId weight);
    /// A constant as a value of the plan.
    Result<ValueId> constant_value(const Constant& constant, ElementType type);

    // Patterns
    /// What was found before the walk, to be emitted at other nodes.
    AttentionPlans& attentions() { return *attentions_; }
    void set_attentions(std::shared_ptr<AttentionPlans> found) { attentions_ = std::move(found); }
    std::optional<ActivationMatch> match_activation(const std::string& value) const;
    bool has_zero_point(const std::string& name);
    bool is_gate_of_products(const ActivationMatch& match, const Shape& shape) const;
    /// Follows single readers behind `start`. `channel_axis` counts from the front.
    /// `residual_last`: whether the operation can add one behind its activation.
    Tail follow(const std::string& start, std::size_t channel_axis, bool residual_last = false);

    /// A constant without the leading sizes along which it only repeats itself; at hand as long as the lowering is.
    Constant without_repeats(const Constant& constant);
    /// Some elements of a constant vector that is at hand, in the same way.
    Constant part_of(const Constant& constant, std::int64_t from, std::int64_t count);

    // An op's error
    static Error cannot(const Node& node, std::string why);

private:
    bool is_lost(const std::string& value);
    bool hand_over(const ValueInfo& info);
    Result<void> emit(Node& node);
    Result<void> check_reshapes() const;
    /// An activation of this type that lies as an output does, and that no other value is a part of.
    bool can_be_output(ValueId id, ElementType type) const;
    Result<void> finish_outputs(const std::vector<CutOutput>& cut);
    void remove_unread();
    bool bring(const std::string& value);

    Prepared& prepared_;
    Model model_;
    std::size_t inputs_;
    std::int64_t opset_ = 0;
    ElementType base_ = ElementType::f32;
    bool tf32_ = false;
    std::unique_ptr<Uses> uses_;
    std::unordered_set<const Node*> done_;
    std::unordered_set<std::string> lost_; ///< values that unsupported nodes would have given
    std::unordered_map<std::string, std::vector<ValueId>> forms_;
    std::unordered_map<std::string, Shape> dims_;
    std::unordered_map<std::string, DataType> types_;
    std::shared_ptr<AttentionPlans> attentions_;
    std::deque<Tensor> kept_;
    Plan plan_;
};

/// How nodes of one type are lowered. The function marks the nodes it takes.
using LoweringFunction = Result<void> (*)(Lowering& lowering, Node& node);
using LoweringTable = std::unordered_map<std::string_view, LoweringFunction>;
const LoweringTable& lowering_table();

// plan/patterns/*.cpp
void add_quantization(LoweringTable& table);
void add_convolution(LoweringTable& table);
void add_transposed_convolution(LoweringTable& table);
void add_gemm(LoweringTable& table);
void add_pooling(LoweringTable& table);
void add_normalization(LoweringTable& table);
void add_rotary(LoweringTable& table);
void add_recurrent(LoweringTable& table);
void add_movement(LoweringTable& table);
void add_embedding(LoweringTable& table);
void add_pointwise(LoweringTable& table);
void add_borders(LoweringTable& table);
void add_indexed(LoweringTable& table);

/// Elements a pixel takes in nhwc: channels rounded up to 16 bytes.
std::int64_t channel_stride(std::int64_t channels, ElementType type);

/// Result of a convolution's or matrix product's epilogue as the lowering decided it.
struct Finished {
    Epilogue epilogue;
    ElementType type = ElementType::f16; ///< of the result
    ValueId residual = none;
};
/// Scale, bias and residual of an op that computes acc = sum of products, with real value acc * input_scale *
/// filter scale: fills the epilogue for the tail's output type.
struct EpilogueRequest {
    /// Channels side by side that come from one filter: its scales (int8) and biases, each of one element or one a
    /// channel.
    struct Part {
        std::optional<Constant> scales;
        std::vector<Constant> biases;
        std::int64_t channels = 0;
        /// For int8 inputs with a zero point: the sum of each channel's weights as stored, and what names them.
        std::function<Result<std::vector<double>>()> sums;
        std::string sums_key;
    };
    std::vector<Part> parts;
    float bias_factor = 1;       ///< beta of a Gemm, for the parts' biases
    float factor = 1;            ///< alpha of a Gemm, times the input's scale for int8
    std::int32_t zero_point = 0; ///< of an int8 input
    std::int64_t channels = 0, padded = 0;
    Layout layout = Layout::nhwc;
    ElementType result = ElementType::f16; ///< of the result where the tail does not quantise
};
Result<Finished> finish_epilogue(Lowering& lowering, const EpilogueRequest& request, const Tail& tail);

} // namespace lathe::cuda
