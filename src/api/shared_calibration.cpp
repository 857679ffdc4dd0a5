#include "lathe/shared_calibration.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "api/calibration_task.hpp"
#include "backends/openvino/activation_source.hpp"
#include "calibrate/model_key.hpp"
#include "calibrate/settle.hpp"
#include "quantize/placement.hpp"
#include "support/json.hpp"

namespace lathe {

namespace {

constexpr int part_version = 1;
constexpr std::string_view part_kind = "calibration-part";

std::string to_string(SampleSpan span) {
    return "samples " + std::to_string(span.first) + " to " + std::to_string(span.first + span.count - 1);
}

/// Keeps what the data checks want to know of the samples that go by.
class NotedDataset final : public Dataset {
public:
    explicit NotedDataset(Dataset& dataset) : dataset_(dataset) {}
    std::size_t size() const override { return dataset_.size(); }
    bool has_labels() const override { return dataset_.has_labels(); }
    void rewind() override { dataset_.rewind(); }
    Result<std::string> digest() const override { return dataset_.digest(); }
    Result<std::optional<Batch>> next(std::size_t count) override {
        auto batch = dataset_.next(count);
        if (batch && *batch) std::ranges::move(facts_of(**batch), std::back_inserter(facts_));
        return batch;
    }
    std::vector<SampleFacts> take() { return std::move(facts_); }

private:
    Dataset& dataset_;
    std::vector<SampleFacts> facts_;
};

} // namespace

struct CalibrationPart::Impl {
    SampleSpan span;
    std::string model; ///< calibration_key
    std::vector<TensorStatistics> tensors;
    std::vector<SampleFacts> facts; ///< one a sample, in order
};

CalibrationPart::CalibrationPart(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CalibrationPart::CalibrationPart(CalibrationPart&&) noexcept = default;
CalibrationPart& CalibrationPart::operator=(CalibrationPart&&) noexcept = default;
CalibrationPart::~CalibrationPart() = default;

SampleSpan CalibrationPart::span() const { return impl_->span; }

// A line about the part, then the histograms as a ranges file that has no ranges yet.
std::string CalibrationPart::text() const {
    RangesFile file;
    file.key.model = impl_->model;
    file.samples_seen = impl_->span.count;
    for (const TensorStatistics& tensor : impl_->tensors)
        file.tensors.push_back({tensor.name, tensor.histogram, {}, {}, false});
    const Json head = {{"kind", part_kind},
                       {"version", part_version},
                       {"first", impl_->span.first},
                       {"samples", to_json(impl_->facts)}};
    return head.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n" + to_text(file);
}

Result<CalibrationPart> CalibrationPart::parse(std::string_view text) {
    const std::string where = "part of a calibration";
    const std::size_t end = std::min(text.find('\n'), text.size());
    LATHE_TRY(const Json head, parse_json(text.substr(0, end), where));
    auto impl = std::make_unique<Impl>();
    int version = 0;
    Json samples;
    try {
        if (head.at("kind") != part_kind)
            return Error{ErrorCode::parse_error, "this is no part of a calibration", where, ""};
        version = head.at("version").get<int>();
        if (!head.at("first").is_number_unsigned())
            return Error{ErrorCode::corrupt, "the part does not say where it begins", where, ""};
        impl->span.first = head.at("first").get<std::size_t>();
        samples = head.at("samples");
    } catch (const Json::exception&) {
        return Error{ErrorCode::parse_error, "this is no part of a calibration", where, ""};
    }
    if (version != part_version) {
        return Error{ErrorCode::unsupported, "the part is of another version of Lathe", where,
                     "use one version on all machines"};
    }
    LATHE_TRY(impl->facts, sample_facts_from_json(samples, where));
    impl->span.count = impl->facts.size();
    LATHE_TRY(RangesFile file, parse_ranges(text.substr(std::min(end + 1, text.size())), where));
    if (file.samples_seen != impl->span.count || impl->span.count == 0 ||
        impl->span.first > impl->span.first + impl->span.count) {
        return Error{ErrorCode::corrupt, "the part says two things about how many samples it holds", where, ""};
    }
    impl->model = std::move(file.key.model);
    for (TensorRange& tensor : file.tensors)
        impl->tensors.push_back({std::move(tensor.name), std::move(tensor.histogram)});
    return CalibrationPart(std::move(impl));
}

struct CalibrationWorker::Impl {
    CalibrationTask task;
    CalibrationOptions options;
    std::unique_ptr<ActivationSource> source;
    std::string model;
};

CalibrationWorker::CalibrationWorker(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CalibrationWorker::CalibrationWorker(CalibrationWorker&&) noexcept = default;
CalibrationWorker& CalibrationWorker::operator=(CalibrationWorker&&) noexcept = default;
CalibrationWorker::~CalibrationWorker() = default;

Result<CalibrationWorker> CalibrationWorker::start(const Model& model, const CalibrationOptions& options) {
    const CalibrateRequest request = request_of(options, std::filesystem::path());
    LATHE_TRY(CalibrationTask task, make_calibration_task(model, request));
    LATHE_TRY(auto source, openvino::make_activation_source(model, task.tensors, request.threads));
    return CalibrationWorker(
        std::make_unique<Impl>(Impl{std::move(task), options, std::move(source), calibration_key(model)}));
}

Result<CalibrationPart> CalibrationWorker::run(Data data, SampleSpan span, Progress* progress) {
    CalibrationTask& task = impl_->task;
    const CalibrateRequest request = request_of(impl_->options, data);
    LATHE_TRY(const CalibrationData opened, open_calibration_data(task, std::move(data.arrays), request, span));
    if (span.count == 0 || opened.dataset->size() != span.count) {
        return Error{ErrorCode::out_of_range,
                     "a part of " + std::to_string(span.count) + " samples was asked for, the data hold " +
                         std::to_string(opened.dataset->size()) + " of them",
                     data.path.string(),
                     "every machine needs the same data, and parts as SharedCalibration wants them"};
    }
    LATHE_TRY(const CollectOptions options, collect_options(task, span.count, request));
    NotedDataset noted(*opened.dataset);
    LATHE_TRY(ActivationStatistics seen,
              collect(*impl_->source, noted, options, progress != nullptr ? *progress : no_progress()));
    auto impl = std::make_unique<CalibrationPart::Impl>();
    impl->span = span;
    impl->model = impl_->model;
    impl->tensors = std::move(seen.tensors);
    impl->facts = noted.take();
    if (seen.samples != span.count || impl->facts.size() != span.count) {
        return Error{ErrorCode::out_of_range, to_string(span) + " are no whole batches of this model",
                     data.path.string(), "cut parts at multiples of SharedCalibration::granularity"};
    }
    return CalibrationPart(std::move(impl));
}

struct SharedCalibration::Impl {
    CalibrateRequest request;
    RangesKey key;
    std::string where;
    std::vector<std::string> tensors;
    std::size_t available = 0;
    std::size_t granularity = 1;
    std::vector<std::size_t> order; ///< of arrays: which sample is read when
    std::optional<SettlingRounds> rounds;
    std::optional<RangesFile> whole; ///< without rounds, once all was added
    DataChecks checks;
    std::size_t seen = 0;                         ///< in rounds that are whole
    std::map<std::size_t, CalibrationPart> parts; ///< of this round, by their first samples

    std::size_t round_size() const {
        if (rounds) return rounds->next();
        return available - seen;
    }
    std::size_t added() const {
        std::size_t count = 0;
        for (const auto& [first, part] : parts)
            count += part.span().count;
        return count;
    }
    Result<void> check(const CalibrationPart& part) const;
    void end_round();
};

SharedCalibration::SharedCalibration(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SharedCalibration::SharedCalibration(SharedCalibration&&) noexcept = default;
SharedCalibration& SharedCalibration::operator=(SharedCalibration&&) noexcept = default;
SharedCalibration::~SharedCalibration() = default;

Result<SharedCalibration> SharedCalibration::start(const Model& model, Data data, const CalibrationOptions& options) {
    auto impl = std::make_unique<Impl>();
    impl->request = request_of(options, data);
    LATHE_TRY(CalibrationTask task, make_calibration_task(model, impl->request));
    const bool in_memory = !data.arrays.empty();
    const auto all = in_memory && !data.arrays.front().shape.empty() ? data.arrays.front().shape.front() : 0;
    LATHE_TRY(const CalibrationData opened, open_calibration_data(task, std::move(data.arrays), impl->request));
    LATHE_TRY(impl->key, ranges_key(task, opened, impl->request));
    LATHE_TRY(const CollectOptions collecting,
              collect_options(task, std::min(impl->key.samples, opened.dataset->size()), impl->request));
    impl->where = data.path.string();
    impl->available = collecting.samples;
    // Texts in pairs may be two samples each.
    impl->granularity = collecting.whole_batches ? collecting.batch_size : 2;
    impl->checks = DataChecks(data_expectations(model, opened.preprocess));
    if (in_memory) impl->order = choose_samples(static_cast<std::size_t>(all), reading_order(impl->request));
    impl->tensors = std::move(task.tensors);
    if (options.until_settled) {
        SettleRule rule;
        rule.whole_ranges = whole_range_tensors(model);
        impl->rounds.emplace(impl->key, impl->available, collecting.whole_batches ? collecting.batch_size : 1,
                             options.method, impl->request.options, std::move(rule), options.threads);
    }
    return SharedCalibration(std::move(impl));
}

std::optional<SampleSpan> SharedCalibration::wanted() const {
    const std::size_t count = impl_->round_size();
    if (count == 0) return std::nullopt;
    return SampleSpan{impl_->seen, count};
}

std::size_t SharedCalibration::granularity() const { return impl_->granularity; }

std::vector<std::size_t> SharedCalibration::samples(SampleSpan span) const {
    const std::vector<std::size_t>& order = impl_->order;
    const std::size_t first = std::min(span.first, order.size());
    const std::size_t count = std::min(span.count, order.size() - first);
    const auto begin = order.begin() + static_cast<std::ptrdiff_t>(first);
    return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

Result<void> SharedCalibration::Impl::check(const CalibrationPart& part) const {
    const std::string place = to_string(part.span());
    const CalibrationPart::Impl& content = part.impl();
    const bool same_tensors =
        std::ranges::equal(content.tensors, tensors, {}, [](const TensorStatistics& tensor) { return tensor.name; });
    if (content.model != key.model || !same_tensors) {
        return Error{ErrorCode::mismatch, "the part is of another model", place,
                     "give every worker the model that the calibration was started with"};
    }
    const std::size_t first = part.span().first;
    const std::size_t end = first + part.span().count;
    if (first < seen + round_size()) {
        // Both neighbours: the first part that begins behind this one, and the one before it.
        const auto after = parts.lower_bound(first);
        const bool overlaps =
            (after != parts.end() && after->first < end) ||
            (after != parts.begin() && std::prev(after)->first + std::prev(after)->second.span().count > first);
        if (first < seen || overlaps)
            return Error{ErrorCode::invalid_argument, "samples of the part were added before", place,
                         "add each sample's part once"};
    }
    if (end > seen + round_size()) {
        return Error{ErrorCode::out_of_range, "samples of the part are not wanted now", place,
                     "ask SharedCalibration::wanted"};
    }
    return {};
}

Result<void> SharedCalibration::add(CalibrationPart part) {
    LATHE_CHECK(impl_->check(part));
    const std::size_t first = part.span().first;
    impl_->parts.emplace(first, std::move(part));
    if (impl_->added() == impl_->round_size()) impl_->end_round();
    return {};
}

void SharedCalibration::Impl::end_round() {
    const std::size_t count = round_size();
    std::vector<TensorStatistics> together;
    for (const std::string& tensor : tensors)
        together.push_back({tensor, {}});
    for (const auto& [first, part] : parts) {
        const CalibrationPart::Impl& content = part.impl();
        for (std::size_t t = 0; t < together.size(); ++t)
            together[t].histogram.merge(content.tensors[t].histogram);
        for (std::size_t i = 0; i < content.facts.size(); ++i) {
            SampleFacts facts = content.facts[i];
            if (!order.empty()) facts.name = std::to_string(order[first + i]); // parts of arrays count from 0
            checks.add(facts);
        }
    }
    parts.clear();
    seen += count;
    if (rounds) {
        rounds->add(together, count);
        return;
    }
    ActivationStatistics statistics;
    statistics.tensors = std::move(together);
    statistics.samples = count;
    whole = make_ranges(std::move(statistics), key, request.method, request.options, request.threads);
}

Result<Calibration> SharedCalibration::finish() {
    if (const auto span = wanted()) {
        return Error{ErrorCode::invalid_argument, "parts are missing", to_string(*span), "add them before finishing"};
    }
    if (impl_->seen == 0) return no_samples().in(impl_->where);
    RangesFile ranges = impl_->rounds ? impl_->rounds->take() : *std::move(impl_->whole);
    add_findings(ranges, impl_->checks);
    return Calibration(std::make_unique<Calibration::Impl>(Calibration::Impl{std::move(ranges)}));
}

} // namespace lathe
