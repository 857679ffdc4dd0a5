#pragma once

#include <string>

#include <gtest/gtest.h>

#include "graph/text.hpp"

namespace lathe::test {

/// The model of a graph's text; a failure that shows the text, and an empty model, where it cannot be read.
inline Model parsed(const std::string& text) {
    auto model = parse_graph_text(text);
    EXPECT_TRUE(model) << model.error().describe() << "\n" << text;
    return model ? std::move(*model) : Model{};
}

} // namespace lathe::test
