#include "lathe/shared_calibration.hpp"

#include <algorithm>
#include <fstream>
#include <random>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lathe/evaluate.hpp>
#include <lathe/simplify.hpp>

#include "support_lib/command.hpp"
#include "support_lib/places.hpp"

namespace lathe {
namespace {

using testing::HasSubstr;

const std::filesystem::path shared_data_folder = test::build_path("tests/api/data");
const std::filesystem::path shared_samples_file = shared_data_folder / "data.npy"; // 64 samples

ModelPtr shared_simplified_model() {
    ModelPtr model = load_model(shared_data_folder / "small.onnx").value();
    EXPECT_TRUE(simplify(*model));
    return model;
}

/// The file that a calibration is saved as.
std::string file_of(const Result<Calibration>& calibration) {
    EXPECT_TRUE(calibration) << calibration.error().describe();
    if (!calibration) return {};
    const test::TemporaryFolder folder;
    EXPECT_TRUE(calibration->save(folder / "m.ranges"));
    std::ifstream file(folder / "m.ranges");
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

/// Spans of random lengths that cover a span, in random order.
std::vector<SampleSpan> cut(SampleSpan whole, std::size_t granularity, std::mt19937& random) {
    std::vector<SampleSpan> spans;
    for (std::size_t first = whole.first; first < whole.first + whole.count;) {
        const std::size_t most = whole.first + whole.count - first;
        const std::size_t count = std::min(most, granularity * (1 + random() % 9));
        spans.push_back({first, count});
        first += count;
    }
    std::ranges::shuffle(spans, random);
    return spans;
}

/// The part as it comes from another machine.
CalibrationPart sent(Result<CalibrationPart> part) {
    return CalibrationPart::parse(std::move(part).value().text()).value();
}

Result<Calibration> calibrate_in_parts(const Model& model, const Data& data, const CalibrationOptions& options,
                                       std::size_t workers, std::mt19937& random) {
    auto shared = SharedCalibration::start(model, data, options).value();
    std::vector<CalibrationWorker> machines;
    for (std::size_t i = 0; i < workers; ++i)
        machines.push_back(CalibrationWorker::start(model, options).value());
    std::size_t turn = 0;
    while (const auto wanted = shared.wanted()) {
        for (const SampleSpan span : cut(*wanted, shared.granularity(), random)) {
            Data part = data;
            if (!part.arrays.empty()) {
                const HostTensor& all = data.arrays.front();
                Shape shape = all.shape;
                shape[0] = static_cast<std::int64_t>(span.count);
                part.arrays.front() = HostTensor(all.name, all.type, shape);
                const std::size_t row = all.bytes.size() / static_cast<std::size_t>(all.shape[0]);
                std::size_t at = 0;
                for (const std::size_t index : shared.samples(span))
                    std::copy_n(all.bytes.begin() + static_cast<std::ptrdiff_t>(index * row), row,
                                part.arrays.front().bytes.begin() + static_cast<std::ptrdiff_t>(at++ * row));
            }
            const auto added = shared.add(sent(machines[turn++ % workers].run(std::move(part), span)));
            if (!added) return added.error();
        }
    }
    return shared.finish();
}

TEST(SharedCalibration, AnyPartsGiveTheFileOfOneMachine) {
    const ModelPtr model = shared_simplified_model();
    const auto seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    HostTensor array("input", DataType::float32, {50, 3, 8, 8});
    for (float& value : array.as<float>())
        value = static_cast<float>(random() % 2000) / 1000.0F - 1.0F;
    std::ranges::fill(array.as<float>().subspan(7UL * 192, 192), 0.5F); // a finding: two of one value, and equal
    std::ranges::fill(array.as<float>().subspan(33UL * 192, 192), 0.5F);
    for (const bool settled : {true, false}) {
        for (const auto& [name, data] :
             {std::pair("file", Data(shared_samples_file)), std::pair("arrays", Data({array}))}) {
            for (const std::size_t samples : {0UL, 41UL}) {
                SCOPED_TRACE(std::string(name) + ", settled " + std::to_string(settled) + ", samples " +
                             std::to_string(samples));
                CalibrationOptions options;
                options.samples = samples;
                options.until_settled = settled;
                options.method = settled ? Method::minmax : Method::mse; // minmax reads more rounds
                const std::string alone = file_of(Calibration::run(*model, data, options));
                for (const std::size_t workers : {1UL, 2UL, 4UL})
                    EXPECT_EQ(file_of(calibrate_in_parts(*model, data, options, workers, random)), alone);
            }
        }
    }
    const auto found =
        calibrate_in_parts(*model, Data({array}), {.until_settled = false}, 2, random).value().findings();
    const auto duplicates = std::ranges::find(found, "duplicates", &CalibrationFinding::name);
    ASSERT_NE(duplicates, found.end());
    EXPECT_THAT(duplicates->detail, HasSubstr("33 = 7")); // of whichever parts they were
}

TEST(SharedCalibration, CountsNoSampleTwiceAndMissesNone) {
    const ModelPtr model = shared_simplified_model();
    const CalibrationOptions options{.until_settled = false};
    auto shared = SharedCalibration::start(*model, shared_samples_file, options).value();
    auto worker = CalibrationWorker::start(*model, options).value();
    const auto add = [&](std::size_t first, std::size_t count) {
        return shared.add(worker.run(shared_samples_file, {first, count}).value());
    };
    ASSERT_TRUE(add(8, 8));
    struct Case {
        std::size_t first;
        std::size_t count;
    };
    for (const Case& each : {Case{8, 8}, Case{0, 9}, Case{15, 1}, Case{10, 2}, Case{0, 64}}) {
        const auto again = add(each.first, each.count);
        ASSERT_FALSE(again) << each.first << ", " << each.count;
        EXPECT_EQ(again.error().code, ErrorCode::invalid_argument);
        EXPECT_THAT(again.error().describe(), HasSubstr("added before"));
    }
    const auto early = shared.finish();
    ASSERT_FALSE(early);
    EXPECT_EQ(early.error().code, ErrorCode::invalid_argument);
    ASSERT_TRUE(add(0, 8));
    ASSERT_TRUE(add(16, 48));
    EXPECT_FALSE(shared.wanted());
    EXPECT_EQ(add(16, 8).error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(shared.finish().value().samples(), 64U);
}

TEST(SharedCalibration, RefusesWhatDoesNotBelongToIt) {
    const ModelPtr model = shared_simplified_model();
    const CalibrationOptions options;
    auto shared = SharedCalibration::start(*model, shared_samples_file, options).value();
    auto worker = CalibrationWorker::start(*model, options).value();
    const auto wanted = shared.wanted();
    ASSERT_TRUE(wanted);
    EXPECT_EQ(wanted->count, 16U); // a round, not everything

    auto later = worker.run(shared_samples_file, {16, 8});
    ASSERT_TRUE(later) << later.error().describe();
    EXPECT_EQ(shared.add(*std::move(later)).error().code, ErrorCode::out_of_range);
    EXPECT_EQ(worker.run(shared_samples_file, {60, 8}).error().code, ErrorCode::out_of_range);
    EXPECT_EQ(worker.run(shared_samples_file, {64, 8}).error().code, ErrorCode::out_of_range);
    EXPECT_EQ(worker.run(shared_samples_file, {0, 0}).error().code, ErrorCode::out_of_range);
    EXPECT_EQ(worker.run("absent", {0, 8}).error().code, ErrorCode::not_found);

    const ModelPtr original = load_model(shared_data_folder / "small.onnx").value();
    auto other = CalibrationWorker::start(*original, options).value().run(shared_samples_file, {0, 8});
    ASSERT_TRUE(other) << other.error().describe();
    EXPECT_EQ(shared.add(*std::move(other)).error().code, ErrorCode::mismatch);
    EXPECT_EQ(SharedCalibration::start(*model, "absent", options).error().code, ErrorCode::not_found);
}

TEST(SharedCalibration, DamagedPartsAreRefused) {
    const ModelPtr model = shared_simplified_model();
    const std::string text =
        CalibrationWorker::start(*model, {}).value().run(shared_samples_file, {0, 4}).value().text();
    ASSERT_TRUE(CalibrationPart::parse(text));
    const auto with = [&](const std::string& from, const std::string& to) {
        std::string changed = text;
        const auto at = changed.find(from);
        EXPECT_NE(at, std::string::npos) << from;
        return changed.replace(at, from.size(), to);
    };
    const std::string huge(20, '9');
    for (const std::string& bad :
         {std::string(), std::string("\n"), std::string("null\n{}"), text.substr(0, text.size() / 2),
          text.substr(0, text.find('\n')), with("calibration-part", "ranges"), with("\"version\":1", "\"version\":2"),
          with("\"first\":0", "\"first\":-1"), with("\"first\":0", "\"first\":" + huge),
          with("\"first\":0", "\"first\":18446744073709551615"), with("\"samples\":[", "\"samples\":[[],"),
          with("\"samples_seen\":4", "\"samples_seen\":5"), with("\"exponent\":", "\"exponent\":1")}) {
        EXPECT_FALSE(CalibrationPart::parse(bad)) << bad.substr(0, 200);
    }
}

TEST(MergeScores, CountsAddUpToOneEvaluation) {
    BuildOptions building;
    const Engine engine = Engine::build(*shared_simplified_model(), building).value();
    const HostTensor all = read_samples(engine, shared_samples_file).value().inputs.front();
    std::vector<std::int64_t> labels;
    for (std::int64_t i = 0; i < 64; ++i)
        labels.push_back(i * i % 5);
    const Data data({all}, labels);
    const EngineScores whole = evaluate_engine(engine, data).value();
    ASSERT_TRUE(whole.top1);
    std::vector<EngineScores> parts;
    for (const SampleSpan span : {SampleSpan{0, 16}, SampleSpan{48, 16}, SampleSpan{16, 32}})
        parts.push_back(evaluate_engine(engine, data, {.part = span}).value());
    const EngineScores merged = merge_scores(parts).value();
    EXPECT_EQ(merged.samples, 64U);
    EXPECT_EQ(merged.top1_right, whole.top1_right);
    EXPECT_EQ(merged.top1->value, whole.top1->value);
    EXPECT_EQ(merged.top1->low, whole.top1->low);
    EXPECT_EQ(merged.top5->high, whole.top5->high);

    EXPECT_EQ(merge_scores({}).error().code, ErrorCode::invalid_argument);
    parts.back().name = "another";
    EXPECT_EQ(merge_scores(parts).error().code, ErrorCode::mismatch);
    EXPECT_EQ(count_samples(engine, data, {.samples = 10}).value(), 10U);
    EXPECT_EQ(read_samples(engine, shared_samples_file, {.part = SampleSpan{62, 9}}).value().names.size(), 2U);
    EXPECT_EQ(read_samples(engine, shared_samples_file, {.part = SampleSpan{64, 9}}).error().code,
              ErrorCode::out_of_range);
}

} // namespace
} // namespace lathe
