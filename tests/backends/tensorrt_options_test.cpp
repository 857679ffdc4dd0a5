// What `--device tensorrt` takes, in a model's metadata.
#include <gtest/gtest.h>

#include "backends/api/tensorrt.hpp"
#include "backends/models.hpp"

namespace lathe {
namespace {

TEST(TensorRtOptions, TravelInTheModel) {
    Model model = test::small_network();
    EXPECT_EQ(*tensorrt_options_of(model), TensorRtOptions{});
    TensorRtOptions wanted;
    wanted.optimization_level = 3;
    wanted.refittable = true;
    wanted.compute_capabilities = {89, 120};
    set_tensorrt_options(model, wanted);
    EXPECT_EQ(*tensorrt_options_of(model), wanted);
}

TEST(TensorRtOptions, WhatCannotBeIsRefused) {
    for (const int level : {-1, 6}) {
        Model model = test::small_network();
        TensorRtOptions wanted;
        wanted.optimization_level = level;
        set_tensorrt_options(model, wanted);
        EXPECT_EQ(tensorrt_options_of(model).error().code, ErrorCode::parse_error) << level;
    }
    for (const char* text : {"", "[]", "{}", R"({"optimization_level":"high"})"}) {
        Model model = test::small_network();
        model.set_metadata("lathe.tensorrt", text);
        EXPECT_EQ(tensorrt_options_of(model).error().code, ErrorCode::parse_error) << text;
    }
}

} // namespace
} // namespace lathe
