#include "bench/trtexec_subject.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

#include "bench/process.hpp"
#include "bench/trtexec_log.hpp"
#include "support/files.hpp"

namespace lathe {

namespace {

/// Loading a plan and TensorRT takes seconds, so a turn is longer than an engine's.
constexpr double turn_seconds = 0.5;
/// Beside the time that is measured.
constexpr double longest_start_s = 600;

std::string number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", value);
    return text;
}

/// "8.6.1" is 806; 0 for what is no version.
int number_of(const std::string& version) {
    int major = 0;
    int minor = 0;
    return std::sscanf(version.c_str(), "%d.%d", &major, &minor) == 2 ? 100 * major + minor : 0;
}

std::string shape_text(const Shape& shape) {
    std::string text;
    for (const std::int64_t size : shape)
        text += (text.empty() ? "" : "x") + std::to_string(size);
    return text;
}

/// What one process of trtexec is asked for.
struct TrtexecTurn {
    double seconds = 0;
    double warm_up_ms = 0;
    bool one_at_a_time = true;
    std::filesystem::path times; ///< to export to; empty: not
};

class Trtexec final : public Subject {
public:
    Trtexec(SubjectInfo info, TrtexecOptions options, std::filesystem::path program, std::filesystem::path scratch)
        : Subject(std::move(info)), options_(std::move(options)), program_(std::move(program)),
          scratch_(std::move(scratch)) {}

    /// Runs the plan as it is, once. Its inputs.
    Result<std::vector<InputSpec>> look(Progress& progress) {
        LATHE_TRY(const TrtexecRun run, run_once({}, progress));
        version_ = number_of(run.version);
        if (!run.version.empty()) info().libraries["tensorrt"] = run.version;
        if (run.load_s) info().load_ms = *run.load_s * 1e3;
        const std::string turn = "each turn a process of its own: plan loaded, " + number(options_.warm_up_ms) +
                                 " ms warm-up, " + number(turn_seconds) + " s measured";
        info().notes.push_back("timed by trtexec, " + turn +
                               "; median, percentiles and interval are over the queries it exported");
        info().notes.push_back(
            "trtexec's time of a query is the GPU's: copy in + compute + copy out from pinned memory, "
            "one query at a time. An engine's call also holds what the host does before and after: a "
            "ratio between the two favours trtexec; its kernels alone compare with an engine's");
        info().notes.push_back(options_.give_inputs
                                   ? "trtexec runs on one set of inputs, which may stay in the GPU's cache"
                                   : "trtexec draws inputs of its own, one set, which may stay in the "
                                     "GPU's cache");
        info().notes.push_back("trtexec's throughput overlaps copies with computing, one stream");
        std::vector<InputSpec> inputs;
        for (const auto& [name, shape] : run.inputs)
            inputs.push_back({name, DataType::float32, shape});
        return inputs;
    }

private:
    Result<void> do_prepare(const InputSets& inputs, Progress& progress) override {
        shapes_.clear();
        files_.clear();
        for (const InputSpec& spec : inputs.specs())
            shapes_ += (shapes_.empty() ? "" : ",") + spec.name + ":" + shape_text(spec.shape);
        if (options_.give_inputs) LATHE_CHECK(write_inputs(inputs));
        LATHE_TRY(const TrtexecRun run, run_once({}, progress));
        for (const InputSpec& spec : inputs.specs()) {
            const auto found =
                std::ranges::find(run.inputs, spec.name, &std::pair<std::string, std::vector<std::int64_t>>::first);
            if (found == run.inputs.end()) {
                return Error{ErrorCode::mismatch, "the plan has no input of this name", spec.name,
                             "compare plans and engines of one model"};
            }
            if (found->second == spec.shape) continue;
            return Error{ErrorCode::out_of_range,
                         "the plan runs this input as " + shape_text(found->second) + ", not as " +
                             shape_text(spec.shape),
                         spec.name, "build the plan with a range that covers it: --shape MIN..OPT..MAX"};
        }
        return {};
    }

    Result<void> write_inputs(const InputSets& inputs) {
        std::size_t index = 0;
        for (const HostTensor& tensor : inputs.set(0)) {
            const auto file = scratch_ / ("trtexec-input-" + std::to_string(index++) + ".bin");
            LATHE_CHECK(write_file(file, std::span<const std::byte>(tensor.bytes)));
            files_ += (files_.empty() ? "" : ",") + tensor.name + ":" + file.string();
        }
        return {};
    }

    Result<Burst> do_burst(const BurstPlan& plan, Progress& progress) override {
        const auto times = scratch_ / (info().name + "-times.json");
        TrtexecTurn turn;
        turn.seconds = std::max(turn_seconds, plan.milliseconds * 1e-3);
        turn.warm_up_ms = options_.warm_up_ms;
        turn.times = times;
        std::error_code ignored;
        std::filesystem::remove(times, ignored);
        LATHE_TRY(const TrtexecRun run, run_once(turn, progress));
        auto text = read_text_file(times);
        if (!text) {
            return Error{ErrorCode::unsupported, "trtexec ran, but did not export the times of its queries",
                         info().file.string(), "take trtexec of TensorRT 8 or later"};
        }
        LATHE_TRY(const TrtexecTrace trace, parse_trtexec_times(*text, "trtexec --exportTimes", turn.warm_up_ms));
        Burst burst;
        const auto append = [](const std::vector<double>& ms, std::vector<double>& ns) {
            std::ranges::transform(ms, std::back_inserter(ns), [](double value) { return value * 1e6; });
        };
        append(trace.latency, burst.call_ns);
        append(trace.compute, burst.device_ns);
        if (run.has_transfers()) {
            append(trace.copy_in, burst.copy_in_ns);
            append(trace.copy_out, burst.copy_out_ns);
        }
        return burst;
    }

    Result<Throughput> do_throughput(double seconds, Progress& progress) override {
        TrtexecTurn turn;
        turn.seconds = seconds;
        turn.warm_up_ms = options_.warm_up_ms;
        turn.one_at_a_time = false;
        LATHE_TRY(const TrtexecRun run, run_once(turn, progress));
        if (!run.queries || !run.walltime_s || *run.walltime_s <= 0) {
            return Error{ErrorCode::unsupported, "trtexec's summary lacks the number of queries or the wall time",
                         info().file.string(), ""};
        }
        Throughput served;
        served.requests = *run.queries;
        served.seconds = *run.walltime_s;
        return served;
    }

    std::vector<std::string> command(const TrtexecTurn& turn) const {
        std::vector<std::string> words{program_.string(), "--loadEngine=" + info().file.string()};
        if (!shapes_.empty()) words.push_back("--shapes=" + shapes_);
        if (!files_.empty()) words.push_back("--loadInputs=" + files_);
        if (options_.device) words.push_back("--device=" + std::to_string(*options_.device));
        // From 11 on a CUDA graph is the default and copies are left out of the measurement unless asked for.
        if (version_ >= 1100) words.emplace_back("--includeDataTransfers");
        if (version_ > 0 && version_ < 1100) words.emplace_back("--useCudaGraph");
        if (turn.one_at_a_time) words.emplace_back("--exposeDMA");
        // Up to 8.3 both are whole numbers there, and 0.5 would be read as 0.
        const bool whole = version_ < 804;
        words.push_back("--warmUp=" + number(whole ? std::ceil(turn.warm_up_ms) : turn.warm_up_ms));
        words.push_back("--duration=" + number(whole ? std::ceil(turn.seconds) : turn.seconds));
        words.emplace_back("--iterations=1");
        if (!turn.times.empty()) words.push_back("--exportTimes=" + turn.times.string());
        return words;
    }

    Result<TrtexecRun> run_once(const TrtexecTurn& turn, Progress& progress) {
        const std::chrono::seconds limit(static_cast<std::int64_t>(longest_start_s + 2 * turn.seconds));
        LATHE_TRY(const ProgramOutput output, run_program(command(turn), limit, progress));
        auto runs = parse_trtexec_log(output.text, "what trtexec printed");
        if (!runs) return std::move(runs).error();
        TrtexecRun& run = runs->back();
        if (output.status != 0 || !run.measured() || (run.passed && !*run.passed)) {
            return Error{ErrorCode::unsupported,
                         "trtexec failed" + (run.first_error ? ": " + run.first_error->text
                                                             : " with status " + std::to_string(output.status)),
                         info().file.string(),
                         "a plan runs on the GPU and the TensorRT version it was built with; try it by hand: trtexec "
                         "--loadEngine=" +
                             info().file.string()};
        }
        for (const TrtexecRemark& remark : run.remarks) {
            // How long a turn is and how many queries it holds is our choice.
            if (remark.name == "short_run" || remark.name == "few_queries_for_p99") continue;
            if (std::ranges::find(remarked_, remark.name) != remarked_.end()) continue;
            remarked_.push_back(remark.name);
            info().notes.push_back("trtexec warns: " + remark.text);
        }
        return std::move(run);
    }

    TrtexecOptions options_;
    std::filesystem::path program_, scratch_;
    int version_ = 0;                   ///< of TensorRT, 100 * major + minor; 0 until it was seen
    std::string shapes_, files_;        ///< as --shapes and --loadInputs take them
    std::vector<std::string> remarked_; ///< remarks that are in the notes
};

} // namespace

Result<std::filesystem::path> find_trtexec(const std::string& program) {
    std::error_code ignored;
    const auto runs = [&](const std::filesystem::path& file) {
        return std::filesystem::is_regular_file(file, ignored) && ::access(file.c_str(), X_OK) == 0;
    };
    if (program.find('/') != std::string::npos) {
        if (runs(program)) return std::filesystem::path(program);
    } else if (const char* path = std::getenv("PATH"); path != nullptr) {
        std::string_view rest = path;
        while (!rest.empty()) {
            const std::size_t end = std::min(rest.find(':'), rest.size());
            const auto file = std::filesystem::path(rest.substr(0, end)) / program;
            if (end > 0 && runs(file)) return file;
            rest.remove_prefix(std::min(end + 1, rest.size()));
        }
    }
    return Error{
        ErrorCode::not_found, "trtexec is not installed, or not where PATH leads", program,
        "it comes with TensorRT (its SDK's bin/, or /usr/src/tensorrt/bin): put that on PATH, or name the file: "
        "--via /usr/src/tensorrt/bin/trtexec"};
}

Result<TrtexecTrace> parse_trtexec_times(std::string_view text, std::string_view where, double warm_up_ms) {
    LATHE_TRY(const Json json, parse_json(text, where));
    TrtexecTrace trace;
    const auto wrong = [&](const std::string& why) {
        return Error{ErrorCode::parse_error, "these are no times of trtexec: " + why, std::string(where),
                     "take trtexec of TensorRT 8 to 11"};
    };
    if (!json.is_array() || json.empty()) return wrong("a list of queries is expected");
    for (const Json& query : json) {
        const auto start = query.is_object() ? query.find("startComputeMs") : query.end();
        if (start != query.end() && start->is_number() && start->get<double>() < warm_up_ms) continue;
        for (const auto& [key, values] :
             {std::pair{"latencyMs", &trace.latency}, std::pair{"h2dMs", &trace.copy_in},
              std::pair{"computeMs", &trace.compute}, std::pair{"d2hMs", &trace.copy_out}}) {
            const auto found = query.is_object() ? query.find(key) : query.end();
            if (found == query.end() || !found->is_number()) return wrong(std::string("a query lacks ") + key);
            const double value = found->get<double>();
            if (!std::isfinite(value) || value < 0) return wrong(std::string(key) + " is " + number(value));
            values->push_back(value);
        }
        if (!(trace.latency.back() > 0)) return wrong("a query took no time");
    }
    if (trace.latency.empty()) return wrong("no query came after the warm-up");
    return trace;
}

Result<TrtexecSubject> make_trtexec_subject(SubjectInfo info, const TrtexecOptions& options,
                                            std::filesystem::path scratch, Progress& progress) {
    LATHE_TRY(std::filesystem::path program, find_trtexec(options.program));
    auto subject = std::make_unique<Trtexec>(std::move(info), options, std::move(program), std::move(scratch));
    LATHE_TRY(std::vector<InputSpec> inputs, subject->look(progress));
    return TrtexecSubject{std::move(subject), std::move(inputs)};
}

} // namespace lathe
