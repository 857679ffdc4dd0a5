#include "correct/layer_error.hpp"

#include <algorithm>
#include <array>

#include "support/thread_pool.hpp"

namespace lathe {
namespace {

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

/// Rows [groups, positions, depth], each column against its mean over the positions.
struct CentredRows {
    std::vector<float> quantized;
    std::vector<float> difference; ///< the real rows less the quantised ones
};

/// Centred rows make the products covariances: the bias takes the mean.
CentredRows centred(const LinearLayer& layer, const LayerRows& rows, std::size_t threads) {
    const std::size_t depth = layer.depth;
    CentredRows result{std::vector<float>(rows.quantized.size()), std::vector<float>(rows.quantized.size())};
    constexpr std::size_t most = 64; // columns a task
    const std::size_t blocks = (depth + most - 1) / most;
    const auto positions = static_cast<double>(std::max<std::size_t>(1, rows.positions));
    ThreadPool(threads).for_each(layer.groups * blocks, [&](std::size_t block) {
        const std::size_t first = block % blocks * most;
        const std::size_t count = std::min(most, depth - first);
        const std::size_t start = block / blocks * rows.positions * depth + first;
        std::array<double, most> real{};
        std::array<double, most> quantized{};
        for (std::size_t n = 0; n < rows.positions; ++n) {
            for (std::size_t k = 0; k < count; ++k) {
                real[k] += static_cast<double>(rows.real[start + n * depth + k]);
                quantized[k] += static_cast<double>(rows.quantized[start + n * depth + k]);
            }
        }
        for (std::size_t k = 0; k < count; ++k) {
            real[k] /= positions;
            quantized[k] /= positions;
        }
        for (std::size_t n = 0; n < rows.positions; ++n) {
            for (std::size_t k = 0; k < count; ++k) {
                const std::size_t at = start + n * depth + k;
                const double centre = static_cast<double>(rows.quantized[at]) - quantized[k];
                result.quantized[at] = static_cast<float>(centre);
                result.difference[at] = static_cast<float>(static_cast<double>(rows.real[at]) - real[k] - centre);
            }
        }
    });
    return result;
}

} // namespace

Result<LayerError> measure_layer(const LinearLayer& layer, const LayerRows& rows, std::span<const float> weight,
                                 std::span<const float> change, double damping, std::size_t threads) {
    const std::size_t depth = layer.depth;
    LayerError error;
    const CentredRows centre = centred(layer, rows, threads);
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
    LATHE_TRY(const std::vector<Batches> found, run_batches(products.take(),
                                                            {{"quantized", row_shape, centre.quantized},
                                                             {"difference", row_shape, centre.difference},
                                                             {"weight", weight_shape, weight},
                                                             {"change", weight_shape, change}},
                                                            {.threads = threads}));
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

Result<CompiledPart*> LayerProduct::part_for(const Shape& rows, const Shape& weight) {
    Product& product = products_[rows[0]];
    product.rows.resize(3, 1);
    product.weight.resize(3, 1);
    bool fits = product.part.has_value();
    for (std::size_t axis = 0; axis < 3; ++axis) {
        fits = fits && rows[axis] <= product.rows[axis] && weight[axis] <= product.weight[axis];
        product.rows[axis] = std::max(product.rows[axis], rows[axis]);
        product.weight[axis] = std::max(product.weight[axis], weight[axis]);
    }
    if (!fits) {
        Products graph;
        graph.output(graph.product("weight", graph.turned("rows")));
        const Shape least{rows[0], 1, 1};
        LATHE_TRY(product.part,
                  CompiledPart::compile(
                      graph.take(),
                      {{"rows", DataType::float32, ShapeRange{least, product.rows, product.rows}, "rows"},
                       {"weight", DataType::float32, ShapeRange{least, product.weight, product.weight}, "weight"}},
                      threads_));
    }
    return &*product.part;
}

Result<std::vector<float>> LayerProduct::operator()(const LinearLayer& layer, std::span<const float> rows,
                                                    std::size_t positions, std::span<const float> weight) {
    const auto groups = static_cast<std::int64_t>(layer.groups);
    const auto depth = static_cast<std::int64_t>(layer.depth);
    const Given left("rows", {groups, static_cast<std::int64_t>(positions), depth}, rows);
    const Given right("weight", {groups, static_cast<std::int64_t>(layer.outputs), depth}, weight);
    LATHE_TRY(CompiledPart * part, part_for(left.batches.front().shape, right.batches.front().shape));
    LATHE_CHECK(part->run({left.batches.front(), right.batches.front()}));
    LATHE_TRY(const TensorView found, part->output(0));
    const std::span<const float> values = found.as<float>();
    return std::vector<float>(values.begin(), values.end());
}

} // namespace lathe
