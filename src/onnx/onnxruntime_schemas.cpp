#include "onnx/onnxruntime_schemas.hpp"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <onnx/defs/schema.h>
#include <onnx/defs/shape_inference.h>

namespace lathe {
namespace {

using Context = onnx::InferenceContext;
using Sizes = onnx::TensorShapeProto;
using Infer = onnx::InferenceFunction;

bool has_input(const Context& context, std::size_t index) {
    return index < context.getNumInputs() && context.getInputType(index) != nullptr;
}

void set_type(Context& context, std::size_t from, std::size_t output) {
    if (output < context.getNumOutputs() && has_input(context, from))
        onnx::propagateElemTypeFromInputToOutput(context, from, output);
}

void set_shape(Context& context, std::size_t output, const Sizes& shape) {
    if (output < context.getNumOutputs()) onnx::updateOutputShape(context, output, shape);
}

/// Sizes that nobody knows yet.
Sizes of_rank(int rank) {
    Sizes shape;
    for (int i = 0; i < rank; ++i)
        shape.add_dim();
    return shape;
}

std::int64_t attribute(const Context& context, const char* name, std::int64_t otherwise) {
    const onnx::AttributeProto* given = context.getAttribute(name);
    return given == nullptr ? otherwise : given->i();
}

void like(Context& context, std::size_t input, std::size_t output) {
    set_type(context, input, output);
    if (output < context.getNumOutputs() && onnx::hasInputShape(context, input))
        onnx::propagateShapeFromInputToOutput(context, input, output);
}

Infer same(std::vector<std::size_t> outputs = {0}) {
    return [outputs = std::move(outputs)](Context& context) {
        for (const std::size_t output : outputs)
            like(context, 0, output);
    };
}

/// The type of an input, and so many dimensions.
Infer ranked(std::size_t input, int rank) {
    return [=](Context& context) {
        set_type(context, input, 0);
        set_shape(context, 0, of_rank(rank));
    };
}

/// Of an input the type and the number of dimensions.
Infer as_many(std::size_t input) {
    return [=](Context& context) {
        set_type(context, input, 0);
        if (onnx::hasInputShape(context, input))
            set_shape(context, 0, of_rank(onnx::getInputShape(context, input).dim_size()));
    };
}

void product(Context& context) {
    set_type(context, 0, 0);
    if (!onnx::hasNInputShapes(context, 2)) return;
    const Sizes &a = onnx::getInputShape(context, 0), &b = onnx::getInputShape(context, 1);
    if (a.dim_size() < 2 || b.dim_size() < 2) return;
    Sizes shape = of_rank(std::max(a.dim_size(), b.dim_size()));
    const auto side = [](const Sizes& of, bool turned, bool batches, bool rows) {
        if (rows == turned) return of.dim(of.dim_size() - 1);
        return of.dim(batches ? 0 : of.dim_size() - 2);
    };
    *shape.mutable_dim(shape.dim_size() - 2) =
        side(a, attribute(context, "transA", 0) != 0, attribute(context, "transBatchA", 0) != 0, true);
    *shape.mutable_dim(shape.dim_size() - 1) =
        side(b, attribute(context, "transB", 0) != 0, attribute(context, "transBatchB", 0) != 0, false);
    set_shape(context, 0, shape);
}

/// A product with packed weights for N outputs.
void packed_product(Context& context) {
    set_type(context, 0, 0);
    if (!onnx::hasInputShape(context, 0)) return;
    Sizes shape = onnx::getInputShape(context, 0);
    if (shape.dim_size() == 0) return;
    shape.mutable_dim(shape.dim_size() - 1)->set_dim_value(attribute(context, "N", 0));
    set_shape(context, 0, shape);
}

void packed_gather(Context& context) {
    set_type(context, 2, 0);
    if (onnx::hasNInputShapes(context, 2))
        set_shape(context, 0,
                  of_rank(onnx::getInputShape(context, 0).dim_size() + onnx::getInputShape(context, 1).dim_size() - 1));
}

/// Rows of a batch as [batch, length, channels], and states of so many dimensions behind.
Infer attended(int states) {
    return [=](Context& context) {
        set_type(context, 0, 0);
        Sizes shape = of_rank(3);
        if (onnx::hasInputShape(context, 0)) {
            const Sizes& query = onnx::getInputShape(context, 0);
            for (int i = 0; i < 2 && i < query.dim_size(); ++i)
                *shape.mutable_dim(i) = query.dim(i);
        }
        set_shape(context, 0, shape);
        for (std::size_t i = 1; i < 3; ++i) {
            set_type(context, 0, i);
            set_shape(context, i, of_rank(states));
        }
    };
}

void embedded(Context& context) {
    for (const std::size_t output : {std::size_t{0}, std::size_t{2}}) {
        set_type(context, 2, output);
        Sizes shape = of_rank(3);
        if (onnx::hasInputShape(context, 0) && onnx::hasInputShape(context, 2)) {
            const Sizes &ids = onnx::getInputShape(context, 0), &table = onnx::getInputShape(context, 2);
            for (int i = 0; i < 2 && i < ids.dim_size(); ++i)
                *shape.mutable_dim(i) = ids.dim(i);
            if (table.dim_size() == 2) *shape.mutable_dim(2) = table.dim(1);
        }
        set_shape(context, output, shape);
    }
    if (context.getNumOutputs() > 1) {
        onnx::updateOutputElemType(context, 1, onnx::TensorProto::INT32);
        set_shape(context, 1, of_rank(1));
    }
}

void add(const char* domain, const char* name, int inputs, int outputs, Infer infer) {
    onnx::OpSchema schema;
    schema.SetName(name).SetDomain(domain).SinceVersion(1);
    schema.AllowUncheckedAttributes();
    for (int i = 0; i < inputs; ++i)
        schema.Input(i, "x" + std::to_string(i), "", "T" + std::to_string(i),
                     i == 0 ? onnx::OpSchema::Single : onnx::OpSchema::Optional);
    for (int i = 0; i < outputs; ++i)
        schema.Output(i, "y" + std::to_string(i), "", "U" + std::to_string(i),
                      i == 0 ? onnx::OpSchema::Single : onnx::OpSchema::Optional);
    for (int i = 0; i < inputs; ++i)
        schema.TypeConstraint("T" + std::to_string(i), onnx::OpSchema::all_tensor_types_ir13(), "");
    for (int i = 0; i < outputs; ++i)
        schema.TypeConstraint("U" + std::to_string(i), onnx::OpSchema::all_tensor_types_ir13(), "");
    schema.TypeAndShapeInferenceFunction(std::move(infer));
    onnx::RegisterSchema(std::move(schema), 0, false);
}

void register_all() {
    constexpr const char* microsoft = "com.microsoft";
    auto& domains = onnx::OpSchemaRegistry::DomainToVersionRange::Instance();
    if (!domains.Map().contains(microsoft)) domains.AddDomainToVersion(microsoft, 1, 1);
    // Its optimiser writes these into ONNX's own domain at any opset.
    add("", "LayerNormalization", 3, 3, same());
    add("", "SimplifiedLayerNormalization", 2, 2, same());
    add(microsoft, "Attention", 7, 2, attended(5));
    add(microsoft, "BiasAdd", 3, 1, same());
    add(microsoft, "BiasGelu", 2, 1, same());
    add(microsoft, "BiasSoftmax", 2, 1, same());
    add(microsoft, "BiasSplitGelu", 2, 1, as_many(0));
    add(microsoft, "EmbedLayerNormalization", 9, 3, embedded);
    add(microsoft, "FastGelu", 2, 1, same());
    add(microsoft, "FusedConv", 4, 1, as_many(0));
    add(microsoft, "FusedGemm", 3, 1, ranked(0, 2));
    add(microsoft, "FusedMatMul", 2, 1, product);
    add(microsoft, "GatherBlockQuantized", 4, 1, packed_gather);
    add(microsoft, "Gelu", 1, 1, same());
    add(microsoft, "GemmFastGelu", 3, 1, product);
    add(microsoft, "GridSample", 2, 1, as_many(0));
    add(microsoft, "GroupQueryAttention", 17, 4, attended(4));
    add(microsoft, "MatMulNBits", 6, 1, packed_product);
    add(microsoft, "MultiHeadAttention", 10, 4, attended(4));
    add(microsoft, "Pad", 3, 1, as_many(0));
    add(microsoft, "QAttention", 9, 2, [](Context& context) {
        attended(5)(context);
        for (const std::size_t output : {std::size_t{0}, std::size_t{1}})
            set_type(context, 3, output);
    });
    add(microsoft, "QuickGelu", 1, 1, same());
    add(microsoft, "RotaryEmbedding", 4, 1, same());
    add(microsoft, "SkipLayerNormalization", 5, 4, same({0, 3}));
    add(microsoft, "SkipSimplifiedLayerNormalization", 4, 4, same({0, 3}));
    add(microsoft, "TransposeMatMul", 2, 1, product);
    add(microsoft, "Trilu", 2, 1, same());
}

} // namespace

void know_onnxruntime_operators() {
    static std::once_flag once;
    std::call_once(once, register_all);
}

} // namespace lathe
