#pragma once

#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "conformance/cases.hpp"
#include "graph/graph.hpp"
#include "lathe/result.hpp"
#include "onnx/proto.hpp"
#include "support/files.hpp"
#include "support/json.hpp"

namespace lathe::test {

struct Tolerance {
    double relative = 1e-3;
    double absolute = 1e-7;
    double of_largest = 0; ///< of the largest recorded magnitude, beside the others
};

inline Tolerance tolerance_of(const Case& each) {
    Tolerance tolerance;
    // A transform adds up all of its input: what is recorded as 0 is as exact as its largest output.
    if (each.folder.filename().string().starts_with("test_dft")) tolerance.of_largest = 1e-6;
    const auto json = read_json_file(each.folder / "data.json");
    if (!json) return tolerance;
    tolerance.relative = json->value("rtol", tolerance.relative);
    tolerance.absolute = json->value("atol", tolerance.absolute);
    return tolerance;
}

/// A recorded tensor; empty if the file does not exist.
inline Result<std::optional<Tensor>> read_tensor(const std::filesystem::path& path, const ValueInfo& info) {
    if (!std::filesystem::exists(path)) return std::optional<Tensor>();
    if (info.type == DataType::undefined) {
        return Error{ErrorCode::unsupported, "value " + info.name + " is no tensor (sequence, optional or map)", "",
                     ""};
    }
    LATHE_TRY(const std::string bytes, read_text_file(path));
    onnx::TensorProto proto;
    if (!proto::parse(proto, bytes)) return Error{ErrorCode::parse_error, "cannot be parsed", path.string(), ""};
    proto::Importer importer;
    LATHE_TRY(Tensor tensor, importer.tensor(proto));
    return std::optional<Tensor>(std::move(tensor));
}

/// As numpy.testing.assert_allclose compares: |a - b| <= absolute + relative * |b|, equal infinities, NaN with NaN.
inline std::string difference(const Tensor& expected, const TensorView& got, Tolerance tolerance) {
    if (got.type != expected.type()) return "has type " + to_string(got.type) + ", not " + to_string(expected.type());
    if (got.shape != expected.shape())
        return "has shape " + to_string(got.shape) + ", not " + to_string(expected.shape());
    if (got.bytes.size() != expected.bytes().size()) return "has another number of bytes";
    if (!is_floating(expected.type())) {
        return std::equal(got.bytes.begin(), got.bytes.end(), expected.bytes().begin()) ? "" : "differs";
    }
    if (expected.type() == DataType::bfloat16) tolerance.relative = std::max(tolerance.relative, 0.015625); // two ulps
    const Tensor actual(got.name, got.type, got.shape, got.bytes);
    const std::vector<float> a = actual.to_floats();
    const std::vector<float> b = expected.to_floats();
    if (tolerance.of_largest > 0) {
        for (const float value : b)
            if (std::isfinite(value))
                tolerance.absolute = std::max(tolerance.absolute, tolerance.of_largest * std::abs(double{value}));
    }
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (std::isnan(a[i]) && std::isnan(b[i])) continue;
        if (a[i] == b[i]) continue;
        const double distance = std::abs(double{a[i]} - double{b[i]});
        if (!(distance <= tolerance.absolute + tolerance.relative * std::abs(double{b[i]}))) {
            std::ostringstream text;
            text << "differs at " << i << ": " << a[i] << ", not " << b[i];
            return text.str();
        }
    }
    return "";
}

struct DataSet {
    std::vector<std::pair<std::string, Tensor>> inputs;
    std::vector<Tensor> outputs;
};

inline Result<DataSet> read_data(const std::filesystem::path& folder, const Model& model) {
    DataSet data;
    for (std::size_t i = 0; i < model.graph.inputs.size(); ++i) {
        LATHE_TRY(auto tensor, read_tensor(folder / ("input_" + std::to_string(i) + ".pb"), model.graph.inputs[i]));
        if (tensor) data.inputs.emplace_back(model.graph.inputs[i].name, std::move(*tensor));
    }
    for (std::size_t i = 0; i < model.graph.outputs.size(); ++i) {
        LATHE_TRY(auto tensor, read_tensor(folder / ("output_" + std::to_string(i) + ".pb"), model.graph.outputs[i]));
        if (!tensor) return Error{ErrorCode::not_found, "output " + std::to_string(i) + " was not recorded", "", ""};
        data.outputs.push_back(std::move(*tensor));
    }
    return data;
}

inline bool is_random(const Graph& graph) {
    return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const auto& node) {
        const std::string& type = node->op_type;
        return type.starts_with("Random") || type == "Bernoulli" || type == "Multinomial";
    });
}

} // namespace lathe::test
