#include "calibrate/collect.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "data/position_mask.hpp"
#include "support/clock.hpp"
#include "support/thread_pool.hpp"

namespace lathe {

namespace {

constexpr std::size_t chunk_size = std::size_t{1} << 20; // values a task: about a millisecond
constexpr float exploding = 1e4F;

using Clock = std::chrono::steady_clock;

/// The histograms of what one lane runs. Lanes share nothing, so that none waits for another.
class Lane {
public:
    Lane(std::size_t tensors, std::size_t threads) : histograms_(tensors), shown_(tensors), pool_(threads) {}

    /// Runs the batch and counts what it shows, but for padding.
    Result<void> run(ActivationSource& source, std::size_t lane, std::span<const TensorView> inputs) {
        std::fill(shown_.begin(), shown_.end(), 0);
        const auto mask = PositionMask::of(inputs);
        const auto start = Clock::now();
        const auto show = [&](std::size_t tensor, std::span<const float> values, const Shape& shape) {
            const auto shown = Clock::now();
            ++shown_[tensor];
            if (mask) {
                mask->for_each_own(values, shape, [&](std::span<const float> own) { observe(tensor, own); });
            } else {
                observe(tensor, values);
            }
            histogram_seconds_ += seconds_since(shown);
        };
        LATHE_CHECK(source.run(lane, inputs, show));
        run_seconds_ += seconds_since(start);
        const auto missed = std::find_if(shown_.begin(), shown_.end(), [](int times) { return times != 1; });
        if (missed == shown_.end()) return {};
        return Error{ErrorCode::internal, "the activation source showed a tensor " + std::to_string(*missed) + " times",
                     source.tensors()[static_cast<std::size_t>(missed - shown_.begin())], ""};
    }

    std::vector<Histogram>& histograms() { return histograms_; }
    double histogram_seconds() const { return histogram_seconds_; }
    double inference_seconds() const { return run_seconds_ - histogram_seconds_; }

private:
    void observe(std::size_t tensor, std::span<const float> values) {
        if (pool_.size() == 1 || values.size() <= chunk_size) {
            histograms_[tensor].observe(values);
            return;
        }
        std::mutex lock;
        const std::size_t chunks = (values.size() + chunk_size - 1) / chunk_size;
        pool_.for_each(chunks, [&](std::size_t i) {
            Histogram part;
            part.observe(values.subspan(i * chunk_size, std::min(chunk_size, values.size() - i * chunk_size)));
            const std::lock_guard guard(lock);
            histograms_[tensor].merge(part);
        });
    }

    std::vector<Histogram> histograms_;
    std::vector<int> shown_;
    ThreadPool pool_; ///< of threads that the source leaves to the lane
    double run_seconds_ = 0.0;
    double histogram_seconds_ = 0.0;
};

/// Deals out the batches of the dataset to the lanes, one lane at a time.
class Batches {
public:
    /// `late` tells that no more than the first batch is to be read.
    Batches(Dataset& dataset, Progress& progress, std::size_t wanted, std::size_t batch_size,
            std::function<bool()> late)
        : dataset_(dataset), progress_(progress), wanted_(wanted), batch_size_(batch_size), late_(std::move(late)) {}

    /// Nothing at the end, and after a failure of any lane.
    std::optional<Batch> next() {
        const std::lock_guard lock(mutex_);
        if (failure_ || dealt_ >= wanted_ || late_()) return std::nullopt;
        auto batch = take();
        if (!batch) {
            failure_ = std::move(batch).error();
            return std::nullopt;
        }
        if (!*batch || (*batch)->size() == 0) {
            dealt_ = wanted_;
            return std::nullopt;
        }
        dealt_ += (*batch)->size();
        return std::move(*batch);
    }

    void done(const Batch& batch, Result<void> outcome) {
        const std::lock_guard lock(mutex_);
        if (!outcome) {
            if (!failure_) failure_ = std::move(outcome).error().in(batch.names.front());
            return;
        }
        seen_ += batch.size();
        progress_.advance(batch.size());
    }

    /// Of samples, once all lanes are done.
    Result<std::size_t> seen() const {
        if (failure_) return *failure_;
        return seen_;
    }

private:
    Result<std::optional<Batch>> take() {
        LATHE_CHECK(progress_.check());
        return dataset_.next(std::min(batch_size_, wanted_ - dealt_));
    }

    Dataset& dataset_;
    Progress& progress_;
    std::mutex mutex_;
    std::size_t wanted_;
    std::size_t batch_size_;
    std::function<bool()> late_;
    std::size_t dealt_ = 0;
    std::size_t seen_ = 0;
    std::optional<Error> failure_;
};

void run_lane(ActivationSource& source, std::size_t index, Lane& lane, Batches& batches) {
    while (std::optional<Batch> batch = batches.next()) {
        std::vector<TensorView> inputs;
        inputs.reserve(batch->inputs.size());
        for (HostTensor& input : batch->inputs)
            inputs.push_back(input.view());
        batches.done(*batch, lane.run(source, index, inputs));
    }
}

std::string number(float value) {
    char text[32];
    std::snprintf(text, sizeof(text), "%g", static_cast<double>(value));
    return text;
}

} // namespace

struct Collector::State {
    State(ActivationSource& shown, Dataset& read, Progress& told, std::size_t samples, std::size_t batch)
        : source(shown), dataset(read), progress(told), wanted(samples), batch_size(batch) {}

    ActivationSource& source;
    Dataset& dataset;
    Progress& progress;
    std::size_t wanted;
    std::size_t batch_size;
    std::size_t threads_a_lane = 1;
    std::size_t lanes = 1;
    std::size_t seen = 0;
    Clock::time_point start = Clock::now();
    double time_limit_s = 0;
    bool dealt = false; ///< a batch
};

Collector::Collector(std::unique_ptr<State> state) : state_(std::move(state)) {}
Collector::Collector(Collector&&) noexcept = default;
Collector& Collector::operator=(Collector&&) noexcept = default;
Collector::~Collector() = default;

Result<Collector> Collector::make(ActivationSource& source, Dataset& dataset, const CollectOptions& options,
                                  Progress& progress) {
    if (options.batch_size == 0) {
        return Error{ErrorCode::invalid_argument, "the batch size is 0", "", "use at least 1"};
    }
    const std::size_t wanted =
        options.samples == 0 ? dataset.size() : std::min<std::size_t>(options.samples, dataset.size());
    auto state = std::make_unique<State>(source, dataset, progress, wanted, options.batch_size);
    const std::size_t threads = options.threads > 0 ? options.threads : available_cores();
    const std::size_t runs = (wanted + options.batch_size - 1) / options.batch_size;
    // A lane on each core, if there are batches for them all, keeps every core busy from the first layer to the last
    // and counts a tensor while it is still in the core's cache.
    state->lanes = source.set_lanes(std::clamp<std::size_t>(runs, 1, threads));
    state->time_limit_s = options.time_limit_s;
    state->threads_a_lane = std::max<std::size_t>(1, threads / state->lanes);
    dataset.rewind();
    progress.begin("calibrate", wanted);
    return Collector(std::move(state));
}

std::size_t Collector::available() const { return state_->wanted; }

Result<ActivationStatistics> Collector::next(std::size_t count) {
    State& state = *state_;
    const auto start = Clock::now();
    std::vector<std::unique_ptr<Lane>> lanes;
    for (std::size_t i = 0; i < state.lanes; ++i)
        lanes.push_back(std::make_unique<Lane>(state.source.tensors().size(), state.threads_a_lane));
    const auto late = [&state] { // called under the lock of the batches
        if (state.time_limit_s <= 0) return false;
        return std::exchange(state.dealt, true) && seconds_since(state.start) > state.time_limit_s;
    };
    Batches batches(state.dataset, state.progress, std::min(count, state.wanted - state.seen), state.batch_size, late);
    ThreadPool(state.lanes).for_each(state.lanes, [&](std::size_t i) {
        run_lane(state.source, i, *lanes[i], batches);
    });
    ActivationStatistics statistics;
    LATHE_TRY(statistics.samples, batches.seen());
    state.seen += statistics.samples;
    for (std::size_t t = 0; t < state.source.tensors().size(); ++t) {
        Histogram histogram = std::move(lanes.front()->histograms()[t]);
        for (std::size_t i = 1; i < state.lanes; ++i)
            histogram.merge(lanes[i]->histograms()[t]);
        statistics.tensors.push_back({state.source.tensors()[t], std::move(histogram)});
    }
    for (const auto& lane : lanes) {
        statistics.inference_seconds += lane->inference_seconds() / static_cast<double>(state.lanes);
        statistics.histogram_seconds += lane->histogram_seconds() / static_cast<double>(state.lanes);
    }
    statistics.seconds = seconds_since(start);
    return statistics;
}

Error no_samples() {
    return {ErrorCode::not_found, "the dataset holds no samples", "", "point --data at images or arrays"};
}

Result<ActivationStatistics> collect(ActivationSource& source, Dataset& dataset, const CollectOptions& options,
                                     Progress& progress) {
    LATHE_TRY(Collector collector, Collector::make(source, dataset, options, progress));
    LATHE_TRY(ActivationStatistics statistics, collector.next(collector.available()));
    progress.end();
    if (statistics.samples == 0) return no_samples();
    return statistics;
}

const char* to_string(FindingSeverity severity) {
    switch (severity) {
        case FindingSeverity::information: return "information";
        case FindingSeverity::warning: return "warning";
        case FindingSeverity::error: return "error";
    }
    return "error";
}

FindingSeverity severity_from_name(std::string_view name) {
    if (name == to_string(FindingSeverity::information)) return FindingSeverity::information;
    if (name == to_string(FindingSeverity::error)) return FindingSeverity::error;
    return FindingSeverity::warning;
}

void check_activation(const std::string& tensor, const Histogram& histogram,
                      std::vector<CalibrationFinding>& findings) {
    const auto add = [&](const char* finding, std::string detail, FindingSeverity severity) {
        findings.push_back({finding, tensor, std::move(detail), severity});
    };
    if (histogram.nans() + histogram.infinities() > 0) {
        add("nonfinite_activation",
            std::to_string(histogram.nans()) + " NaN and " + std::to_string(histogram.infinities()) +
                " infinite values of " + std::to_string(histogram.count()) +
                "; they were left out, and the model or its preprocessing is at fault",
            FindingSeverity::error);
    }
    if (histogram.absmax() > exploding) {
        add("exploding_activation",
            "values reach " + number(histogram.absmax()) + "; check the input's scale, and do not use FP16 here",
            FindingSeverity::warning);
    }
    if (histogram.finite_count() > 1 && histogram.min() == histogram.max()) {
        if (histogram.max() == 0.0F) {
            add("dead_activation", "always zero: nothing behind it can matter", FindingSeverity::warning);
        } else {
            add("constant_activation", "always " + number(histogram.max()), FindingSeverity::warning);
        }
    }
}

} // namespace lathe
