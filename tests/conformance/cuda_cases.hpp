#pragma once
// How ONNX's backend tests are run on the CUDA engine, by its interpreter and on a GPU.

#include <functional>
#include <string>

#include "backends/cuda/plan/values.hpp"
#include "conformance/cases.hpp"
#include "conformance/exceptions_list.hpp"
#include "conformance/recorded.hpp"
#include "onnx/onnx.hpp"
#include "support_lib/places.hpp"

namespace lathe::test {

/// What the CUDA engine's plans do not do, with reasons.
inline const ExceptionsList cuda_exceptions{test::source_path("tests/conformance/cuda_unsupported.txt"),
                                            "the CUDA engine's plans do not do", "test_conformance_cuda_plan"};

/// Runs a model on recorded inputs and compares with the recorded outputs.
using RunOnce = std::function<Result<void>(const Model&, const DataSet&, Tolerance)>;

/// The model with all inputs but the first as constants of their recorded values.
inline Model with_constants(const Model& model, const DataSet& data) {
    Model fixed = model;
    std::erase_if(fixed.graph.inputs, [&](const ValueInfo& info) {
        if (info.name == model.graph.inputs[0].name) return false;
        for (const auto& [name, tensor] : data.inputs) {
            if (name == info.name) fixed.graph.initializers.insert_or_assign(name, tensor.renamed(name));
        }
        return fixed.graph.initializers.contains(info.name);
    });
    return fixed;
}

/// The model built for the recorded values of the inputs that decide shapes.
inline Model with_values(const Model& model, const DataSet& data) {
    Model given = model;
    cuda::InputValues values;
    for (const std::string& name : cuda::deciding_inputs(model.graph)) {
        for (const auto& [input, tensor] : data.inputs)
            if (input == name) values.emplace(name, cuda::value_text(tensor));
    }
    cuda::set_values(given, values);
    return given;
}

/// All data sets of a case by `run_once`; where that cannot be done, again for the values of inputs that decide shapes,
/// then with all inputs but the first as constants.
inline Result<void> run_with_constants(const Case& each, const RunOnce& run_once) {
    LATHE_TRY(Model model, load_onnx(each.model()));
    drop_initializer_inputs(model);
    if (is_random(model.graph)) return Error{ErrorCode::unsupported, "its outputs are random", "", ""};
    for (int set = 0;; ++set) {
        const auto folder = each.folder / ("test_data_set_" + std::to_string(set));
        if (!std::filesystem::exists(folder)) {
            if (set != 0) return {};
            return Error{ErrorCode::not_found, "no inputs and outputs are recorded for it", "", ""};
        }
        LATHE_TRY(const DataSet data, read_data(folder, model));
        auto plain = run_once(model, data, tolerance_of(each));
        if (plain) continue;
        if (plain.error().code != ErrorCode::mismatch && !cuda::deciding_inputs(model.graph).empty()) {
            plain = run_once(with_values(model, data), data, tolerance_of(each));
            if (plain) continue;
        }
        if (plain.error().code == ErrorCode::mismatch || model.graph.inputs.size() < 2) return plain;
        // Recorded cases give weights, axes and the like as inputs; models have them as constants.
        Model fixed = with_constants(model, data);
        const auto second = run_once(fixed, data, tolerance_of(each));
        if (!second) return second.error().code == ErrorCode::mismatch ? second : plain;
    }
}

/// "" for success, else the reason in one line.
inline std::string verdict(const Result<void>& outcome) {
    if (outcome) return "";
    std::string line;
    for (const char c : outcome.error().message) {
        const bool blank = c == '\n' || c == '\t' || c == '\r' || c == ' ';
        if (blank && (line.empty() || line.back() == ' ')) continue;
        line += blank ? ' ' : c;
    }
    return line.size() > 160 ? line.substr(0, 157) + "..." : line;
}

} // namespace lathe::test
