#include "bench/length_mix.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "bench/bench.hpp"
#include "bench/statistics.hpp"
#include "data/lengths.hpp"
#include "data/text_dataset.hpp"

namespace lathe {

namespace {

/// Sequence lengths that an engine takes.
struct LengthRange {
    std::size_t least = 1;
    std::size_t most = 0;
};

LengthRange length_range(const EngineInfo& engine) {
    LengthRange range;
    for (const IoInfo& input : engine.inputs) {
        if (input.range.max.size() != 2) continue;
        range = {static_cast<std::size_t>(input.range.min[1]), static_cast<std::size_t>(input.range.max[1])};
    }
    return range;
}

/// A dataset's requests, each as long as its longest sample.
struct LengthMix {
    Requests requests;
    std::vector<std::size_t> lengths; ///< a request
    std::size_t tokens = 0;           ///< of the samples themselves, padding not counted
    std::size_t samples = 0;
    std::int64_t pad_id = 0;
    PaddingSide side = PaddingSide::behind;
    std::size_t limit = 0; ///< longer samples are cut
    Json about;            ///< of the samples' lengths
};

/// One list of requests that a subject runs.
struct Row {
    Subject* subject = nullptr;
    std::string padding;                    ///< in words
    std::vector<std::size_t> lengths;       ///< of the requests, filled up
    std::shared_ptr<const Requests> copies; ///< keeps the requests alive
    std::unique_ptr<RequestList> list;
};

std::string words(const Padding& padding, std::span<const std::size_t> padded) {
    if (padding.kind == Padding::Kind::own) return "own length";
    if (padding.kind == Padding::Kind::longest) return "to " + std::to_string(padded.front());
    std::string text;
    for (const std::size_t bucket : padding.buckets)
        text += (text.empty() ? "to " : ", ") + std::to_string(bucket);
    return text;
}

class Mix {
public:
    Mix(std::span<const std::unique_ptr<Subject>> subjects, std::span<const EngineInfo> engines,
        const LengthMixOptions& options, Progress& progress)
        : subjects_(subjects), engines_(engines), options_(options), progress_(progress) {}

    Result<Json> measure() {
        LATHE_CHECK(read());
        LATHE_CHECK(make_rows());
        std::vector<RequestList*> lists;
        for (const Row& row : rows_)
            lists.push_back(row.list.get());
        std::vector<MixTimes> times;
        if (!lists.empty()) {
            LATHE_TRY(times, run_mix(lists, mix_.requests.size(), options_.turns, progress_));
        }
        Json list = Json::array();
        std::vector<std::size_t> measured;
        for (std::size_t i = 0; i < rows_.size(); ++i) {
            if (times[i].failure) {
                set_aside(rows_[i].subject->info().name + " (" + rows_[i].padding + ")", *times[i].failure);
                continue;
            }
            measured.push_back(i);
            list.push_back(row_json(rows_[i], times[i]));
        }
        mix_.about["passes"] = measured.empty() ? 0 : times[measured.front()].pass_ns.size();
        mix_.about["rows"] = std::move(list);
        mix_.about["ratios"] = ratios(measured, times);
        return Json{{"length_mix", std::move(mix_.about)}, {"unavailable", std::move(unavailable_)}};
    }

private:
    Result<void> read() {
        if (engines_[0].tokenizer.empty()) {
            return Error{ErrorCode::unsupported, "the engine carries no tokenizer, so it has no length mix",
                         subjects_[0]->info().file.string(),
                         "export the model with lathe export from a folder with tokenizer.json, and build it again"};
        }
        LATHE_TRY(const auto tokenizer, options_.make_tokenizer(engines_[0].tokenizer, 0));
        mix_.pad_id = tokenizer->pad_id();
        mix_.side = tokenizer->padding_side();
        mix_.limit = tokenizer->max_length();
        for (const EngineInfo& engine : engines_) {
            if (const std::size_t most = length_range(engine).most; most > 0) mix_.limit = std::min(mix_.limit, most);
        }
        DatasetOptions data;
        data.samples = options_.samples;
        data.text = {options_.columns, engines_[0].tokenizer, options_.make_tokenizer, TextLabels::none, 0, 0};
        LATHE_TRY(std::vector<std::size_t> whole, read_lengths(options_.data, data, progress_));
        describe(whole, tokenizer->max_length());
        data.text.max_length = mix_.limit;
        return read_requests(data);
    }

    void describe(std::vector<std::size_t>& lengths, std::size_t tokenizer_limit) {
        const auto cut = std::ranges::count_if(lengths, [&](std::size_t length) { return length > mix_.limit; });
        for (std::size_t& length : lengths)
            length = std::min(length, mix_.limit);
        const LengthCounts counts = count_lengths(lengths, 1);
        const double total = std::accumulate(lengths.begin(), lengths.end(), 0.0);
        mix_.about = {{"data", options_.data.string()},
                      {"batch", options_.batch},
                      {"limit", mix_.limit},
                      // Beyond its own limit the tokenizer does not tell.
                      {"cut_samples", mix_.limit < tokenizer_limit ? Json(cut) : Json(nullptr)},
                      {"mean_length", total / static_cast<double>(lengths.size())},
                      {"median_length", length_quantile(counts, 0.5)},
                      {"p90_length", length_quantile(counts, 0.9)},
                      {"p99_length", length_quantile(counts, 0.99)},
                      {"longest", counts.rbegin()->first}};
    }

    Result<void> read_requests(const DatasetOptions& options) {
        std::vector<InputSpec> specs;
        for (const IoInfo& input : engines_[0].inputs)
            specs.push_back({input.name, input.type, Shape(input.range.opt.size(), -1)});
        // Models without a mask have padding as well; it is counted by one of our own.
        specs.push_back({"attention_mask", DataType::int64, {-1, -1}});
        LATHE_TRY(const auto data, open_text_dataset(options_.data, specs, options));
        const auto batch_size = static_cast<std::size_t>(options_.batch);
        while (true) {
            LATHE_CHECK(progress_.check());
            LATHE_TRY(auto batch, data->next(batch_size));
            if (!batch || batch->size() < batch_size) break;
            const auto mask = batch->inputs.back().as<std::int64_t>();
            mix_.tokens += static_cast<std::size_t>(std::ranges::count_if(mask, [](auto one) { return one != 0; }));
            mix_.lengths.push_back(mask.size() / batch_size);
            batch->inputs.pop_back();
            mix_.requests.push_back(std::move(batch->inputs));
        }
        mix_.samples = mix_.requests.size() * batch_size;
        if (mix_.requests.empty()) {
            return Error{ErrorCode::invalid_argument, "the data holds less than one batch", options_.data.string(),
                         "choose a smaller --batch-sizes"};
        }
        mix_.about["samples"] = mix_.samples;
        mix_.about["requests"] = mix_.requests.size();
        mix_.about["real_tokens"] = mix_.tokens;
        return {};
    }

    Result<void> make_rows() {
        const std::vector<Padding> own{Padding{}};
        const std::vector<Padding>& several = options_.paddings.empty() ? own : options_.paddings;
        progress_.begin("length mix: prepare", subjects_.size());
        for (std::size_t i = 0; i < subjects_.size(); ++i) {
            const bool engine = i < engines_.size();
            const LengthRange range = engine ? length_range(engines_[i]) : LengthRange{};
            if (engine && range.least == range.most) {
                Padding fixed{Padding::Kind::buckets, {range.most}};
                LATHE_CHECK(add_row(*subjects_[i], fixed, range));
            } else {
                for (const Padding& padding : engine ? several : own)
                    LATHE_CHECK(add_row(*subjects_[i], padding, range));
            }
            progress_.advance();
        }
        progress_.end();
        return {};
    }

    Result<void> add_row(Subject& subject, const Padding& padding, const LengthRange& range) {
        Row row;
        row.subject = &subject;
        LATHE_TRY(row.lengths, padded_lengths(padding, mix_.lengths));
        row.padding = words(padding, row.lengths);
        for (std::size_t& length : row.lengths)
            length = std::max(length, range.least);
        // Requests that are filled up alike are kept once.
        std::shared_ptr<Requests>& copies = copies_[row.lengths];
        if (!copies) copies = std::make_shared<Requests>(fill_up(mix_.requests, row.lengths, mix_.pad_id, mix_.side));
        row.copies = copies;
        auto list = subject.take(*copies, progress_);
        if (!list) {
            if (list.error().code == ErrorCode::cancelled) return std::move(list).error();
            set_aside(subject.info().name + " (" + row.padding + ")", list.error());
            return {};
        }
        row.list = std::move(*list);
        rows_.push_back(std::move(row));
        return {};
    }

    Json row_json(const Row& row, const MixTimes& times) const {
        const Summary call = summarize(times.call_ns);
        const double mix_ms = summarize(times.pass_ns).median * 1e-6;
        const auto computed = std::accumulate(row.lengths.begin(), row.lengths.end(), std::size_t{0}) *
                              static_cast<std::size_t>(options_.batch);
        const auto samples = static_cast<double>(mix_.samples);
        const auto tokens = static_cast<double>(mix_.tokens);
        const std::set<std::size_t> distinct(row.lengths.begin(), row.lengths.end());
        return {{"subject", row.subject->info().name},
                {"padding", row.padding},
                {"ms_per_sample", mix_ms / samples},
                {"median_ms", call.median * 1e-6},
                {"mean_ms", call.mean * 1e-6},
                {"p90_ms", call.p90 * 1e-6},
                {"p99_ms", call.p99 * 1e-6},
                {"max_ms", call.max * 1e-6},
                {"p99_reliable", call.p99_reliable},
                {"count", call.count},
                {"mix_ms", mix_ms},
                {"samples_per_second", 1000 * samples / mix_ms},
                {"tokens_per_second", 1000 * tokens / mix_ms},
                {"computed_tokens", computed},
                {"padding_share", 1 - tokens / static_cast<double>(computed)},
                {"lengths", distinct.size()}};
    }

    /// Every row against the first, and every engine's against those of the frameworks.
    Json ratios(const std::vector<std::size_t>& measured, const std::vector<MixTimes>& times) const {
        Json list = Json::array();
        const auto add = [&](std::size_t i, std::size_t reference) {
            const RatioSummary ratio = summarize_ratio(times[i].turn_ns, times[reference].turn_ns);
            list.push_back({{"subject", rows_[i].subject->info().name},
                            {"padding", rows_[i].padding},
                            {"reference", rows_[reference].subject->info().name},
                            {"reference_padding", rows_[reference].padding},
                            {"speedup", ratio.median},
                            {"ci95", {ratio.ci95.low, ratio.ci95.high}},
                            {"pairs", ratio.pairs},
                            {"ci95_covered", ratio.ci95_covered}});
        };
        for (const std::size_t i : measured) {
            if (rows_[i].subject->info().kind != SubjectKind::engine) continue;
            if (i != measured.front()) add(i, measured.front());
            for (const std::size_t j : measured)
                if (rows_[j].subject->info().kind != SubjectKind::engine) add(i, j);
        }
        return list;
    }

    void set_aside(const std::string& name, const Error& error) {
        unavailable_.push_back(to_json(Unavailable{name, 0, error.message, error.hint}));
    }

    std::span<const std::unique_ptr<Subject>> subjects_;
    std::span<const EngineInfo> engines_;
    const LengthMixOptions& options_;
    Progress& progress_;
    LengthMix mix_;
    std::map<std::vector<std::size_t>, std::shared_ptr<Requests>> copies_;
    std::vector<Row> rows_;
    Json unavailable_ = Json::array();
};

} // namespace

Result<Json> measure_length_mix(std::span<const std::unique_ptr<Subject>> subjects, std::span<const EngineInfo> engines,
                                const LengthMixOptions& options, Progress& progress) {
    return Mix(subjects, engines, options, progress).measure();
}

} // namespace lathe
