#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "backends/api/backend.hpp"
#include "conformance/recorded.hpp"

namespace lathe::test {

/// What a backend runs: as it was compiled, or as it is read back from what an engine's file keeps.
enum class Form { compiled, saved };

/// The model's outputs on one data set, computed by a backend; none where there is no saved form.
inline Result<std::vector<HostTensor>> outputs_of(const Backend& backend, const Model& model, const DataSet& data,
                                                  CompileOptions options, Form form = Form::compiled) {
    for (const auto& [name, tensor] : data.inputs) {
        const ValueInfo* input = model.graph.find_input(name);
        const auto declared = input != nullptr ? input->shape() : std::nullopt;
        // A static shape is the model's own; only open ones are given.
        if (declared && element_count(*declared) >= 0) continue;
        options.shapes[name] = {tensor.shape(), tensor.shape(), tensor.shape()};
    }
    LATHE_TRY(auto compiled, backend.compile(model, options));
    std::string bytes; // outlives what is loaded from it
    if (form == Form::saved) {
        LATHE_TRY(const ByteChain chain, compiled->save());
        bytes = chain.flat();
        if (bytes.empty()) return std::vector<HostTensor>{}; // compiled whenever it is loaded
        LATHE_TRY(compiled, backend.load(std::as_bytes(std::span(bytes)), nullptr, options));
    }
    LATHE_TRY(const auto session, compiled->make_session());
    const auto& inputs = compiled->inputs();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const auto given = std::find_if(data.inputs.begin(), data.inputs.end(),
                                        [&](const auto& pair) { return pair.first == inputs[i].name; });
        if (given == data.inputs.end()) {
            return Error{ErrorCode::mismatch, "no recorded input is called " + inputs[i].name, "", ""};
        }
        const Tensor& tensor = given->second;
        const std::span<std::byte> bytes(const_cast<std::byte*>(tensor.bytes().data()), tensor.bytes().size());
        LATHE_CHECK(session->set_input(i, TensorView{inputs[i].name, tensor.type(), tensor.shape(), bytes}));
    }
    LATHE_CHECK(session->run());
    std::vector<HostTensor> outputs;
    for (std::size_t i = 0; i < compiled->outputs().size(); ++i) {
        LATHE_TRY(const TensorView view, session->output(i));
        HostTensor output(view.name, view.type, view.shape);
        output.bytes.assign(view.bytes.begin(), view.bytes.end());
        outputs.push_back(std::move(output));
    }
    return outputs;
}

} // namespace lathe::test
