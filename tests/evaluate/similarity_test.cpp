#include "evaluate/similarity.hpp"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "evaluate/correlation.hpp"

namespace lathe {
namespace {

using testing::HasSubstr;

/// Pairs whose "texts" are angles: the first 0, the second i steps; the score falls with the angle.
class Angles final : public Dataset {
public:
    explicit Angles(std::size_t pairs, bool scored = true) : pairs_(pairs), scored_(scored) {}
    std::size_t size() const override { return 2 * pairs_; }
    bool has_labels() const override { return scored_; }
    Result<std::optional<Batch>> next(std::size_t count) override {
        count = std::min(count, size() - at_);
        if (count == 0) return std::optional<Batch>();
        Batch batch;
        batch.inputs.emplace_back("x", DataType::float32, Shape{static_cast<std::int64_t>(count), 1});
        for (std::size_t i = 0; i < count; ++i, ++at_) {
            batch.inputs[0].as<float>()[i] = at_ % 2 == 0 ? 0.0F : 0.02F * static_cast<float>(at_ / 2);
            batch.names.push_back(std::to_string(at_));
            batch.labels.push_back(-1);
            if (scored_) batch.scores.push_back(5 - static_cast<double>(at_ / 2) * 0.1);
        }
        return std::optional<Batch>(std::move(batch));
    }
    void rewind() override { at_ = 0; }
    Result<std::string> digest() const override { return std::string("angles"); }

private:
    std::size_t pairs_;
    bool scored_;
    std::size_t at_ = 0;
};

/// The unit vector at the angle (of twice the length, to see that lengths do not count), plus an error.
class Vectors final : public Predictor {
public:
    explicit Vectors(std::string name, float error = 0, std::int64_t width = 2)
        : name_(std::move(name)), error_(error), width_(width) {}
    const std::string& name() const override { return name_; }
    const std::string& precision() const override { return precision_; }
    Result<HostTensor> predict(const Batch& batch) override {
        const auto width = static_cast<std::size_t>(width_);
        HostTensor output("embedding", DataType::float32, {static_cast<std::int64_t>(batch.size()), width_});
        for (std::size_t i = 0; i < batch.size(); ++i) {
            const float angle = batch.inputs[0].as<float>()[i];
            output.as<float>()[i * width] = 2 * std::cos(angle) + error_;
            output.as<float>()[i * width + 1] = 2 * std::sin(angle);
            if (batch.names[i] == broken) output.as<float>()[i * width] = std::numeric_limits<float>::quiet_NaN();
        }
        return output;
    }
    std::string broken;

private:
    std::string name_;
    std::string precision_ = "fp32";
    float error_;
    std::int64_t width_;
};

Result<SimilarityEvaluation> run(std::vector<Predictor*> subjects, Predictor* reference, Dataset& data,
                                 std::size_t batch = 7) {
    EvaluateOptions options;
    options.batch_size = batch;
    return evaluate_similarity(subjects, reference, data, options, no_progress());
}

TEST(Similarity, CorrelatesCosinesWithScores) {
    Angles data(40);
    Vectors exact("exact");
    const auto evaluation = run({&exact}, nullptr, data);
    ASSERT_TRUE(evaluation) << evaluation.error().describe();
    EXPECT_EQ(evaluation->pairs, 40U);
    EXPECT_EQ(evaluation->width, 2U);
    const SimilaritySubject& subject = evaluation->subjects.at(0);
    EXPECT_DOUBLE_EQ(subject.spearman, 1); // the cosine falls as the score does
    std::vector<double> cosines;
    std::vector<double> scores;
    for (int i = 0; i < 40; ++i) {
        cosines.push_back(std::cos(0.02 * i));
        scores.push_back(5 - 0.1 * i);
    }
    EXPECT_NEAR(subject.pearson, pearson(cosines, scores), 1e-6);
    EXPECT_FALSE(subject.versus);
}

TEST(Similarity, DoesNotDependOnTheBatch) {
    Vectors off("off", 0.5F);
    Vectors exact("exact");
    std::vector<double> results;
    for (const std::size_t batch : {1U, 7U, 100U}) {
        Angles data(25);
        const auto evaluation = run({&off}, &exact, data, batch);
        ASSERT_TRUE(evaluation);
        results.push_back(evaluation->subjects.at(1).pearson);
    }
    EXPECT_DOUBLE_EQ(results[0], results[1]);
    EXPECT_DOUBLE_EQ(results[0], results[2]);
}

TEST(Similarity, ComparesWithTheReference) {
    Angles data(30);
    Vectors reference("fp32");
    Vectors same("same");
    Vectors off("off", 0.25F);
    const auto evaluation = run({&same, &off}, &reference, data);
    ASSERT_TRUE(evaluation);
    ASSERT_EQ(evaluation->subjects.size(), 3U);
    EXPECT_FALSE(evaluation->subjects[0].versus);
    const EmbeddingFidelity& equal = *evaluation->subjects[1].versus;
    EXPECT_EQ(equal.reference, "fp32");
    EXPECT_EQ(equal.texts, 60U);
    EXPECT_DOUBLE_EQ(equal.mean_cosine, 1);
    EXPECT_DOUBLE_EQ(equal.agreement, 1);
    EXPECT_EQ(equal.spearman_delta, 0);
    EXPECT_TRUE(std::isinf(equal.sqnr_db));
    const EmbeddingFidelity& other = *evaluation->subjects[2].versus;
    EXPECT_LT(other.mean_cosine, 1);
    EXPECT_LE(other.least_cosine, other.mean_cosine);
    EXPECT_NEAR(other.max_abs_error, 0.25, 1e-6);
    EXPECT_NEAR(other.sqnr_db, 20 * std::log10(2 / 0.25), 1e-5);
    const Json json = to_json(*evaluation);
    EXPECT_TRUE(json[1]["vs_reference"]["sqnr_db"].is_null());
    EXPECT_EQ(json[2]["samples"], 30);
    EXPECT_EQ(json[2]["spearman_ci95"].size(), 2U);
}

/// Pairs as one sample each: x is the score, bent.
class JointPairs final : public Dataset {
public:
    std::size_t size() const override { return 20; }
    bool has_labels() const override { return true; }
    Result<std::optional<Batch>> next(std::size_t count) override {
        count = std::min(count, size() - at_);
        if (count == 0) return std::optional<Batch>();
        Batch batch;
        batch.inputs.emplace_back("x", DataType::float32, Shape{static_cast<std::int64_t>(count), 1});
        for (std::size_t i = 0; i < count; ++i, ++at_) {
            batch.inputs[0].as<float>()[i] = static_cast<float>(at_ * at_);
            batch.names.push_back(std::to_string(at_));
            batch.labels.push_back(-1);
            batch.scores.push_back(static_cast<double>(at_));
        }
        return std::optional<Batch>(std::move(batch));
    }
    void rewind() override { at_ = 0; }
    Result<std::string> digest() const override { return std::string("joint"); }

private:
    std::size_t at_ = 0;
};

/// One value a pair, [batch, 1] or [batch]: x plus an error at every other pair.
class CrossEncoder final : public Predictor {
public:
    CrossEncoder(std::string name, float error, bool flat) : name_(std::move(name)), error_(error), flat_(flat) {}
    const std::string& name() const override { return name_; }
    const std::string& precision() const override { return precision_; }
    Result<HostTensor> predict(const Batch& batch) override {
        const auto count = static_cast<std::int64_t>(batch.size());
        HostTensor output("logits", DataType::float32, flat_ ? Shape{count} : Shape{count, 1});
        for (std::size_t i = 0; i < batch.size(); ++i) {
            const float x = batch.inputs[0].as<float>()[i];
            output.as<float>()[i] = x + (std::stoi(batch.names[i]) % 2 == 0 ? error_ : 0.0F);
            if (batch.names[i] == broken) output.as<float>()[i] = std::numeric_limits<float>::infinity();
        }
        return output;
    }
    std::string broken;

private:
    std::string name_;
    std::string precision_ = "fp32";
    float error_;
    bool flat_;
};

TEST(Similarity, OfACrossEncoderIsItsOutput) {
    for (const bool flat : {false, true}) {
        CrossEncoder reference("fp32", 0, flat);
        CrossEncoder off("off", 30, flat);
        JointPairs data;
        std::vector<Predictor*> subjects{&off};
        EvaluateOptions options;
        options.batch_size = 7;
        const auto evaluation =
            evaluate_similarity(subjects, &reference, data, options, no_progress(), PairScore::output);
        ASSERT_TRUE(evaluation) << evaluation.error().describe();
        EXPECT_EQ(evaluation->pairs, 20U);
        EXPECT_EQ(evaluation->width, 1U);
        std::vector<double> squares;
        std::vector<double> moved;
        std::vector<double> scores;
        for (int i = 0; i < 20; ++i) {
            squares.push_back(i * i);
            moved.push_back(i * i + (i % 2 == 0 ? 30 : 0));
            scores.push_back(i);
        }
        EXPECT_DOUBLE_EQ(evaluation->subjects[0].spearman, 1);
        EXPECT_NEAR(evaluation->subjects[0].pearson, pearson(squares, scores), 1e-9);
        EXPECT_LT(evaluation->subjects[0].pearson, 0.99) << "a cosine would be 1 or -1";
        EXPECT_NEAR(evaluation->subjects[1].spearman, spearman(moved, scores), 1e-12);
        EXPECT_NEAR(evaluation->subjects[1].versus->agreement, spearman(squares, moved), 1e-12);
        EXPECT_EQ(evaluation->subjects[1].versus->texts, 20U);
        EXPECT_NEAR(evaluation->subjects[1].versus->max_abs_error, 30, 1e-6);
        const Json json = to_json(*evaluation);
        EXPECT_TRUE(json[1]["vs_reference"]["cosine"].is_null());
        EXPECT_TRUE(json[1]["vs_reference"]["least_cosine"].is_null());
        EXPECT_TRUE(json[1]["vs_reference"]["sqnr_db"].is_number());
    }
}

TEST(Similarity, ACrossEncodersInfinityIsTheLeastAlike) {
    CrossEncoder broken("broken", 0, false);
    broken.broken = "19"; // the most alike by score
    JointPairs data;
    std::vector<Predictor*> subjects{&broken};
    const auto evaluation = evaluate_similarity(subjects, nullptr, data, {}, no_progress(), PairScore::output);
    ASSERT_TRUE(evaluation);
    EXPECT_EQ(evaluation->subjects[0].nonfinite, 1U);
    std::vector<double> outputs;
    std::vector<double> scores;
    for (int i = 0; i < 20; ++i) {
        outputs.push_back(i == 19 ? 0 : i * i);
        scores.push_back(i);
    }
    EXPECT_NEAR(evaluation->subjects[0].spearman, spearman(outputs, scores), 1e-12);
    Vectors wide("wide");
    std::vector<Predictor*> others{&wide};
    data.rewind();
    const auto refused = evaluate_similarity(others, nullptr, data, {}, no_progress(), PairScore::output);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().describe(), HasSubstr("pairs of texts"));
}

TEST(Similarity, NonfiniteEmbeddingsAreCounted) {
    Angles data(10);
    Vectors broken("broken");
    broken.broken = "5";
    const auto evaluation = run({&broken}, nullptr, data);
    ASSERT_TRUE(evaluation);
    EXPECT_EQ(evaluation->subjects[0].nonfinite, 1U);
    EXPECT_LT(evaluation->subjects[0].spearman, 1);
}

TEST(Similarity, Refuses) {
    Vectors exact("exact");
    Vectors wide("wide", 0, 3);
    Angles unscored(3, false);
    EXPECT_THAT(run({&exact}, nullptr, unscored).error().describe(), HasSubstr("no scored pairs"));
    Angles data(3);
    EXPECT_THAT(run({&wide}, &exact, data).error().describe(), HasSubstr("3 values"));
    EXPECT_FALSE(run({}, nullptr, data));
}

} // namespace
} // namespace lathe
