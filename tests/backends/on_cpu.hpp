#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backends/api/backend.hpp"
#include "backends/models.hpp"

namespace lathe::test {

inline const Backend& cpu() {
    auto backend = backend_for_device("cpu");
    if (!backend) throw std::runtime_error(backend.error().describe());
    return **backend;
}

/// All outputs of a compiled model on these inputs.
inline std::vector<HostTensor> outputs_of(const CompiledModel& compiled, std::vector<HostTensor> inputs) {
    const auto session = compiled.make_session();
    EXPECT_TRUE(session);
    if (!session) return {};
    for (std::size_t i = 0; i < inputs.size(); ++i)
        EXPECT_TRUE((*session)->set_input(i, inputs[i].view()));
    const auto ran = (*session)->run();
    EXPECT_TRUE(ran) << ran.error().describe();
    std::vector<HostTensor> outputs;
    for (std::size_t i = 0; ran && i < compiled.outputs().size(); ++i) {
        const auto view = (*session)->output(i);
        EXPECT_TRUE(view);
        if (!view) return {};
        outputs.emplace_back(view->name, view->type, view->shape);
        outputs.back().bytes.assign(view->bytes.begin(), view->bytes.end());
    }
    return outputs;
}

/// Of a model written as text.
inline std::vector<HostTensor> outputs_of(const std::string& text, std::vector<HostTensor> inputs) {
    const auto compiled = cpu().compile(model_from_text(text), {});
    EXPECT_TRUE(compiled) << compiled.error().describe();
    return compiled ? outputs_of(**compiled, std::move(inputs)) : std::vector<HostTensor>{};
}

/// Its first output.
template <class T = float>
std::vector<T> first_output(const std::string& text, std::vector<HostTensor> inputs) {
    std::vector<HostTensor> outputs = outputs_of(text, std::move(inputs));
    if (outputs.empty()) return {};
    return {outputs[0].as<T>().begin(), outputs[0].as<T>().end()};
}

} // namespace lathe::test
