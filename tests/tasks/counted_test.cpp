// Segmentation, regression and text recognition beside plain references that are written another way.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "support/edit_distance.hpp"
#include "tasks/regression.hpp"
#include "tasks/segmentation.hpp"
#include "tasks/text_recognition.hpp"

namespace lathe {
namespace {

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

HostTensor tensor(Shape shape, std::vector<float> values) {
    HostTensor made("out", DataType::float32, std::move(shape));
    std::ranges::copy(values, made.as<float>().begin());
    return made;
}

std::vector<std::int32_t> labels_of(const CountedTask& task, const HostTensor& output, std::size_t sample = 0) {
    const auto answer = task.answer({&output, 1}, sample);
    EXPECT_TRUE(answer) << answer.error().describe();
    return answer ? std::get<LabelMap>(*answer).labels : std::vector<std::int32_t>{};
}

double figure(const CountedTask& task, const SampleCounts& counts, std::string_view key) {
    for (const CountedFigure& each : task.figures())
        if (each.key == key) return each.of(counts.sums());
    ADD_FAILURE() << "no figure " << key;
    return 0;
}

TEST(Segmentation, TheGreatestScoreIsTheClassInEitherLayout) {
    // Two samples of 1 x 2 pixels and 3 classes.
    const auto first = make_segmentation_task({0, false, 3});
    const HostTensor nchw =
        tensor({2, 3, 1, 2}, {0, 5, 1, 4, 2, 3, /**/ 9, not_a_number, 0, not_a_number, 0, not_a_number});
    EXPECT_EQ(labels_of(*first, nchw), (std::vector<std::int32_t>{2, 0}));
    EXPECT_EQ(labels_of(*first, nchw, 1), (std::vector<std::int32_t>{0, -1}));
    const auto last = make_segmentation_task({0, true, 3});
    EXPECT_EQ(labels_of(*last, tensor({1, 1, 2, 3}, {0, 1, 2, 5, 4, 3})), (std::vector<std::int32_t>{2, 0}));
    EXPECT_FALSE(last->answer({&nchw, 1}, 2));
    EXPECT_FALSE(last->answer({}, 0));
}

TEST(Segmentation, OneChannelHoldsClassesSharesOrLogits) {
    const auto one = make_segmentation_task({0, false, 1});
    EXPECT_EQ(labels_of(*one, tensor({1, 1, 1, 3}, {0, 7, 2})), (std::vector<std::int32_t>{0, 7, 2}));
    EXPECT_EQ(labels_of(*one, tensor({1, 1, 1, 3}, {0.2F, 0.7F, 1})), (std::vector<std::int32_t>{0, 1, 1}));
    EXPECT_EQ(labels_of(*one, tensor({1, 1, 1, 3}, {-3, 0.2F, 4})), (std::vector<std::int32_t>{0, 1, 1}));
    const auto none = make_segmentation_task({0, false, 0});
    EXPECT_EQ(labels_of(*none, tensor({1, 1, 3}, {3, 3, 0})), (std::vector<std::int32_t>{3, 3, 0}));
}

/// Mean IoU by sets of pixels, as its definition reads.
double plain_miou(const std::vector<LabelMap>& given, const std::vector<LabelMap>& truth) {
    std::map<int, std::set<std::pair<std::size_t, std::size_t>>> is, said;
    for (std::size_t s = 0; s < truth.size(); ++s) {
        for (std::size_t i = 0; i < truth[s].labels.size(); ++i) {
            if (truth[s].labels[i] < 0) continue;
            is[truth[s].labels[i]].emplace(s, i);
            if (given[s].labels[i] >= 0) said[given[s].labels[i]].emplace(s, i);
        }
    }
    double sum = 0;
    std::set<int> classes;
    for (const auto& each : {is, said})
        for (const auto& [name, pixels] : each)
            classes.insert(name);
    for (const int name : classes) {
        std::set<std::pair<std::size_t, std::size_t>> both, either = is[name];
        std::ranges::set_intersection(is[name], said[name], std::inserter(both, both.end()));
        either.insert(said[name].begin(), said[name].end());
        sum += static_cast<double>(both.size()) / static_cast<double>(either.size());
    }
    return sum / static_cast<double>(classes.size());
}

TEST(Segmentation, MeanIouEqualsAPlainReference) {
    const auto task = make_segmentation_task({0, false, 5});
    std::mt19937 random(3);
    for (int round = 0; round < 100; ++round) {
        const int classes = 1 + static_cast<int>(random() % 5);
        std::vector<LabelMap> given, truth;
        SampleCounts counts;
        for (int s = 0; s < 4; ++s) {
            LabelMap a{3, 4, {}}, b{3, 4, {}};
            for (int i = 0; i < 12; ++i) {
                a.labels.push_back(static_cast<int>(random() % static_cast<unsigned>(classes + 1)) - 1);
                b.labels.push_back(static_cast<int>(random() % static_cast<unsigned>(classes + 1)) - 1);
            }
            counts.add(task->count(a, b).value());
            given.push_back(a);
            truth.push_back(b);
        }
        EXPECT_NEAR(figure(*task, counts, "miou"), plain_miou(given, truth), 1e-12) << "round " << round;
    }
}

TEST(Segmentation, WithoutATrueClassNothingIsSaid) {
    const auto task = make_segmentation_task({0, false, 2});
    SampleCounts counts;
    counts.add(task->count(LabelMap{1, 2, {0, 1}}, LabelMap{1, 2, {-1, -1}}).value());
    EXPECT_TRUE(std::isnan(figure(*task, counts, "miou")));
    EXPECT_FALSE(task->count(LabelMap{1, 2, {0, 1}}, LabelMap{2, 1, {0, 1}}));
    EXPECT_FALSE(task->count(LabelMap{1, 2, {0, 1}}, Numbers{{2}, {0, 1}}));
}

TEST(Segmentation, RecognisedByAScoreAClassAndPixel) {
    struct Case {
        Shape shape;
        std::size_t classes;
        bool last, found;
    };
    for (const Case& c : std::vector<Case>{{{-1, 21, 64, 96}, 21, false, true},
                                           {{-1, 21, 8, 12}, 21, false, true},
                                           {{-1, 64, 96, 21}, 21, true, true},
                                           {{-1, 64, 96}, 0, true, true},
                                           {{-1, 3, 64, 96}, 3, false, false},
                                           {{-1, 1, 64, 96}, 1, false, false},
                                           {{-1, 21, 5, 12}, 0, false, false},
                                           {{-1, 512, 8, 12}, 0, false, false},
                                           {{-1, 21, 2, 3}, 0, false, false},
                                           {{-1, 1000}, 0, false, false}}) {
        const std::vector<OutputShape> outputs{{"out", c.shape}};
        const auto head = recognise_segmentation(outputs, 64, 96);
        ASSERT_EQ(head.has_value(), c.found) << to_string(c.shape);
        if (!head) continue;
        EXPECT_EQ(head->classes, c.classes);
        EXPECT_EQ(head->channels_last, c.last);
    }
    // Asked for, one channel and three are taken as well.
    EXPECT_TRUE(segmentation_head(std::vector<OutputShape>{{"out", {-1, 1, 64, 96}}}, 64, 96));
    EXPECT_FALSE(segmentation_head(std::vector<OutputShape>{{"out", {-1, 1000}}}, 64, 96));
}

TEST(Regression, FiguresEqualAPlainReference) {
    const auto task = make_regression_task({0, 2});
    std::mt19937 random(5);
    std::normal_distribution<float> normal(3, 2);
    SampleCounts counts;
    std::vector<double> y, t;
    for (int s = 0; s < 20; ++s) {
        Numbers given{{7}, {}}, truth{{7}, {}};
        for (int i = 0; i < 7; ++i) {
            truth.values.push_back(normal(random));
            given.values.push_back(truth.values.back() + 0.3F * normal(random));
            t.push_back(truth.values.back());
            y.push_back(given.values.back());
        }
        counts.add(task->count(given, truth).value());
    }
    const auto n = static_cast<double>(t.size());
    double mean = 0, spread = 0, squares = 0, sizes = 0;
    for (const double each : t)
        mean += each / n;
    for (std::size_t i = 0; i < t.size(); ++i) {
        spread += (t[i] - mean) * (t[i] - mean);
        squares += (y[i] - t[i]) * (y[i] - t[i]);
        sizes += std::fabs(y[i] - t[i]);
    }
    EXPECT_NEAR(figure(*task, counts, "r2"), 1 - squares / spread, 1e-9);
    EXPECT_NEAR(figure(*task, counts, "mae"), sizes / n, 1e-9);
    EXPECT_NEAR(figure(*task, counts, "rmse"), std::sqrt(squares / n), 1e-9);
    EXPECT_NEAR(figure(*task, counts, "psnr"), 20 * std::log10(2 / std::sqrt(squares / n)), 1e-9);
}

TEST(Regression, WhatHasNoTruthOrNoNumberIsSaidSo) {
    const auto task = make_regression_task({0, 1});
    SampleCounts counts;
    // The second has no truth; the third's answer is no number and counts as 0.
    counts.add(task->count(Numbers{{3}, {1, 5, not_a_number}}, Numbers{{3}, {1, not_a_number, 3}}).value());
    EXPECT_DOUBLE_EQ(figure(*task, counts, "mae"), 1.5);
    SampleCounts equal;
    equal.add(task->count(Numbers{{2}, {4, 4}}, Numbers{{2}, {4, 4}}).value());
    EXPECT_DOUBLE_EQ(figure(*task, equal, "r2"), 1); // nothing varies, and all of it is right
    EXPECT_TRUE(std::isnan(figure(*task, equal, "psnr")));
    EXPECT_FALSE(task->count(Numbers{{2}, {4, 4}}, Numbers{{3}, {4, 4, 4}}));
}

TEST(TextRecognition, CtcTakesRepetitionsTogetherAndLeavesBlanksOut) {
    // Blank, a, b, and a class behind them: a space.
    const auto read = [](bool blank_last, const std::vector<std::size_t>& best, std::size_t classes) {
        const auto task = make_text_recognition_task({0, {"a", "é"}, blank_last});
        std::vector<float> values(best.size() * classes, 0.0F);
        for (std::size_t i = 0; i < best.size(); ++i)
            values[i * classes + best[i]] = 1;
        const HostTensor output =
            tensor({1, static_cast<std::int64_t>(best.size()), static_cast<std::int64_t>(classes)}, values);
        const auto answer = task->answer({&output, 1}, 0);
        EXPECT_TRUE(answer) << answer.error().describe();
        return answer ? std::get<std::u32string>(*answer) : U"";
    };
    EXPECT_EQ(read(false, {0, 1, 1, 0, 1, 2, 2, 3, 0}, 4), U"aaé ");
    EXPECT_EQ(read(true, {0, 0, 2, 0, 1, 2, 2}, 3), U"aaé");
    EXPECT_EQ(read(false, {0, 0}, 3), U"");
    const auto task = make_text_recognition_task({0, {"a"}, false});
    const HostTensor other = tensor({1, 1, 5}, {0, 0, 0, 0, 0});
    EXPECT_FALSE(task->answer({&other, 1}, 0));
}

/// The definition, without a table.
std::size_t plain_distance(std::u32string_view a, std::u32string_view b) {
    if (a.empty() || b.empty()) return std::max(a.size(), b.size());
    if (a.front() == b.front()) return plain_distance(a.substr(1), b.substr(1));
    return 1 + std::min({plain_distance(a.substr(1), b), plain_distance(a, b.substr(1)),
                         plain_distance(a.substr(1), b.substr(1))});
}

TEST(TextRecognition, CharacterErrorRateEqualsAPlainReference) {
    const auto task = make_text_recognition_task({0, {"a", "b"}, false});
    std::mt19937 random(7);
    SampleCounts counts;
    std::size_t edits = 0, length = 0, right = 0;
    for (int i = 0; i < 200; ++i) {
        std::u32string a, b;
        for (std::u32string* text : {&a, &b})
            for (auto n = random() % 7; n > 0; --n)
                text->push_back(U'a' + static_cast<char32_t>(random() % 3));
        EXPECT_EQ(edit_distance(a, b), plain_distance(a, b));
        edits += plain_distance(a, b);
        length += b.size();
        right += a == b ? 1U : 0U;
        counts.add(task->count(a, b).value());
    }
    EXPECT_GT(right, 0U);
    const double rate = static_cast<double>(edits) / static_cast<double>(length);
    EXPECT_DOUBLE_EQ(figure(*task, counts, "cer"), rate);
    EXPECT_DOUBLE_EQ(figure(*task, counts, "character_accuracy"), 1 - rate);
    EXPECT_DOUBLE_EQ(figure(*task, counts, "line_accuracy"), static_cast<double>(right) / 200);
    SampleCounts empty;
    empty.add(task->count(std::u32string(), std::u32string()).value());
    EXPECT_TRUE(std::isnan(figure(*task, empty, "cer")));
}

TEST(Counted, TheDifferencesIntervalIsPaired) {
    const auto task = make_regression_task({0, 0});
    const auto judge = task->judge();
    std::mt19937 random(11);
    std::normal_distribution<float> normal;
    std::vector<float> truth(200), near(200), far(200);
    for (std::size_t i = 0; i < truth.size(); ++i) {
        truth[i] = normal(random) * static_cast<float>(1 + i % 10);
        near[i] = truth[i] + 0.01F * normal(random);
        far[i] = near[i] + 0.05F;
    }
    std::size_t network = 0;
    for (const auto& values : {truth, near, far}) {
        const HostTensor output = tensor({100, 2}, values);
        ASSERT_TRUE(judge->add(network++, {&output, 1}));
    }
    EXPECT_DOUBLE_EQ(judge->metric(0), 1);
    EXPECT_LT(judge->metric(2), judge->metric(1));
    // Each alone is uncertain by far more than the difference between the two.
    EXPECT_LT(judge->difference(2, 1).high, 0);
    EXPECT_EQ(judge->difference(1, 1).low, 0);
    EXPECT_FALSE(judge->add(1, {}));
    const HostTensor more = tensor({1, 2}, {0, 0});
    EXPECT_FALSE(judge->add(1, {&more, 1})) << "the reference was not given that sample";
}

TEST(RecogniseTask, ByTheOutputsShapes) {
    const auto name = [](const Shape& shape) {
        const auto task = recognise_task(std::vector<OutputShape>{{"out", shape}}, 64, 64);
        return task == nullptr ? std::string() : std::string(task->name());
    };
    EXPECT_EQ(name({-1, 84, 85}), "detection");
    EXPECT_EQ(name({-1, 19, 64, 64}), "segmentation");
    EXPECT_EQ(name({-1, 1000}), "classification");
    EXPECT_EQ(name({-1, 3, 128, 128}), "regression");
    EXPECT_EQ(name({-1, 1, 64, 64}), "regression");
    EXPECT_EQ(name({-1, 40, 97}), "");
    EXPECT_EQ(name({-1, 1}), "");
}

TEST(Classification, AgreementWithTheReferencesClass) {
    const auto task = make_classification_task(0);
    const auto judge = task->judge();
    const HostTensor reference = tensor({4, 2}, {1, 0, 0, 1, 1, 0, 0, 1});
    const HostTensor other = tensor({4, 2}, {2, 1, 0, 1, 0, 1, not_a_number, not_a_number});
    ASSERT_TRUE(judge->add(0, {&reference, 1}));
    ASSERT_TRUE(judge->add(1, {&other, 1}));
    EXPECT_DOUBLE_EQ(judge->metric(1), 0.5);
}

} // namespace
} // namespace lathe
