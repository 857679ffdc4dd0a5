#include "evaluate/output_groups.hpp"

#include <random>

#include <gtest/gtest.h>

namespace lathe {
namespace {

using Runs = std::vector<std::pair<std::size_t, std::size_t>>;

/// Noise of each channel's size; [1, outer, channels, inner], whatever the shape calls them.
std::vector<float> values(const std::vector<double>& sizes, std::size_t outer, std::size_t inner) {
    std::mt19937 random(7);
    std::normal_distribution<double> normal;
    std::vector<float> all;
    for (std::size_t i = 0; i < outer; ++i) {
        for (const double size : sizes) {
            for (std::size_t k = 0; k < inner; ++k)
                all.push_back(static_cast<float>(size * normal(random)));
        }
    }
    return all;
}

/// Boxes' offsets, logarithms of sizes, objectness, and classes of which some are common and some rare.
std::vector<double> detector() {
    std::vector<double> sizes{1.3, 1.1, 0.9, 1.0, 0.05};
    for (int i = 0; i < 20; ++i)
        sizes.push_back(0.001 * (1.0 + static_cast<double>(i % 3)));
    return sizes;
}

Runs runs_of(const OutputGroups& groups) {
    Runs runs;
    for (const auto& group : groups.groups)
        runs.emplace_back(group.begin, group.end);
    return runs;
}

struct Case {
    const char* name;
    Shape shape;
    std::vector<float> values;
    Runs expected;
    std::size_t axis;
};

TEST(OutputGroups, MeaningsAreToldByTheirSize) {
    const std::vector<Case> cases{
        {"channels last", {1, 300, 25}, values(detector(), 300, 1), {{0, 4}, {4, 5}, {5, 25}}, 2},
        {"channels first", {1, 25, 300}, values(detector(), 1, 300), {{0, 4}, {4, 5}, {5, 25}}, 1},
        {"a picture's channels", {1, 25, 9, 9}, values(detector(), 1, 81), {{0, 4}, {4, 5}, {5, 25}}, 1},
        {"columns of a page", {1, 1, 40, 25}, values(detector(), 40, 1), {{0, 1}}, 1},
        {"columns of small maps", {1, 30, 25, 25}, values(detector(), 750, 1), {{0, 1}}, 1},
        {"channels of a square, last", {1, 9, 9, 25}, values(detector(), 81, 1), {{0, 4}, {4, 5}, {5, 25}}, 3},
        {"alike", {1, 12, 9, 9}, values(std::vector<double>(12, 0.4), 1, 81), {{0, 1}}, 1},
        {"a row of classes", {1, 25}, values(detector(), 1, 1), {{0, 1}}, 1},
        {"zeros", {1, 25, 4}, std::vector<float>(100, 0.0F), {{0, 1}}, 1},
        {"nothing", {1, 0, 4}, {}, {{0, 1}}, 1},
    };
    for (const Case& each : cases) {
        const OutputGroups groups = find_output_groups(each.shape, {each.values});
        EXPECT_EQ(runs_of(groups), each.expected) << each.name;
        EXPECT_EQ(groups.axis, each.axis) << each.name;
    }
}

TEST(OutputGroups, EveryValueHasItsGroup) {
    const std::vector<float> all = values(detector(), 1, 300);
    const OutputGroups groups = find_output_groups({1, 25, 300}, {all});
    ASSERT_EQ(groups.groups.size(), 3U);
    EXPECT_EQ(groups.group_at(0), 0U);
    EXPECT_EQ(groups.group_at(4 * 300 - 1), 0U);
    EXPECT_EQ(groups.group_at(4 * 300), 1U);
    EXPECT_EQ(groups.group_at(5 * 300), 2U);
    EXPECT_EQ(groups.group_at(25 * 300 - 1), 2U);
    // Weighed, each group's squares come to the same.
    std::vector<double> sums(3, 0.0);
    for (std::size_t i = 0; i < all.size(); ++i)
        sums[groups.group_at(i)] +=
            groups.weight(groups.group_at(i)) * static_cast<double>(all[i]) * static_cast<double>(all[i]);
    EXPECT_NEAR(sums[1], sums[0], 1e-9 * sums[0]);
    EXPECT_NEAR(sums[2], sums[0], 1e-9 * sums[0]);
}

} // namespace
} // namespace lathe
