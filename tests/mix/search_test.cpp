#include "mix/search.hpp"

#include <algorithm>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>

#include "mix/engine_workshop.hpp"
#include "support/progress.hpp"

namespace lathe::test {
namespace {

using testing::ElementsAre;

/// A device on which layer i costs gain[i] ms more in float, and damage adds up. Accuracy: what is lost in points is
/// ten times the KL, so that the limit is one on the sum of damage.
struct World {
    std::vector<double> damage{0.050, 0.001, 0.002, 0.030, 0.001, 0.002, 0.001, 0.004};
    std::vector<double> gain{0.02, 0.50, 0.40, 0.05, 0.30, 0.30, 0.20, 0.10};
    double int8_ms = 1.0;
    double conversion_ms = 0.0;
    bool bf16 = false;
    bool int8 = true;
    bool fp16 = false;
    std::uint64_t fp16_nonfinite = 0; ///< samples that overflow
    bool overflows_alone = true;      ///< in FP16, without INT8, as well
    double fp16_kl = 0.00005;
    double fp32_slowness = 1; ///< how many times as slow as given a float layer is in FP32
    double luck = 1;          ///< by how much mixes with this many layers in INT8 or fewer look faster when tried
    std::size_t lucky_layers = 0;
};

class FakeWorkshop final : public MixWorkshop {
public:
    explicit FakeWorkshop(World world) : world_(std::move(world)) {}

    Result<Trial> measure(const Mix& mix, const Trial* reference) override {
        measured.push_back(mix.key());
        if (fail_after && measured.size() > *fail_after) return Error{ErrorCode::cancelled, "killed", "", ""};
        Trial trial;
        trial.mix = mix;
        trial.seconds = 10;
        const bool bf16 = mix.base == Precision::bfloat16;
        const bool fp16 = mix.base == Precision::float16;
        if (bf16 && !world_.bf16) trial.failed = "no bf16 here";
        if (fp16 && !world_.fp16) trial.failed = "no fp16 here";
        if (mix.any_int8() && !world_.int8) trial.failed = "no int8 here";
        double ms = world_.int8_ms;
        double kl = bf16 ? 0.0001 : fp16 ? world_.fp16_kl : 0;
        for (std::size_t i = 0; i < mix.int8.size(); ++i) {
            const double share = bf16 ? 0.5 : fp16 ? 0.45 : world_.fp32_slowness;
            ms += mix.int8[i] ? 0 : world_.gain[i] * share + (mix.any_int8() ? world_.conversion_ms : 0);
            kl += mix.int8[i] ? world_.damage[i] : 0;
        }
        trial.latency_ms = ms;
        if (mix.any_int8() && mix.int8_layers() <= world_.lucky_layers) trial.latency_ms /= world_.luck;
        trial.speedup = reference == nullptr ? 1 : reference->speedup * reference->latency_ms / trial.latency_ms;
        trial.speedup_ci95 = {trial.speedup, trial.speedup};
        trial.score.samples = 1000;
        trial.score.labelled = 1000;
        trial.score.kl = kl * 1000;
        trial.score.nonfinite = fp16 && (world_.overflows_alone || mix.any_int8()) ? world_.fp16_nonfinite : 0;
        trial.score.reference_right = 800;
        trial.score.right = 800 - static_cast<std::uint64_t>(std::llround(100 * kl));
        trial.score.soft_reference_right = 800;
        trial.score.soft_right = static_cast<double>(trial.score.right);
        return trial;
    }
    Result<Timing> time_again(const Mix& mix, const Trial& reference) override {
        World fair = world_;
        fair.luck = 1;
        LATHE_TRY(const Trial trial, FakeWorkshop(fair).measure(mix, &reference));
        measured.push_back("again " + mix.key());
        if (fail_after && measured.size() > *fail_after) return Error{ErrorCode::cancelled, "killed", "", ""};
        return static_cast<const Timing&>(trial);
    }
    Result<std::vector<double>> gains(const Mix& /*base*/, const Mix& /*int8*/) override { return world_.gain; }

    std::vector<std::string> measured;
    std::optional<std::size_t> fail_after;

private:
    World world_;
};

SearchOptions limits(double max_drop) {
    SearchOptions options;
    options.max_drop = max_drop;
    options.slack = 0.03;
    options.budget_s = 1e6;
    return options;
}

SearchState begin(const World& world) {
    SearchState state;
    state.damage = world.damage;
    return state;
}

Trial search(const World& world, const SearchOptions& options, SearchState* kept = nullptr) {
    FakeWorkshop workshop(world);
    SearchState state = begin(world);
    const auto done = search_mix(
        state, options, workshop, [](const auto&, std::size_t, auto) { return Result<void>(); }, no_progress());
    EXPECT_TRUE(done) << done.error().describe();
    if (kept != nullptr) *kept = state;
    return state.trials[choose(state.trials, options).value()];
}

TEST(SearchMix, EverythingInInt8WhereThatIsGoodEnough) {
    World world;
    world.damage.assign(8, 0.0);
    const Trial best = search(world, limits(0.3));
    EXPECT_EQ(best.mix.int8_layers(), 8U);
    EXPECT_GT(best.speedup, 2.5);
}

TEST(SearchMix, KeepsTheHarmfulLayersThatCostLittle) {
    // 0.091 in all: 9 right answers of 1000. At most 2 may go: layers 0 and 3 must stay, and it takes no others.
    const Trial best = search(World{}, limits(0.2));
    EXPECT_FALSE(best.mix.int8[0]);
    EXPECT_FALSE(best.mix.int8[3]);
    for (const std::size_t layer : {1U, 2U, 4U, 5U, 6U})
        EXPECT_TRUE(best.mix.int8[layer]) << layer;
}

TEST(SearchMix, SpendsTheSlackOnAccuracyOnly) {
    World world;
    world.damage = {0.004, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001};
    world.gain[0] = 0.01;
    const SearchOptions options = limits(5);
    SearchState state;
    const Trial best = search(world, options, &state);
    EXPECT_FALSE(best.mix.int8[0]) << "it costs 1 % and does half of the damage";
    double fastest = 0;
    for (const Trial& trial : state.trials)
        fastest = std::max(fastest, trial.speedup);
    EXPECT_GE(best.speedup, fastest * (1 - options.slack));
    SearchOptions none = options;
    none.slack = 0;
    EXPECT_EQ(search(world, none).mix.int8_layers(), 8U);
}

/// Nothing of use to gain, and mixes that look 4 % faster when tried.
World lucky_world() {
    World world;
    world.damage = {0.004, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001};
    world.gain = {0.01, 0.01, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5};
    world.conversion_ms = 0.04; // each layer over the slack by itself, which its own gain does not tell
    world.luck = 1.04;
    world.lucky_layers = 7;
    return world;
}

TEST(SearchMix, LuckWhenTriedIsNotHandedOut) {
    const SearchOptions options = limits(5);
    SearchState state;
    const Trial best = search(lucky_world(), options, &state);
    ASSERT_EQ(best.mix.int8_layers(), 8U) << "5 % is more than the slack, however one timing looked";
    const auto again =
        std::ranges::count_if(state.trials, [](const Trial& trial) { return trial.as_tried.has_value(); });
    EXPECT_GT(again, 0);
    for (const Trial& trial : state.trials) {
        if (!trial.as_tried) continue;
        EXPECT_GE(trial.as_tried->speedup, best.speedup * (1 - options.slack)) << "looked good enough";
        EXPECT_NEAR(trial.as_tried->speedup / trial.speedup, 1.04, 1e-9);
    }
    World fair = lucky_world();
    fair.luck = 1;
    search(fair, options, &state);
    for (const Trial& trial : state.trials)
        EXPECT_FALSE(trial.as_tried) << "INT8 throughout is what the others are timed beside";
}

TEST(SearchMix, FloatWhereNothingElseIsGoodEnough) {
    World fragile;
    fragile.damage.assign(8, 0.02); // two right answers of 1000 for any layer
    EXPECT_EQ(search(fragile, limits(0)).mix.int8_layers(), 0U);
    World slow;
    slow.gain.assign(8, -0.01); // INT8 is slower: FP32 is the faster and the better engine
    EXPECT_EQ(search(slow, limits(100)).mix.name(), "FP32");
    World without;
    without.int8 = false;
    EXPECT_EQ(search(without, limits(100)).mix.name(), "FP32");
}

TEST(SearchMix, TakesWhatTheDeviceOffers) {
    World world;
    world.bf16 = true;
    SearchOptions options = limits(0.2);
    options.floats = {Precision::float32, Precision::bfloat16};
    options.bases = options.floats;
    const Trial best = search(world, options);
    EXPECT_EQ(best.mix.base, Precision::bfloat16);
    EXPECT_TRUE(best.mix.any_int8());
    world.bf16 = false; // listed, but not there: a failed trial and not the end
    SearchState state;
    EXPECT_EQ(search(world, options, &state).mix.base, Precision::float32);
    EXPECT_TRUE(std::ranges::any_of(state.trials, [](const Trial& trial) { return !trial.failed.empty(); }));
}

/// A GPU: FP16 is usual and fast, FP32 slow.
World gpu_world() {
    World world;
    world.bf16 = true;
    world.fp16 = true;
    world.fp32_slowness = 5;
    return world;
}

SearchOptions gpu_limits(double max_drop) {
    SearchOptions options = limits(max_drop);
    const DevicePrecisions precisions = precisions_of("cuda");
    options.floats = precisions.floats;
    options.bases = precisions.bases;
    return options;
}

/// Trials with INT8 and this beside it.
std::size_t beside_int8(const SearchState& state, Precision base) {
    return static_cast<std::size_t>(std::ranges::count_if(
        state.trials, [&](const Trial& trial) { return trial.mix.any_int8() && trial.mix.base == base; }));
}

TEST(SearchMix, AnotherBaseWhereTheUsualOneOverflows) {
    World world = gpu_world();
    world.fp16_nonfinite = 3;
    SearchState state;
    const Trial bf16 = search(world, gpu_limits(0.2), &state);
    EXPECT_EQ(bf16.mix.base, Precision::bfloat16);
    EXPECT_TRUE(bf16.mix.any_int8());
    EXPECT_EQ(beside_int8(state, Precision::float16), 1U) << "FP16 everywhere else is known to overflow as well";
    world.overflows_alone = false;
    EXPECT_EQ(search(world, gpu_limits(0.2), &state).mix.base, Precision::bfloat16) << "what INT8 hands on overflows";
    world.overflows_alone = true;
    world.bf16 = false;
    const Trial fp32 = search(world, gpu_limits(0.2), &state);
    EXPECT_EQ(fp32.mix.base, Precision::float32);
    EXPECT_TRUE(fp32.mix.any_int8());
}

TEST(SearchMix, AnotherBaseWhereTheUsualOneLosesTooMuch) {
    World world = gpu_world();
    world.fp16_kl = 0.5; // finite, and 50 right answers of 1000
    SearchState state;
    const Trial best = search(world, gpu_limits(0.2), &state);
    EXPECT_EQ(best.mix.base, Precision::bfloat16);
    EXPECT_TRUE(best.mix.any_int8());
    EXPECT_EQ(beside_int8(state, Precision::float16), 1U);
}

TEST(SearchMix, NoTrialsWithABaseThatPromisesNothing) {
    SearchState state;
    const Trial best = search(gpu_world(), gpu_limits(0.2), &state);
    EXPECT_EQ(best.mix.base, Precision::float16);
    EXPECT_EQ(beside_int8(state, Precision::bfloat16), 0U) << "slower than FP16 and loses more";
    EXPECT_EQ(beside_int8(state, Precision::float32), 0U) << "a fifth of its speed";
    SearchOptions none = gpu_limits(0.2);
    none.budget_s = 0;
    World overflowing = gpu_world();
    overflowing.fp16_nonfinite = 3;
    search(overflowing, none, &state);
    EXPECT_EQ(state.trials.size(), 5U)
        << "three plain engines, INT8 beside FP16, and beside one that does not overflow";
}

/// FP32 itself gives something else the second time, as atomic sums do, or no numbers.
class UnsteadyWorkshop final : public MixWorkshop {
public:
    explicit UnsteadyWorkshop(std::uint64_t nonfinite) : nonfinite_(nonfinite) {}
    Result<Trial> measure(const Mix& mix, const Trial* /*reference*/) override {
        Trial trial;
        trial.mix = mix;
        trial.score.samples = 1000;
        trial.score.labelled = 1000;
        trial.score.soft_reference_right = 800;
        trial.score.soft_right = mix.any_int8() ? 790 : 799.99;
        trial.score.nonfinite = nonfinite_;
        return trial;
    }
    Result<Timing> time_again(const Mix& /*mix*/, const Trial& /*reference*/) override { return Timing{}; }
    Result<std::vector<double>> gains(const Mix& base, const Mix& /*int8*/) override {
        return std::vector<double>(base.int8.size(), 1.0);
    }

private:
    std::uint64_t nonfinite_;
};

TEST(SearchMix, Fp32KeepsAnyLimitUnlessItGivesNoNumbers) {
    const SearchOptions options = limits(0);
    const auto ignore = [](const auto&, std::size_t, auto) { return Result<void>(); };
    SearchState state = begin(World{});
    UnsteadyWorkshop unsteady(0);
    ASSERT_TRUE(search_mix(state, options, unsteady, ignore, no_progress()));
    EXPECT_EQ(state.trials[choose(state.trials, options).value()].mix.name(), "FP32");
    SearchState none = begin(World{});
    UnsteadyWorkshop broken(2);
    const auto stopped = search_mix(none, options, broken, ignore, no_progress());
    ASSERT_FALSE(stopped);
    EXPECT_EQ(stopped.error().code, ErrorCode::out_of_range);
    EXPECT_THAT(stopped.error().describe(), testing::HasSubstr("2 of 1000"));
}

TEST(SearchMix, PrecisionsOfADevice) {
    EXPECT_EQ(precisions_of("cuda").bases.front(), Precision::float16);
    EXPECT_EQ(precisions_of("cpu").bases.front(), Precision::float32);
    for (const char* device : {"cpu", "cuda", "tensorrt"}) {
        const auto [floats, bases] = precisions_of(device);
        EXPECT_EQ(floats.front(), Precision::float32) << "what the others are compared with";
        EXPECT_THAT(bases, testing::UnorderedElementsAreArray(floats)) << device;
    }
}

TEST(SearchMix, SaysWhereTheSpeedIsNotReached) {
    SearchOptions options = limits(0.2);
    options.min_speedup = 100;
    const Trial best = search(World{}, options);
    EXPECT_FALSE(is_feasible(best, options)) << "handed out all the same, and judged as missing it";
    EXPECT_TRUE(is_feasible(best, options, false));
}

TEST(SearchMix, StopsWhenTheTimeIsUp) {
    SearchOptions options = limits(0.2);
    options.budget_s = 0;
    SearchState state;
    const Trial best = search(World{}, options, &state);
    EXPECT_EQ(state.trials.size(), 2U) << "FP32 and INT8 are measured in any case";
    EXPECT_EQ(best.mix.name(), "FP32");
    options.budget_s = 1e6;
    options.most_trials = 5;
    search(World{}, options, &state);
    EXPECT_LE(state.trials.size(), 5U);
}

/// Killed after every possible number of trials and resumed from what was kept: the same trials, the same answer.
TEST(SearchMix, KilledAndResumedGivesTheSame) {
    World overflowing = gpu_world();
    overflowing.fp16_nonfinite = 3;
    for (const auto& [world, options] :
         {std::pair{World{}, limits(0.2)}, std::pair{World{}, limits(5.0)}, std::pair{lucky_world(), limits(5.0)},
          std::pair{overflowing, gpu_limits(0.2)}}) {
        SearchState whole = begin(world);
        FakeWorkshop through{world};
        const auto ignore = [](const auto&, std::size_t, auto) { return Result<void>(); };
        ASSERT_TRUE(search_mix(whole, options, through, ignore, no_progress()));
        const std::string expected = whole.trials[choose(whole.trials, options).value()].mix.key();
        const std::size_t steps = through.measured.size();
        EXPECT_GT(steps, whole.trials.size()) << "some were timed again";
        for (std::size_t killed = 0; killed <= steps; ++killed) {
            SearchState kept = begin(world);
            FakeWorkshop first{world};
            first.fail_after = killed;
            Json journal;
            const auto found = [&](const SearchState& state, std::size_t, auto) -> Result<void> {
                journal = Json::array();
                for (const Trial& trial : state.trials)
                    journal.push_back(to_json(trial));
                return {};
            };
            const auto stopped = search_mix(kept, options, first, found, no_progress());
            EXPECT_EQ(stopped.has_value(), killed == steps);
            SearchState resumed = begin(world);
            for (const Json& trial : Json::parse(journal.is_null() ? "[]" : journal.dump()))
                resumed.trials.push_back(trial_from_json(trial).value());
            EXPECT_EQ(resumed.trials.size(), std::min(killed, whole.trials.size()));
            FakeWorkshop second{world};
            ASSERT_TRUE(search_mix(resumed, options, second, found, no_progress()));
            EXPECT_EQ(second.measured.size(), steps - killed) << "nothing is measured twice";
            ASSERT_EQ(resumed.trials.size(), whole.trials.size());
            for (std::size_t i = 0; i < whole.trials.size(); ++i) {
                Json resumed_trial = to_json(resumed.trials[i]);
                resumed_trial["seconds"] = whole.trials[i].seconds; // of timing again by the clock
                EXPECT_EQ(resumed_trial, to_json(whole.trials[i]));
            }
            EXPECT_EQ(resumed.trials[choose(resumed.trials, options).value()].mix.key(), expected);
        }
    }
}

/// A trial of FP32's that says no more than this.
Trial scored(double speedup, double kl, double noise = 0) {
    Trial made;
    made.speedup = speedup;
    made.speedup_ci95 = {speedup, speedup};
    made.score.samples = 1;
    made.score.kl = kl;
    made.score.noise = noise;
    made.score.signal = 1;
    return made;
}

TEST(SearchMix, OrderAndFront) {
    EXPECT_THAT(order_layers({1, 2, 3, 0.5}, {1, 1, 0, -1}), ElementsAre(2, 3, 1, 0));
    std::vector<Trial> trials{scored(1, 0), scored(3, 0.5), scored(2, 0.6), scored(2.5, 0.1), scored(9, 0.01)};
    trials[4].failed = "not built";
    EXPECT_THAT(pareto_front(trials, DamageMetric::kl), ElementsAre(1, 3, 0));
    trials[3].score.nonfinite = 1;
    EXPECT_THAT(pareto_front(trials, DamageMetric::kl), ElementsAre(1, 0)) << "NaN loses everything";
}

TEST(SearchMix, FrontByWhatIsLimited) {
    // Losing 3 and 1 right answers of 1000, winning 2, and FP32.
    std::vector<Trial> trials{scored(4, 0.1), scored(3, 0.3), scored(2, 0.2), scored(1, 0)};
    const double right[]{797, 799, 802, 800};
    for (std::size_t i = 0; i < trials.size(); ++i) {
        trials[i].score.samples = 1000;
        trials[i].score.labelled = 1000;
        trials[i].score.soft_reference_right = 800;
        trials[i].score.soft_right = right[i];
    }
    EXPECT_THAT(pareto_front(trials, DamageMetric::kl), ElementsAre(0, 3));
    EXPECT_THAT(pareto_front(trials, DamageMetric::top1), ElementsAre(0, 1, 2, 3))
        << "what is won is chance: FP32 is not beaten by it";
}

TEST(SearchMix, RankedByNoiseWhereValuesCount) {
    // The second one's softmax over features looks better, its values are farther off.
    std::vector<Trial> trials{scored(2, 0.2, 0.01), scored(2, 0.1, 0.02), scored(1, 0, 0)};
    SearchOptions options = limits(100);
    options.metric = DamageMetric::sqnr;
    EXPECT_EQ(choose(trials, options), 0U);
    EXPECT_THAT(pareto_front(trials, DamageMetric::sqnr), ElementsAre(0, 2));
    options.metric = DamageMetric::kl;
    EXPECT_EQ(choose(trials, options), 1U);
    EXPECT_THAT(pareto_front(trials, DamageMetric::kl), ElementsAre(1, 2));
    for (const DamageMetric metric : {DamageMetric::top1, DamageMetric::agreement, DamageMetric::kl})
        EXPECT_DOUBLE_EQ(loss_of(trials[0].score, metric), 0.2);
    EXPECT_DOUBLE_EQ(loss_of(trials[0].score, DamageMetric::sqnr), 0.01);
    EXPECT_EQ(loss_name(DamageMetric::sqnr), std::string("noise/signal"));
}

/// A score of samples that lose `kl` nats each, and more or less by `spread` from part to part.
Score parted(double kl, double spread) {
    Score score;
    score.samples = Score::parts;
    for (std::size_t i = 0; i < Score::parts; ++i) {
        score.part_kl.at(i) = kl + (i % 2 == 0 ? spread : -spread);
        score.part_noise.at(i) = 2 * score.part_kl.at(i);
        score.kl += score.part_kl.at(i);
        score.noise += score.part_noise.at(i);
    }
    score.signal = 100;
    return score;
}

TEST(Mix, LessIsLostBeyondChanceOnly) {
    for (const DamageMetric metric : {DamageMetric::kl, DamageMetric::top1, DamageMetric::sqnr}) {
        EXPECT_TRUE(loses_surely_less(parted(0.9, 0), parted(1, 0), metric)) << "every part says so";
        EXPECT_FALSE(loses_surely_less(parted(1, 0), parted(0.9, 0), metric));
        EXPECT_FALSE(loses_surely_less(parted(1, 0), parted(1, 0), metric));
        // The sum of 16 differences of 0.1, +-0.3 each: 1.6, of which 1.753 sqrt(16) 0.31 = 2.17 is chance.
        EXPECT_FALSE(loses_surely_less(parted(0.9, 0.3), parted(1, 0), metric));
        EXPECT_TRUE(loses_surely_less(parted(0.9, 0.2), parted(1, 0), metric));
        EXPECT_TRUE(loses_surely_less(parted(0.9, 5), parted(1, 5), metric)) << "of the same samples: pairs tell";
    }
}

TEST(Mix, ATaskLimitsByItsMetricAndRanksByTheFloatNetworksAnswers) {
    Score score;
    score.samples = 32;
    TaskScore task;
    task.reference = 0.30;
    task.metric = 0.31; // won, by chance
    task.agreement = 0.9;
    task.part_agreement.fill(0.9);
    score.task = task;
    EXPECT_NEAR(drop_of(score, DamageMetric::task), -1, 1e-9);
    EXPECT_EQ(score.damage(DamageMetric::task), 0);
    EXPECT_NEAR(loss_of(score, DamageMetric::task), 0.1, 1e-12);
    EXPECT_STREQ(drop_unit(DamageMetric::task), "pt");
    EXPECT_NEAR(loss_from_json(to_json(score), DamageMetric::task).value(), 0.1, 1e-12);
    EXPECT_FALSE(loss_from_json(to_json(Score()), DamageMetric::task)) << "the file was made without a task";
    const auto kept = score_from_json(sums_to_json(score));
    ASSERT_TRUE(kept && kept->task);
    EXPECT_EQ(kept->task->metric, task.metric);
    EXPECT_EQ(kept->task->part_agreement, task.part_agreement);
    Score worse = score;
    worse.task->agreement = 0.85;
    worse.task->part_agreement.fill(0.85);
    EXPECT_TRUE(loses_surely_less(score, worse, DamageMetric::task));
    EXPECT_FALSE(loses_surely_less(worse, score, DamageMetric::task));
    for (std::size_t i = 0; i < Score::parts; ++i)
        worse.task->part_agreement.at(i) = i % 2 == 0 ? 0.65 : 1.05; // 0.05 on average, +-0.2
    EXPECT_FALSE(loses_surely_less(score, worse, DamageMetric::task)) << "chance";
}

TEST(SearchMix, NoSpeedForWhatMayBeChance) {
    std::vector<Trial> trials{scored(2, 0), scored(1.98, 0), scored(1, 0)};
    trials[0].mix = trials[1].mix = Mix::all_int8(Precision::float32, 1);
    trials[0].score = parted(1, 0);
    trials[1].score = parted(0.9, 0.3);
    trials[2].score = parted(0, 0);
    SearchOptions options = limits(100);
    options.metric = DamageMetric::kl;
    EXPECT_EQ(choose(trials, options), 0U) << "0.9 or 1 is chance";
    trials[1].score = parted(0.9, 0.2);
    EXPECT_EQ(choose(trials, options), 1U);
    trials.push_back(trials[1]);
    trials[3].speedup = 1.97;
    trials[3].score = parted(0.89, 0.3);
    EXPECT_EQ(choose(trials, options), 1U) << "what it has less than that one is chance again";
    trials[3].score = parted(0.8, 0.2);
    EXPECT_EQ(choose(trials, options), 3U);
    trials.pop_back();
    options.max_drop = 0.95; // what keeps the limit is another question
    trials[1].score = parted(0.9, 0.3);
    EXPECT_EQ(choose(trials, options), 1U);
}

TEST(SearchMix, ThePlainerOfTwoThatAreAsFast) {
    std::vector<Trial> trials{scored(2, 0.1), scored(2.01, 0.2), scored(1, 0)};
    for (Trial& trial : trials)
        trial.mix = Mix::all_int8(Precision::float32, 1);
    trials[1].mix.base = Precision::bfloat16;
    trials[1].speedup_ci95 = {1.99, 2.03};
    SearchOptions options = limits(100);
    options.slack = 0;
    EXPECT_EQ(choose(trials, options), 0U);
    trials[1].speedup_ci95 = {2.005, 2.015};
    EXPECT_EQ(choose(trials, options), 1U);
}

TEST(Mix, LossOfALayerInAResult) {
    const Json layer = to_json(scored(1, 0.2, 0.01).score);
    EXPECT_NEAR(loss_from_json(layer, DamageMetric::sqnr).value(), 0.01, 1e-12);
    EXPECT_DOUBLE_EQ(loss_from_json(layer, DamageMetric::top1).value(), 0.2);
    EXPECT_EQ(loss_from_json(to_json(scored(1, 0, 0).score), DamageMetric::sqnr).value(), 0) << "no noise at all";
    EXPECT_FALSE(loss_from_json(Json::object(), DamageMetric::sqnr));
    EXPECT_FALSE(loss_from_json(Json{{"sqnr_db", 20}}, DamageMetric::kl));
}

TEST(Mix, KeysAndNames) {
    Mix mix{Precision::bfloat16, {true, false, true}};
    EXPECT_EQ(mix.key(), "bf16:101");
    EXPECT_EQ(mix_from_key(mix.key()).value(), mix);
    EXPECT_EQ(mix.name(), "INT8, 1 layer BF16");
    EXPECT_EQ(Mix::all_float(Precision::float16, 3).name(), "FP16");
    for (const char* wrong : {"", "fp32", "fp99:01", "fp32:01x"})
        EXPECT_FALSE(mix_from_key(wrong)) << wrong;
    EXPECT_FALSE(trial_from_json(Json::object()));
    EXPECT_FALSE(trial_from_json(Json("text")));
}

} // namespace
} // namespace lathe::test
