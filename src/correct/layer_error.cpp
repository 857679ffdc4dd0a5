#include "correct/layer_error.hpp"

#include <algorithm>
#include <cstring>

#include "correct/run.hpp"

namespace lathe {
namespace {

Batches one_batch(const std::string& name, Shape shape, std::span<const float> values) {
    HostTensor tensor(name, DataType::float32, std::move(shape));
    std::memcpy(tensor.bytes.data(), values.data(), values.size_bytes());
    Batches batches;
    batches.push_back(std::move(tensor));
    return batches;
}

class Products {
public:
    Products() {
        model_.ir_version = 8;
        model_.opsets[""] = 17;
        model_.graph.name = "products";
    }
    std::string turned(const std::string& value) {
        Node& node = add("Transpose", {value});
        node.set("perm", std::vector<std::int64_t>{0, 2, 1});
        return node.outputs.front();
    }
    std::string product(const std::string& left, const std::string& right) {
        return add("MatMul", {left, right}).outputs.front();
    }
    void output(const std::string& value) {
        ValueInfo info;
        info.name = value;
        info.type = DataType::float32;
        model_.graph.outputs.push_back(std::move(info));
    }
    Model take() { return std::move(model_); }

private:
    Node& add(const char* type, std::vector<std::string> inputs) {
        Node node;
        node.op_type = type;
        node.inputs = std::move(inputs);
        node.outputs = {"v" + std::to_string(count_++)};
        return model_.graph.add(std::move(node));
    }
    Model model_;
    int count_ = 0;
};

/// Mean over the positions of rows [groups, positions, depth].
std::vector<double> mean_of(std::span<const float> rows, std::size_t groups, std::size_t positions, std::size_t depth) {
    std::vector<double> mean(groups * depth, 0.0);
    for (std::size_t g = 0; g < groups; ++g) {
        for (std::size_t n = 0; n < positions; ++n) {
            const float* row = &rows[(g * positions + n) * depth];
            for (std::size_t k = 0; k < depth; ++k)
                mean[g * depth + k] += static_cast<double>(row[k]);
        }
    }
    for (double& each : mean)
        each /= static_cast<double>(std::max<std::size_t>(1, positions));
    return mean;
}

} // namespace

Result<LayerError> measure_layer(const LinearLayer& layer, LayerRows rows, std::span<const float> weight,
                                 std::span<const float> change, double damping, std::size_t threads) {
    const std::size_t depth = layer.depth;
    LayerError error;
    const std::vector<double> mean_quantized = mean_of(rows.quantized, layer.groups, rows.positions, depth);
    const std::vector<double> mean_real = mean_of(rows.real, layer.groups, rows.positions, depth);

    // Centred rows make the products covariances: the bias takes the mean.
    for (std::size_t g = 0; g < layer.groups; ++g) {
        for (std::size_t n = 0; n < rows.positions; ++n) {
            const std::size_t at = (g * rows.positions + n) * depth;
            for (std::size_t k = 0; k < depth; ++k) {
                const auto real = static_cast<double>(rows.real[at + k]) - mean_real[g * depth + k];
                const auto quantized = static_cast<double>(rows.quantized[at + k]) - mean_quantized[g * depth + k];
                rows.quantized[at + k] = static_cast<float>(quantized);
                rows.real[at + k] = static_cast<float>(real - quantized);
            }
        }
    }
    Products products;
    const std::string inputs_turned = products.turned("quantized");
    const std::string hessian = products.product(inputs_turned, "quantized");
    const std::string came = products.product("difference", products.turned("weight"));
    products.output(hessian);
    products.output(products.product(products.turned(came), "quantized"));
    products.output(products.product("change", hessian));
    const auto groups = static_cast<std::int64_t>(layer.groups);
    const Shape row_shape{groups, static_cast<std::int64_t>(rows.positions), static_cast<std::int64_t>(depth)};
    const Shape weight_shape{groups, static_cast<std::int64_t>(layer.outputs), static_cast<std::int64_t>(depth)};
    const Batches quantized = one_batch("quantized", row_shape, rows.quantized);
    const Batches difference = one_batch("difference", row_shape, rows.real);
    rows = {};
    const Batches weights = one_batch("weight", weight_shape, weight);
    const Batches changes = one_batch("change", weight_shape, change);
    LATHE_TRY(std::vector<Batches> found,
              run_batches(
                  products.take(),
                  {{"quantized", &quantized}, {"difference", &difference}, {"weight", &weights}, {"change", &changes}},
                  threads));
    const auto scaled = [&](const Batches& batches) {
        const std::span<const float> values = batches.front().as<float>();
        std::vector<float> result(values.begin(), values.end());
        const float factor = 1.0F / static_cast<float>(row_shape[1]);
        for (float& value : result)
            value *= factor;
        return result;
    };
    error.hessian = scaled(found[0]);
    error.pull = scaled(found[1]);
    error.gradient = scaled(found[2]);
    for (std::size_t g = 0; g < layer.groups; ++g) {
        float* const h = &error.hessian[g * depth * depth];
        double trace = 0.0;
        for (std::size_t k = 0; k < depth; ++k)
            trace += static_cast<double>(h[k * depth + k]);
        const auto added = static_cast<float>(damping * trace / static_cast<double>(depth));
        for (std::size_t k = 0; k < depth; ++k)
            h[k * depth + k] += added;
        for (std::size_t i = g * layer.outputs * depth; i < (g + 1) * layer.outputs * depth; ++i)
            error.gradient[i] += added * change[i] - error.pull[i];
    }
    return error;
}

Result<std::vector<float>> layer_outputs(const LinearLayer& layer, std::span<const float> rows, std::size_t positions,
                                         std::span<const float> weight, std::size_t threads) {
    Products products;
    products.output(products.product("weight", products.turned("rows")));
    const auto groups = static_cast<std::int64_t>(layer.groups);
    const auto depth = static_cast<std::int64_t>(layer.depth);
    const Batches given = one_batch("rows", {groups, static_cast<std::int64_t>(positions), depth}, rows);
    const Batches weights = one_batch("weight", {groups, static_cast<std::int64_t>(layer.outputs), depth}, weight);
    LATHE_TRY(const std::vector<Batches> found,
              run_batches(products.take(), {{"rows", &given}, {"weight", &weights}}, threads));
    const std::span<const float> values = found.front().front().as<float>();
    return std::vector<float>(values.begin(), values.end());
}

} // namespace lathe
