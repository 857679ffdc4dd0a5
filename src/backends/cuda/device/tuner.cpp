#include "backends/cuda/device/tuner.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <set>

#include "backends/api/speed_limit.hpp"
#include "backends/cuda/device/candidates.hpp"
#include "backends/cuda/device/chain_choice.hpp"
#include "backends/cuda/device/machine_profile.hpp"
#include "backends/cuda/device/network_check.hpp"
#include "backends/cuda/device/trial.hpp"
#include "backends/cuda/device/whole_graph.hpp"
#include "backends/cuda/plan/chains.hpp"
#include "backends/cuda/plan/work.hpp"
#include "backends/cuda/tuning/chain_choice.hpp"
#include "support/clock.hpp"
#include "support/log.hpp"
#include "support/thread_pool.hpp"

namespace lathe::cuda {

namespace {

using Clock = std::chrono::steady_clock;

/// What an effort allows.
struct Limits {
    std::size_t per_provider;
    double seconds;       ///< for operations alone
    double whole_seconds; ///< for the whole network
    Effort effort;
};
Limits limits_of(TuneEffort effort) {
    switch (effort) {
        case TuneEffort::fast: return {2, 5, 0, Effort::fast};
        case TuneEffort::full: return {1000, 180, 60, Effort::full};
        case TuneEffort::standard: break;
    }
    return {12, 25, 0, Effort::standard};
}

class Tuner {
public:
    Tuner(EngineState& state, TimingCache& cache, const TuneOptions& options)
        : state_(state), cache_(cache), options_(options), limits_(limits_of(options.effort)) {}

    Result<void> run() {
        DeviceState& place = *state_.devices.front();
        LATHE_CUDA(cudaSetDevice(place.device.index), "choosing the GPU");
        LATHE_CHECK(collect(place));
        if (!tasks_.empty()) LATHE_CHECK(time_all(place));
        for (const auto& [text, timings] : timings_)
            state_.tactics[text] = ranking(timings, state_.workspace_limit);
        choose_kernels_for_chains();
        if (limits_.whole_seconds > 0) LATHE_CHECK(tune_networks());
        if (options_.check) LATHE_CHECK(check_networks(place));
        LATHE_TRY(state_.report.limits, machine_limits(place.device, cache_));
        describe();
        warn_of_reference_kernels();
        return {};
    }

private:
    Result<void> collect(DeviceState& place) {
        for (const auto& shapes : state_.points()) {
            LATHE_TRY(Plan plan, lower(state_.prepared, shapes));
            plans_.push_back({shapes_text(shapes), std::make_unique<Plan>(std::move(plan))});
        }
        LATHE_CHECK(upload_weights(state_, place));
        struct Wanted {
            const Plan* plan;
            const FusedOp* op;
            std::string signature;
        };
        std::vector<Wanted> wanted;
        std::set<std::string> seen;
        const auto want = [&](const Plan& plan, const FusedOp& op) {
            std::string text = signature(op, plan);
            if (!seen.insert(text).second) return;
            if (auto known = cache_.find(text, static_cast<int>(limits_.effort)); known && usable(*known)) {
                timings_[text] = std::move(*known);
                return;
            }
            wanted.push_back({&plan, &op, std::move(text)});
        };
        for (const auto& [shape, plan] : plans_) {
            for (const FusedOp& op : plan->ops)
                want(*plan, op);
            for (const ChainSite& site : chain_sites(*plan)) {
                chains_.push_back(chain_of(*plan, site));
                want(*plan, chains_.back());
            }
        }
        // Vendor libraries take their time to say what they have: side by side.
        std::vector<std::optional<Error>> failures(wanted.size());
        tasks_.resize(wanted.size());
        ThreadPool pool(std::min<std::size_t>(available_cores(), 16));
        pool.for_each(wanted.size(), [&](std::size_t i) {
            static_cast<void>(cudaSetDevice(place.device.index));
            auto task = make_task(*wanted[i].plan, *wanted[i].op, std::move(wanted[i].signature), place.device);
            if (task) {
                tasks_[i] = std::move(task).value();
            } else {
                failures[i] = std::move(task).error();
            }
        });
        for (auto& failure : failures)
            if (failure) return std::move(*failure);
        // A chain that no kernel takes runs as its parts.
        std::erase_if(tasks_, [](const Task& task) { return is_chain(task.fused()) && task.candidates.empty(); });
        for (const Task& task : tasks_)
            refusals_[task.signature] = task.refusals;
        return {};
    }

    /// What a cache holds must name a kernel this program has, and not have left out what fits now.
    bool usable(const std::vector<Timing>& timings) const {
        const bool left_out = std::any_of(timings.begin(), timings.end(), [&](const Timing& timing) {
            return timing.workspace > 0 && timing.workspace <= state_.workspace_limit && timing.mixed_us <= 0 &&
                   timing.refused.starts_with(needs_workspace);
        });
        if (left_out) return false;
        const Timing* best = choose(timings, state_.workspace_limit);
        std::string id;
        return best != nullptr && provider_of(best->tactic, id).has_value();
    }

    static bool is_chain(const FusedOp& op) { return std::holds_alternative<Chain>(op.detail); }

    Result<Task> make_task(const Plan& plan, const FusedOp& op, std::string text, const Device& device) const {
        Task task;
        task.plan = &plan;
        task.op = &op;
        task.signature = std::move(text);
        for (const Provider* provider : usable_providers()) {
            std::string why;
            const auto ids = provider->candidates(op, plan, device, limits_.effort, why);
            if (provider->name() == "reference") {
                if (ids.empty())
                    return Error{ErrorCode::internal, "no reference kernel: " + why, op.name, "report this"};
                task.reference_tactic = "reference:" + ids.front();
                LATHE_TRY(task.reference, provider->prepare(ids.front(), op, plan, device));
                continue;
            }
            if (ids.empty() && !why.empty()) task.refusals.emplace_back(provider->name() + ":", why);
            for (std::size_t i = 0; i < std::min(ids.size(), limits_.per_provider); ++i) {
                Candidate candidate;
                candidate.provider = provider;
                candidate.id = ids[i];
                task.candidates.push_back(std::move(candidate));
            }
        }
        return task;
    }

    Result<void> time_all(DeviceState& place) {
        if (options_.progress != nullptr) options_.progress->begin("timing kernels", tasks_.size());
        const auto start = Clock::now();
        Trial bench(state_, place);
        LATHE_CHECK(bench.open());
        Preparation preparation(tasks_, place.device);
        std::size_t hurried = 0;
        for (std::size_t t = 0; t < tasks_.size(); ++t) {
            if (options_.progress != nullptr) LATHE_CHECK(options_.progress->check());
            Task& task = tasks_[t];
            // Once the time is spent, one quick look at each provider's first guess.
            const bool thorough = seconds_since(start) < limits_.seconds;
            if (!thorough) preparation.hurry();
            hurried += thorough ? 0 : 1;
            preparation.wait(t);
            std::vector<Timing> timings;
            if (auto ready = bench.set_up(task); !ready) {
                if (ready.error().code != ErrorCode::out_of_memory) return ready;
                not_tried(task, ready.error());
                continue;
            }
            const Provider* last = nullptr;
            bool any = false, cut = false;
            for (Candidate& candidate : task.candidates) {
                if (candidate.failure) {
                    Timing timing;
                    timing.tactic = candidate.tactic();
                    timing.refused = candidate.failure->describe();
                    timings.push_back(std::move(timing));
                    continue;
                }
                if (!thorough && candidate.provider == last) continue;
                // The time may end within an operation of many candidates: what is known by then must do.
                const bool spent = thorough && any && seconds_since(start) > limits_.seconds;
                if (spent) {
                    cut = true;
                    continue;
                }
                last = candidate.provider;
                LATHE_TRY(Timing timing, bench.measure(*candidate.kernel, candidate.tactic(), false, thorough));
                any = any || timing.refused.empty();
                timings.push_back(std::move(timing));
            }
            if (thorough) LATHE_CHECK(warm_and_cold(bench, task, timings));
            if ((!any && !is_chain(task.fused())) || task.fused().macs == 0) {
                // The slow one is needed, or may well be as fast as any.
                LATHE_TRY(Timing timing, bench.measure(*task.reference, task.reference_tactic, true, thorough));
                timings.push_back(std::move(timing));
            }
            if (thorough && !cut) cache_.store(task.signature, timings, static_cast<int>(limits_.effort));
            timings_[task.signature] = std::move(timings);
            finish(task);
            if (options_.progress != nullptr) options_.progress->advance();
        }
        if (options_.progress != nullptr) options_.progress->end();
        if (hurried > 0) {
            log(LogLevel::info, std::to_string(hurried) + " of " + std::to_string(tasks_.size()) +
                                    " operations were tuned in haste, since the time for tuning was spent; build "
                                    "again with the same --timing-cache, or with --tune full");
        }
        return {};
    }

    /// The best two are timed with everything and with nothing in the cache too: that is for people who ask why.
    Result<void> warm_and_cold(Trial& bench, const Task& task, std::vector<Timing>& timings) const {
        std::vector<std::string> best = ranking(timings, state_.workspace_limit);
        if (best.size() > 2) best.resize(2);
        for (const std::string& tactic : best) {
            const PreparedKernel* kernel = tactic == task.reference_tactic ? task.reference.get() : nullptr;
            for (const Candidate& candidate : task.candidates)
                if (candidate.tactic() == tactic) kernel = candidate.kernel.get();
            const auto timing =
                std::find_if(timings.begin(), timings.end(), [&](const Timing& one) { return one.tactic == tactic; });
            if (kernel != nullptr) LATHE_CHECK(bench.measure_warm_and_cold(*kernel, *timing));
        }
        return {};
    }

    /// No memory to try an operation's kernels: they are named with that reason, and the first guess is used.
    void not_tried(Task& task, const Error& error) {
        log(LogLevel::warning, task.fused().name + " is not tuned: " + error.describe());
        std::vector<Timing>& timings = timings_[task.signature];
        for (const Candidate& candidate : task.candidates) {
            Timing timing;
            timing.tactic = candidate.tactic();
            timing.refused = "not tried: " + error.message;
            timings.push_back(std::move(timing));
        }
        finish(task);
        if (options_.progress != nullptr) options_.progress->advance();
    }

    /// Gives the task's kernels back.
    static void finish(Task& task) {
        for (Candidate& candidate : task.candidates)
            candidate.kernel.reset();
        task.reference.reset();
    }

    /// The costliest operations' next best kernels, in the networks of all tuned points.
    Result<void> tune_networks() {
        const auto points = state_.points();
        if (options_.progress != nullptr) options_.progress->begin("timing the whole network", points.size());
        for (std::size_t i = 0; i < points.size(); ++i) {
            const double left = limits_.whole_seconds / static_cast<double>(points.size());
            LATHE_TRY(const auto trials, tune_whole(state_, points[i], timings_, left, options_.progress));
            for (const WholeTrial& trial : trials)
                whole_[trial.signature][trial.tactic] = trial.ratio;
            if (options_.progress != nullptr) options_.progress->advance();
        }
        if (options_.progress != nullptr) options_.progress->end();
        return {};
    }

    /// Time of an operation's best kernel; 0: not known.
    double best_us(const std::string& text) const {
        const auto found = timings_.find(text);
        const Timing* best = found == timings_.end() ? nullptr : choose(found->second, state_.workspace_limit);
        return best == nullptr ? 0 : best->mixed_us;
    }

    /// Chains whose kernel is faster than the best ones of their operations; `state_.tactics` names none for others.
    void choose_kernels_for_chains() {
        std::set<std::string> faster, all;
        for (const auto& [shape, plan] : plans_) {
            std::vector<double> op_us;
            for (const FusedOp& op : plan->ops)
                op_us.push_back(best_us(signature(op, *plan)));
            std::vector<ChainOption> options;
            std::vector<std::string> texts;
            for (const ChainSite& site : chain_sites(*plan)) {
                texts.push_back(signature(chain_of(*plan, site), *plan));
                options.push_back({site.ops(), best_us(texts.back())});
            }
            for (const std::size_t chosen : choose_chains(options, op_us))
                faster.insert(texts[chosen]);
            all.insert(texts.begin(), texts.end());
        }
        for (const std::string& text : all)
            if (!faster.contains(text)) state_.tactics[text].clear();
    }

    /// As it runs: with the chains that were chosen.
    Plan joined(const Plan& plan) const {
        Plan result = plan;
        join_chosen(state_, result);
        return result;
    }

    /// The finished networks of all tuned points: a kernel that is wrong there gives way to the next best.
    Result<void> check_networks(DeviceState& place) {
        const auto start = Clock::now();
        const auto points = state_.points();
        if (options_.progress != nullptr) options_.progress->begin("checking the whole network", points.size());
        std::vector<bool> done(points.size(), false);
        std::vector<std::size_t> right(points.size(), 0); ///< operations
        for (auto next = done.begin(); next != done.end(); next = std::find(done.begin(), done.end(), false)) {
            const auto i = static_cast<std::size_t>(next - done.begin());
            LATHE_TRY(const auto built, plan_for(state_, 0, points[i]));
            const Plan& plan = built->plan;
            const std::string key = network_key(*built);
            if (cache_.find(key)) { // the same kernels at the same places were right before
                right[i] = plan.ops.size();
                state_.report.checked_before += plan.ops.size();
                done[i] = true;
                if (options_.progress != nullptr) options_.progress->advance();
                continue;
            }
            auto checked = check_network(state_, points[i], options_.progress);
            if (!checked && checked.error().code == ErrorCode::out_of_memory) {
                const std::string text = "not checked as a whole: " + plans_[i].first + ": " + checked.error().message;
                log(LogLevel::warning, text);
                state_.report.check_notes.push_back(text);
                done[i] = true;
                continue;
            }
            if (!checked) return std::move(checked).error();
            const std::optional<NetworkFault>& fault = checked->fault;
            if (!fault) {
                if (checked->not_finite.empty())
                    cache_.store(key, {}, static_cast<int>(Effort::full));
                else
                    tell_not_finite(plans_[i].first, checked->not_finite);
                right[i] = plan.ops.size();
                done[i] = true;
                if (options_.progress != nullptr) options_.progress->advance();
                continue;
            }
            // Points that were right and use the kernel as well get another one.
            for (std::size_t other = 0; other < done.size(); ++other) {
                const Plan running = joined(*plans_[other].second);
                done[other] = done[other] && std::none_of(running.ops.begin(), running.ops.end(), [&](const auto& op) {
                                  return signature(op, running) == fault->signature;
                              });
            }
            LATHE_CHECK(ban(*fault, plan, place));
        }
        if (options_.progress != nullptr) options_.progress->end();
        // What is wrong in one network is not tried in the next one.
        for (const std::string& text : banned_)
            if (cache_.find(text)) cache_.store(text, timings_[text], static_cast<int>(limits_.effort));
        for (const std::size_t count : right)
            state_.report.checked_operations += count;
        state_.report.check_seconds = seconds_since(start);
        return {};
    }

    /// Such a network is not taken for known: the next build says the same.
    void tell_not_finite(const std::string& shape, const std::string& outputs) {
        std::string text =
            "at " + shape + ", with normally distributed random inputs, there are infinities or NaN in " + outputs;
        if (state_.prepared.precision == Precision::float16)
            text += "; float16 ends at 65504: if your own inputs give them too, build with --precision bf16, or keep "
                    "that part in float32 with `lathe autocast`";
        log(LogLevel::warning, text);
        state_.report.check_notes.push_back(std::move(text));
    }

    Result<void> ban(const NetworkFault& fault, const Plan& plan, DeviceState& place) {
        LATHE_TRY(const std::string reference, reference_tactic(plan.ops[fault.op], plan, place.device));
        LATHE_CHECK(
            state_.bans.ban(fault, state_.tactics, timings_[fault.signature], state_.workspace_limit, reference));
        const std::string text = fault.name + " (" + fault.signature + "): kernel " + fault.tactic +
                                 " is right alone and wrong in the whole network: " + fault.what + "; " +
                                 state_.tactics[fault.signature].front() + " is used";
        log(LogLevel::warning, text);
        state_.report.check_notes.push_back(text);
        banned_.insert(fault.signature);
        for (Timing& timing : timings_[fault.signature])
            if (timing.tactic == fault.tactic) timing.refused = "wrong in the whole network: " + fault.what;
        place.plans = LruCache<std::string, std::shared_ptr<const DevicePlan>>(64);
        return {};
    }

    void describe() {
        for (const auto& [shape, plan] : plans_) {
            const Plan running = joined(*plan);
            std::set<std::pair<std::string, std::string>> runs;
            for (const FusedOp& op : running.ops)
                runs.emplace(op.name, signature(op, running));
            for (const FusedOp& op : plan->ops)
                describe(shape, *plan, op, runs);
            for (const ChainSite& site : chain_sites(*plan)) {
                const FusedOp op = chain_of(*plan, site);
                if (!timings_.contains(signature(op, *plan))) continue;
                BuildReport::Op& row = describe(shape, *plan, op, runs);
                double apart = 0;
                for (const std::size_t part : site.ops())
                    apart += best_us(signature(plan->ops[part], *plan));
                row.candidates.push_back({"apart", "", apart, 0, 0, 0, !runs.contains({op.name, row.signature})});
            }
        }
    }

    /// Kernels that are there to be right, not fast, should not be what an engine spends its time in.
    void warn_of_reference_kernels() const {
        constexpr double share = 0.01;
        constexpr std::size_t named = 5;
        for (const ShapeLimit& shape : limits_by_shape(state_.report)) {
            if (shape.reference_us <= share * shape.us) continue;
            std::string text;
            for (std::size_t i = 0; i < std::min(named, shape.reference.size()); ++i) {
                const auto& row = shape.reference[i];
                text += (i == 0 ? "" : ", ") + row.name + " (" + std::to_string(std::lround(row.us)) + " us)";
            }
            const std::size_t more = shape.reference.size() - std::min(named, shape.reference.size());
            if (more > 0) text += " and " + std::to_string(more) + " more";
            log(LogLevel::warning,
                "at " + shape.shape + " " + std::to_string(std::lround(100 * shape.reference_us / shape.us)) +
                    " % of the time is spent in reference kernels, which no faster one replaces yet: " + text);
        }
    }

    /// `runs`: names and signatures of what the network runs.
    BuildReport::Op& describe(const std::string& shape, const Plan& plan, const FusedOp& op,
                              const std::set<std::pair<std::string, std::string>>& runs) {
        const std::string text = signature(op, plan);
        BuildReport::Op row{shape, op.name, text, op.tf32 ? "tf32" : to_string(op.compute), {}};
        const Work work = work_of(op, plan);
        row.bytes = work.activation_bytes + work.weight_bytes;
        row.operations = work.operations;
        row.limit_us = limit_us(work, row.precision, state_.report.limits);
        const auto& order = state_.tactics[text];
        for (const Timing& timing : timings_[text]) {
            const auto& ratios = whole_[text];
            const auto ratio = ratios.find(timing.tactic);
            row.candidates.push_back(
                {timing.tactic, timing.refused, timing.mixed_us, timing.warm_us, timing.cold_us,
                 ratio == ratios.end() ? 0 : ratio->second,
                 runs.contains({op.name, text}) && !order.empty() && order.front() == timing.tactic});
        }
        for (const auto& [provider, why] : refusals_[text])
            row.candidates.push_back({provider, why, 0, 0, 0, 0, false});
        state_.report.ops.push_back(std::move(row));
        return state_.report.ops.back();
    }

    EngineState& state_;
    TimingCache& cache_;
    const TuneOptions& options_;
    Limits limits_;
    std::vector<std::pair<std::string, std::unique_ptr<Plan>>> plans_; ///< by point: its shapes as text; not joined
    std::deque<FusedOp> chains_;                                       ///< of their operations
    std::vector<Task> tasks_;
    std::set<std::string> banned_; ///< signatures of operations whose kernel was wrong in a whole network
    std::map<std::string, std::vector<Timing>> timings_;
    std::map<std::string, std::vector<std::pair<std::string, std::string>>> refusals_; ///< providers with no candidate
    std::map<std::string, std::map<std::string, double>> whole_; ///< by signature and tactic, see TacticTiming
};

} // namespace

Result<void> tune(EngineState& state, TimingCache& cache, const TuneOptions& options) {
    return Tuner(state, cache, options).run();
}

} // namespace lathe::cuda
