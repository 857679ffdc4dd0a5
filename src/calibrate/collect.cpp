#include "calibrate/collect.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <mutex>

#include "support/thread_pool.hpp"

namespace lathe {

namespace {

constexpr std::size_t chunk_size = std::size_t{1} << 20; // values a task: about a millisecond
constexpr float exploding = 1e4F;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// A part of one tensor of the current batch.
struct Task {
    std::size_t tensor;
    std::span<const float> values;
};

/// Updates the histograms of one batch on all threads.
class Updater {
public:
    Updater(std::vector<TensorStatistics>& tensors, std::size_t threads)
        : tensors_(tensors), locks_(tensors.size()), pool_(threads) {}

    void update(const std::vector<TensorView>& views) {
        std::vector<Task> tasks;
        for (std::size_t i = 0; i < views.size(); ++i) {
            const std::span<const float> values = views[i].as<const float>();
            for (std::size_t begin = 0; begin < values.size(); begin += chunk_size) {
                tasks.push_back({i, values.subspan(begin, std::min(chunk_size, values.size() - begin))});
            }
        }
        // Longest first, so that no thread ends with a large one.
        std::stable_sort(tasks.begin(), tasks.end(),
                         [](const Task& a, const Task& b) { return a.values.size() > b.values.size(); });
        pool_.for_each(tasks.size(), [&](std::size_t i) { run(tasks[i], views); });
    }

private:
    void run(const Task& task, const std::vector<TensorView>& views) {
        Histogram& whole = tensors_[task.tensor].histogram;
        if (task.values.size_bytes() == views[task.tensor].bytes.size()) {
            whole.observe(task.values);
            return;
        }
        Histogram part;
        part.observe(task.values);
        const std::lock_guard lock(locks_[task.tensor]);
        whole.merge(part);
    }

    std::vector<TensorStatistics>& tensors_;
    std::vector<std::mutex> locks_;
    ThreadPool pool_;
};

Result<void> check_views(const std::vector<TensorView>& views, const std::vector<std::string>& names) {
    if (views.size() != names.size()) {
        return Error{ErrorCode::internal,
                     "the activation source showed " + std::to_string(views.size()) + " tensors and announced " +
                         std::to_string(names.size()),
                     "", ""};
    }
    for (std::size_t i = 0; i < views.size(); ++i) {
        if (views[i].type != DataType::float32) {
            return Error{ErrorCode::internal, "an activation was shown as " + to_string(views[i].type), names[i],
                         "only float32 tensors can be calibrated"};
        }
    }
    return {};
}

std::string number(float value) {
    char text[32];
    std::snprintf(text, sizeof(text), "%g", static_cast<double>(value));
    return text;
}

} // namespace

Result<ActivationStatistics> collect(ActivationSource& source, Dataset& dataset, const CollectOptions& options,
                                     Progress& progress) {
    if (options.batch_size == 0) {
        return Error{ErrorCode::invalid_argument, "the batch size is 0", "", "use at least 1"};
    }
    const auto start = Clock::now();
    const std::size_t wanted =
        options.samples == 0 ? dataset.size() : std::min<std::size_t>(options.samples, dataset.size());
    ActivationStatistics statistics;
    for (const std::string& name : source.tensors())
        statistics.tensors.push_back({name, {}});
    Updater updater(statistics.tensors, options.threads);

    dataset.rewind();
    progress.begin("calibrate", wanted);
    while (statistics.samples < wanted) {
        LATHE_CHECK(progress.check());
        LATHE_TRY(std::optional<Batch> batch, dataset.next(std::min(options.batch_size, wanted - statistics.samples)));
        if (!batch || batch->size() == 0) break;
        std::vector<TensorView> inputs;
        inputs.reserve(batch->inputs.size());
        for (HostTensor& input : batch->inputs)
            inputs.push_back(input.view());

        const auto run_start = Clock::now();
        auto views = source.run(inputs);
        if (!views) return std::move(views).error().in(batch->names.front());
        statistics.inference_seconds += seconds_since(run_start);

        LATHE_CHECK(check_views(*views, source.tensors()));
        const auto update_start = Clock::now();
        updater.update(*views);
        statistics.histogram_seconds += seconds_since(update_start);
        statistics.samples += batch->size();
        progress.advance(batch->size());
    }
    progress.end();
    if (statistics.samples == 0) {
        return Error{ErrorCode::not_found, "the dataset holds no samples", "", "point --data at images or arrays"};
    }
    statistics.seconds = seconds_since(start);
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

std::vector<CalibrationFinding> check_activations(const std::vector<TensorStatistics>& tensors) {
    std::vector<CalibrationFinding> findings;
    for (const auto& [name, histogram] : tensors) {
        const auto add = [&, &tensor = name](const char* finding, std::string detail, FindingSeverity severity) {
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
    return findings;
}

} // namespace lathe
