#include "mix/search.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "support/clock.hpp"

namespace lathe {

namespace {

/// A layer whose return to INT8 would gain less than this share of the latency is left where it is: the gain is lost in
/// the noise, and each trial is one more chance to be deceived by the samples.
constexpr double least_gain = 0.004;
/// Shares of the time that `slack` leaves, which polishing tries to spend.
constexpr double polish_steps[] = {0.9, 0.6, 0.3};
constexpr std::size_t polish_singles = 3;
/// A float precision that is slower than this share of another's speed is not tried in its place, though it loses less:
/// the layers kept float would cost what INT8 gains.
constexpr double least_base_speed = 0.5;

/// The fastest within the limits, or nullptr. Whoever was tried later, and is less plain, must be faster beyond noise.
const Trial* fastest_of(const std::vector<Trial>& trials, const SearchOptions& options, bool with_speed) {
    const Trial* fastest = nullptr;
    for (const Trial& trial : trials) {
        if (!is_feasible(trial, options, with_speed)) continue;
        if (fastest == nullptr || trial.speedup_ci95.low > fastest->speedup) fastest = &trial;
    }
    return fastest;
}

class Search {
public:
    Search(SearchState& state, const SearchOptions& options, MixWorkshop& workshop, const SearchFound& found,
           Progress& progress)
        : state_(state), options_(options), workshop_(workshop), found_(found), progress_(progress),
          layers_(state.damage.size()) {
        spent_ = state.seconds;
        for (Trial& trial : state.trials) {
            spent_ += trial.seconds;
            if (!trial.as_tried) continue;
            // Each step goes by the figures that it went by at first.
            confirmed_[trial.mix.key()] = trial;
            static_cast<Timing&>(trial) = *std::exchange(trial.as_tried, std::nullopt);
        }
    }

    Result<void> run() {
        progress_.begin("searching the best mix", 0);
        progress_.advance(state_.trials.size());
        LATHE_CHECK(measure_floats());
        LATHE_TRY(const Trial* int8, measure_int8());
        if (int8 == nullptr) return {};
        if (state_.gains.empty()) {
            LATHE_TRY(state_.gains, workshop_.gains(Mix::all_float(base_, layers_), int8->mix));
            // Kept at once: an order from another measurement would be another search.
            LATHE_CHECK(found_(state_, choose(state_.trials, options_).value(), std::nullopt));
        }
        order_ = order_layers(state_.damage, state_.gains);
        if (!is_feasible(*int8, options_, false)) LATHE_CHECK(find_prefix());
        while (!over_) {
            const std::size_t before = state_.trials.size();
            LATHE_CHECK(rebase());
            LATHE_CHECK(tighten());
            LATHE_CHECK(polish());
            if (state_.trials.size() == before) break;
        }
        LATHE_CHECK(confirm());
        progress_.end();
        return {};
    }

private:
    Trial* find(const Mix& mix) {
        const auto found = std::ranges::find(state_.trials, mix, &Trial::mix);
        return found == state_.trials.end() ? nullptr : &*found;
    }

    /// The trial of this mix, made now or in an earlier run; nullptr where the time is up.
    Result<const Trial*> attempt(const Mix& mix, const std::string& phase, const Trial* reference, bool needed) {
        if (const Trial* known = find(mix)) return known;
        LATHE_CHECK(progress_.check());
        const double next = state_.trials.empty() ? 0 : state_.trials.back().seconds;
        if (!needed && (spent_ + next > options_.budget_s || state_.trials.size() >= options_.most_trials)) {
            over_ = true;
            return static_cast<const Trial*>(nullptr);
        }
        LATHE_TRY(Trial trial, workshop_.measure(mix, reference));
        trial.phase = phase;
        spent_ += trial.seconds;
        state_.trials.push_back(std::move(trial));
        progress_.advance();
        if (const auto best = choose(state_.trials, options_))
            LATHE_CHECK(found_(state_, *best, state_.trials.size() - 1));
        return static_cast<const Trial*>(&state_.trials.back());
    }

    Result<void> measure_floats() {
        for (const Precision precision : options_.floats) {
            const Mix mix = Mix::all_float(precision, layers_);
            // A copy: the list of trials may move.
            const Trial* first = find(Mix::all_float(Precision::float32, layers_));
            const std::optional<Trial> reference = first != nullptr ? std::optional(*first) : std::nullopt;
            LATHE_TRY(const Trial* trial, attempt(mix, "float", reference ? &*reference : nullptr, true));
            if (precision == Precision::float32 && !trial->failed.empty()) {
                return Error{ErrorCode::unsupported, "the FP32 engine cannot be built: " + trial->failed, "", ""};
            }
            if (precision == Precision::float32 && trial->score.nonfinite > 0) {
                return Error{ErrorCode::out_of_range,
                             "the FP32 engine gives NaN or infinity for " + std::to_string(trial->score.nonfinite) +
                                 " of " + std::to_string(trial->score.samples) + " samples",
                             "", "nothing can be compared with that: see lathe compare, and the data"};
            }
        }
        return {};
    }

    const Trial* plain(Precision base) { return find(Mix::all_float(base, layers_)); }

    /// Whether an engine wholly in this precision keeps the limit on accuracy; if not, none with INT8 in it will.
    bool keeps_limit(Precision base) {
        const Trial* trial = plain(base);
        return trial == nullptr || is_feasible(*trial, options_, false);
    }

    /// Whether what is not INT8 may be better off in `base` than in `other`: by itself that keeps the limit, and is
    /// faster, or loses less and is not much slower. Told from engines that every search builds, it costs no trial.
    bool promises(Precision base, Precision other) {
        if (!keeps_limit(base)) return false;
        const Trial* own = plain(base);
        const Trial* beside = plain(other);
        if (own == nullptr || beside == nullptr || !keeps_limit(other) || own->speedup > beside->speedup) return true;
        return own->speedup >= least_base_speed * beside->speedup &&
               loss_of(own->score, options_.metric) < loss_of(beside->score, options_.metric);
    }

    /// Everything in INT8, beside precisions that what is not INT8 may have: the usual one in any case, so that INT8 is
    /// always among what was measured, and others as long as none keeps the limit (FP16 that overflows) or they promise
    /// more. The search goes on from the one that would be handed out if all were good enough.
    Result<const Trial*> measure_int8() {
        const Trial reference = *plain(Precision::float32);
        SearchOptions any = options_;
        any.max_drop = std::numeric_limits<double>::infinity();
        any.min_speedup = 0;
        std::vector<Trial> candidates;
        std::optional<Precision> sound; // keeps the limit by itself, and works beside INT8
        for (const Precision base : options_.bases) {
            const Precision usual = options_.bases.front();
            if (base != usual && !(sound ? promises(base, *sound) : keeps_limit(base))) continue;
            // The second beside the first: each beside FP32, two that differ by 1 % were once 17 % apart.
            const Trial beside = candidates.empty() ? reference : candidates.front();
            LATHE_TRY(const Trial* trial, attempt(Mix::all_int8(base, layers_), "int8", &beside, !sound));
            if (trial == nullptr) break;
            if (!trial->failed.empty()) continue;
            const bool keeps = keeps_limit(base) && trial->score.nonfinite == 0;
            if (keeps && !sound) {
                candidates.clear(); // however fast, their float layers alone lose too much
                sound = base;
            }
            if (keeps || !sound) candidates.push_back(*trial);
        }
        const auto best = choose(candidates, any);
        if (!best) return static_cast<const Trial*>(nullptr);
        int8_ = candidates[*best];
        base_ = int8_->mix.base;
        return static_cast<const Trial*>(&*int8_);
    }

    Mix with_floats(std::size_t count) const {
        Mix mix = Mix::all_int8(base_, layers_);
        for (std::size_t i = 0; i < count; ++i)
            mix.int8[order_[i]] = false;
        return mix;
    }

    Result<void> find_prefix() {
        std::size_t infeasible = 0;
        std::size_t feasible = layers_; // everything float
        while (feasible - infeasible > 1) {
            const std::size_t middle = infeasible + (feasible - infeasible) / 2;
            LATHE_TRY(const Trial* trial, attempt(with_floats(middle), "prefix", &*int8_, false));
            if (trial == nullptr) return {};
            (is_feasible(*trial, options_, false) ? feasible : infeasible) = middle;
        }
        return {};
    }

    const Trial& best() const { return state_.trials[choose(state_.trials, options_).value()]; }

    /// The fastest trial within the limits.
    const Trial& fastest() const {
        const Trial* fastest = fastest_of(state_.trials, options_, true);
        return fastest != nullptr ? *fastest : best();
    }

    /// The fastest mix with its float layers in the device's other precisions.
    Result<void> rebase() {
        const Trial from = fastest();
        if (!from.mix.any_int8()) return {};
        for (const Precision base : options_.bases) {
            if (base == from.mix.base || !promises(base, from.mix.base)) continue;
            const Mix mix{base, from.mix.int8};
            if (find(mix) != nullptr) continue;
            LATHE_TRY(const Trial* trial, attempt(mix, "base", &*int8_, false));
            if (trial == nullptr) return {};
        }
        base_ = fastest().mix.base;
        return {};
    }

    Result<void> tighten() {
        for (bool again = true; again && !over_;) {
            again = false;
            const Trial from = fastest();
            if (!from.mix.any_int8()) return {};
            std::vector<std::size_t> kept;
            for (const std::size_t layer : order_) {
                if (!from.mix.int8[layer] && state_.gains[layer] >= least_gain * from.latency_ms) kept.push_back(layer);
            }
            std::ranges::stable_sort(kept,
                                     [&](std::size_t a, std::size_t b) { return state_.gains[a] > state_.gains[b]; });
            for (const std::size_t layer : kept) {
                Mix mix = from.mix;
                mix.int8[layer] = true;
                if (find(mix) != nullptr) continue;
                LATHE_TRY(const Trial* trial, attempt(mix, "tighten", &*int8_, false));
                if (trial == nullptr) return {};
                if (!is_feasible(*trial, options_) || trial->speedup <= from.speedup) continue;
                again = true;
                break;
            }
        }
        return {};
    }

    /// What a layer kept float costs beyond its own time, in ms: values must be converted on both sides. Learned from
    /// the mixes measured so far.
    double conversion_ms() const {
        double sum = 0;
        std::size_t mixes = 0;
        for (const Trial& trial : state_.trials) {
            const std::size_t kept = layers_ - trial.mix.int8_layers();
            if (!trial.failed.empty() || trial.mix.base != base_ || kept == 0 || !trial.mix.any_int8()) continue;
            double rest = trial.latency_ms - int8_->latency_ms;
            for (std::size_t i = 0; i < layers_; ++i)
                rest -= trial.mix.int8[i] ? 0.0 : std::max(0.0, state_.gains[i]);
            sum += rest / static_cast<double>(kept);
            ++mixes;
        }
        const double least = least_gain * int8_->latency_ms;
        return mixes == 0 ? least : std::max(least, sum / static_cast<double>(mixes));
    }

    /// What it costs, in ms, to keep a layer float, conversions included.
    double cost_ms(std::size_t layer, double conversion) const {
        return std::max(0.0, state_.gains[layer]) + conversion;
    }

    /// Layers by damage for cost. Unlike `order_`, one that gains nothing in INT8 is not free: it breaks a run of INT8.
    std::vector<std::size_t> by_worth(double conversion) const {
        std::vector<std::size_t> layers = order_;
        std::ranges::stable_sort(layers, [&](std::size_t a, std::size_t b) {
            return state_.damage[a] / cost_ms(a, conversion) > state_.damage[b] / cost_ms(b, conversion);
        });
        return layers;
    }

    /// Layers still in INT8, the worthiest first, until their predicted cost reaches `room` ms.
    Mix floated(const Mix& from, double room) const {
        Mix mix = from;
        const double conversion = conversion_ms();
        for (const std::size_t layer : by_worth(conversion)) {
            const double cost = cost_ms(layer, conversion);
            if (!mix.int8[layer] || state_.damage[layer] <= 0 || cost > room) continue;
            mix.int8[layer] = false;
            room -= cost;
        }
        return mix;
    }

    Result<void> polish() {
        const Trial from = fastest();
        if (!from.mix.any_int8() || options_.slack <= 0) return {};
        const double room = from.latency_ms * (1 / (1 - options_.slack) - 1);
        for (const double step : polish_steps) {
            LATHE_CHECK(polish_with(floated(from.mix, step * room)));
        }
        std::size_t singles = 0;
        for (const std::size_t layer : by_worth(conversion_ms())) {
            if (singles == polish_singles || over_) break;
            if (!from.mix.int8[layer] || state_.gains[layer] > room) continue;
            Mix mix = from.mix;
            mix.int8[layer] = false;
            LATHE_CHECK(polish_with(mix));
            ++singles;
        }
        return {};
    }

    Result<void> polish_with(const Mix& mix) {
        if (over_ || !mix.any_int8() || find(mix) != nullptr) return {};
        LATHE_TRY(const Trial* trial, attempt(mix, "polish", &*int8_, false));
        (void)trial;
        return {};
    }

    /// Its time beside INT8's is not one of many short ones. INT8 throughout is what the others are timed beside.
    bool is_settled(const Trial& trial) const {
        return trial.as_tried || !trial.mix.any_int8() || trial.mix == int8_->mix;
    }

    Result<void> confirm() {
        for (;;) {
            const Trial* next = &best();
            if (is_settled(*next)) next = &fastest();
            if (is_settled(*next)) return {};
            LATHE_CHECK(progress_.check());
            Trial& trial = *find(next->mix);
            const auto known = confirmed_.find(trial.mix.key());
            const auto start = std::chrono::steady_clock::now();
            Timing again;
            if (known != confirmed_.end()) {
                again = known->second;
            } else {
                LATHE_TRY(again, workshop_.time_again(trial.mix, *int8_));
            }
            trial.as_tried = std::exchange(static_cast<Timing&>(trial), again);
            if (known != confirmed_.end()) continue;
            trial.seconds += seconds_since(start);
            const auto index = static_cast<std::size_t>(&trial - state_.trials.data());
            LATHE_CHECK(found_(state_, choose(state_.trials, options_).value(), index));
        }
    }

    SearchState& state_;
    const SearchOptions& options_;
    MixWorkshop& workshop_;
    const SearchFound& found_;
    Progress& progress_;
    std::size_t layers_;
    Precision base_ = Precision::float32;
    std::optional<Trial> int8_; ///< what the others are timed beside
    std::vector<std::size_t> order_;
    double spent_ = 0;
    bool over_ = false;                       ///< the time is up
    std::map<std::string, Timing> confirmed_; ///< by an earlier run, by mix
};

} // namespace

bool is_feasible(const Trial& trial, const SearchOptions& options, bool with_speed) {
    if (!trial.failed.empty() || trial.score.nonfinite > 0) return false;
    // Two runs of FP32 may differ in the last bit; nothing keeps more.
    const bool reference = trial.mix.base == Precision::float32 && !trial.mix.any_int8();
    // A hair over the limit is rounding: 0.3 is no binary fraction.
    if (!reference && drop_of(trial.score, options.metric) > options.max_drop + 1e-9) return false;
    return !with_speed || options.min_speedup <= 0 || trial.speedup >= options.min_speedup;
}

std::optional<std::size_t> choose(const std::vector<Trial>& trials, const SearchOptions& options) {
    for (const bool with_speed : {true, false}) {
        const Trial* fastest = fastest_of(trials, options, with_speed);
        if (fastest == nullptr) continue;
        std::vector<const Trial*> near;
        for (const Trial& trial : trials) {
            if (&trial != fastest && is_feasible(trial, options, with_speed) &&
                trial.speedup >= fastest->speedup * (1 - options.slack))
                near.push_back(&trial);
        }
        std::ranges::stable_sort(near, std::ranges::greater{}, &Trial::speedup);
        const Trial* best = fastest;
        for (const Trial* trial : near) {
            if (loses_surely_less(trial->score, best->score, options.metric)) best = trial;
        }
        return static_cast<std::size_t>(best - trials.data());
    }
    return std::nullopt;
}

std::vector<std::size_t> pareto_front(const std::vector<Trial>& trials, DamageMetric metric) {
    const auto lost = [&](std::size_t i) {
        return std::pair(std::max(0.0, drop_of(trials[i].score, metric)), loss_of(trials[i].score, metric));
    };
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < trials.size(); ++i) {
        if (trials[i].failed.empty() && trials[i].score.nonfinite == 0) order.push_back(i);
    }
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
        if (trials[a].speedup != trials[b].speedup) return trials[a].speedup > trials[b].speedup;
        return lost(a) < lost(b);
    });
    std::vector<std::size_t> front;
    for (const std::size_t i : order) {
        if (front.empty() || lost(i) < lost(front.back())) front.push_back(i);
    }
    return front;
}

std::vector<std::size_t> order_layers(const std::vector<double>& damage, const std::vector<double>& gains) {
    std::vector<std::size_t> order(damage.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto weight = [&](std::size_t i) {
        return gains[i] > 0 ? damage[i] / gains[i] : std::numeric_limits<double>::infinity();
    };
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
        if (weight(a) != weight(b)) return weight(a) > weight(b);
        return damage[a] > damage[b];
    });
    return order;
}

Result<void> search_mix(SearchState& state, const SearchOptions& options, MixWorkshop& workshop,
                        const SearchFound& found, Progress& progress) {
    return Search(state, options, workshop, found, progress).run();
}

} // namespace lathe
