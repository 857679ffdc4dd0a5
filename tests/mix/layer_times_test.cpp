#include "mix/layer_times.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lathe::test {
namespace {

using testing::ElementsAre;

LayerInfo executed(const std::string& name, std::vector<std::string> nodes, double ms) {
    LayerInfo layer;
    layer.name = name;
    layer.nodes = std::move(nodes);
    layer.milliseconds = ms;
    return layer;
}

TEST(LayerTimes, GoToTheLayersFusedIntoThem) {
    const std::vector<std::string> layers{"a", "b", "c", "d"};
    const std::vector<LayerInfo> run{executed("x", {"a", "relu"}, 2), executed("y", {"b", "c"}, 3),
                                     executed("reorder", {}, 5), executed("d", {}, 1), executed("a2", {"a"}, 0.5)};
    EXPECT_THAT(times_by_layer(run, layers), ElementsAre(2.5, 1.5, 1.5, 1));
    EXPECT_THAT(times_by_layer({}, layers), ElementsAre(0, 0, 0, 0));
}

TEST(LayerTimes, NodesWithoutANameGoByTheirOutput) {
    EXPECT_THAT(times_by_layer({executed("x", {"h1"}, 2), executed("y", {"Conv -> h2"}, 3)},
                               {"Conv -> h1", "Conv -> h2", "Conv -> h3"}),
                ElementsAre(2, 3, 0));
}

} // namespace
} // namespace lathe::test
