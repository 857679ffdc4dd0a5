#include "bench/trtexec_log.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "bench/trtexec_remarks.hpp"

namespace lathe {
namespace {

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0)
        text.remove_prefix(1);
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0)
        text.remove_suffix(1);
    return text;
}

std::optional<double> number_at(std::string_view text) {
    double value = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failure != std::errc{} || end == text.data() || !std::isfinite(value)) return std::nullopt;
    return value;
}

/// The number behind `key` anywhere in the text.
std::optional<double> number_after(std::string_view text, std::string_view key) {
    const std::size_t at = text.find(key);
    return at == std::string_view::npos ? std::nullopt : number_at(trimmed(text.substr(at + key.size())));
}

/// A number of things; nothing for what none can be.
std::optional<std::int64_t> count_of(std::optional<double> number) {
    constexpr double most = 1e15; // exact in a double
    if (!number || *number < 0 || *number > most) return std::nullopt;
    return static_cast<std::int64_t>(*number);
}

/// Escape sequences of terminals ("\x1b[1;33m") taken out.
std::string without_colours(std::string_view line) {
    std::string plain;
    for (std::size_t i = 0; i < line.size(); ++i) {
        if (line[i] == '\x1b' && i + 1 < line.size() && line[i + 1] == '[') {
            i += 2;
            while (i < line.size() && std::isalpha(static_cast<unsigned char>(line[i])) == 0)
                ++i;
            continue;
        }
        plain += line[i];
    }
    return plain;
}

/// A line's severity and what follows it: "[07/11/2024-12:34:56] [I] text", with anything in front of that.
struct Entry {
    char severity = 0; ///< 'I', 'W', 'E', 'F', 'V'; 0: none, a line of another program or "&&&&"
    std::string_view text;
};

Entry entry_of(std::string_view line) {
    for (std::size_t at = line.find('['); at != std::string_view::npos; at = line.find('[', at + 1)) {
        const std::string_view rest = line.substr(at);
        if (rest.size() < 3 || rest[2] != ']' || std::string_view("IWEFV").find(rest[1]) == std::string_view::npos) {
            continue;
        }
        return {rest[1], trimmed(rest.substr(3))};
    }
    return {0, trimmed(line)};
}

/// NV_TENSORRT_VERSION of the line RUNNING as people write it: 8601 is 8.6.1, 100300 is 10.3.0.
std::string version_of(std::string_view digits) {
    int number = 0;
    const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (failure != std::errc{} || end == digits.data() || number < 1000) return "";
    const int unit = number >= 100000 ? 10000 : 1000; // from TensorRT 10 on two digits for the minor version
    return std::to_string(number / unit) + "." + std::to_string(number % unit / 100) + "." +
           std::to_string(number % 100);
}

/// "1x3x224x224"; empty if it is none.
std::vector<std::int64_t> shape_of(std::string_view text) {
    std::vector<std::int64_t> shape;
    const char* at = text.data();
    const char* const last = text.data() + text.size();
    while (at != last) {
        std::int64_t size = 0;
        const auto [end, failure] = std::from_chars(at, last, size);
        if (failure != std::errc{}) return {};
        shape.push_back(size);
        if (end == last || *end != 'x') break;
        at = end + 1;
    }
    return shape;
}

/// "min = 1.2 ms, max = 2.3 ms, mean = ..., percentile(99%) = 2.2 ms".
std::optional<TrtexecTimes> times_of(std::string_view text) {
    if (!trimmed(text).ends_with("ms")) return std::nullopt; // cut off
    TrtexecTimes times;
    const auto min = number_after(text, "min = ");
    const auto max = number_after(text, "max = ");
    const auto mean = number_after(text, "mean = ");
    const auto median = number_after(text, "median = ");
    if (!min || !max || !mean || !median) return std::nullopt;
    times.min = *min;
    times.max = *max;
    times.mean = *mean;
    times.median = *median;
    constexpr std::string_view opening = "percentile(";
    for (std::size_t at = text.find(opening); at != std::string_view::npos; at = text.find(opening, at + 1)) {
        const std::string_view rest = text.substr(at + opening.size());
        const auto percent = number_at(rest);
        const auto value = number_after(rest, ") = ");
        if (!percent || !value) return std::nullopt;
        times.percentiles[*percent] = *value;
    }
    return times;
}

class Parser {
public:
    Parser(std::string_view text, std::string_view where) : rest_(text), where_(where) {}

    Result<std::vector<TrtexecRun>> run() {
        while (!rest_.empty()) {
            const std::size_t end = std::min(rest_.find('\n'), rest_.size());
            const std::string line = without_colours(rest_.substr(0, end));
            rest_.remove_prefix(std::min(end + 1, rest_.size()));
            ++line_;
            LATHE_CHECK(take(line));
        }
        if (runs_.empty() || !recognised_) {
            return Error{ErrorCode::parse_error, "this is no log of trtexec", std::string(where_),
                         "give what trtexec printed, from the line &&&& RUNNING on: trtexec ... > FILE 2>&1"};
        }
        for (TrtexecRun& each : runs_)
            conclude(each);
        return std::move(runs_);
    }

private:
    TrtexecRun& current() {
        if (runs_.empty()) {
            runs_.emplace_back();
            runs_.back().first_line = line_;
        }
        return runs_.back();
    }

    Error wrong(std::string message, std::string hint) const {
        return {ErrorCode::parse_error, std::move(message), std::string(where_) + ", line " + std::to_string(line_),
                std::move(hint)};
    }

    Result<void> take(std::string_view line) {
        if (const std::size_t at = line.find("&&&& "); at != std::string_view::npos) {
            take_marker(line.substr(at + 5));
            return {};
        }
        const Entry entry = entry_of(line);
        if (entry.severity == 'E' || entry.severity == 'F') {
            if (!current().first_error) current().first_error = {"error", std::string(entry.text), line_, 1};
            return {};
        }
        if (entry.text.starts_with("=== ") && entry.text.ends_with(" ===")) {
            recognised_ = true;
            const std::string_view name = entry.text.substr(4, entry.text.size() - 8);
            // A log whose first lines were lost may hold several runs as well.
            if (name == "Model Options" && !current().section(name).name.empty()) start_run();
            section_ = name;
            current().sections.push_back({std::string(name), {}});
            return {};
        }
        if (entry.text.empty()) {
            if (section_ != "Performance summary") section_.clear();
            return {};
        }
        if (entry.severity == 'W') {
            if (auto remark = remark_of(entry.text, line_)) add_remark(current(), std::move(*remark));
            return {};
        }
        if (entry.text.starts_with("Host Latency") && section_ != "Performance summary") {
            return wrong("this is a log of TensorRT 7 or older, which prints other figures",
                         "logs of TensorRT 8 to 11 can be read");
        }
        if (section_ == "Performance summary") return take_summary(entry.text);
        if (section_.ends_with("Options") || section_ == "Device Information") take_option(entry.text);
        take_other(entry.text);
        return {};
    }

    void start_run() {
        runs_.emplace_back();
        runs_.back().first_line = line_;
        section_.clear();
    }

    void take_marker(std::string_view text) {
        recognised_ = recognised_ || text.find("trtexec") != std::string_view::npos;
        if (text.starts_with("RUNNING")) start_run();
        TrtexecRun& run = current();
        if (text.starts_with("PASSED")) run.passed = true;
        if (text.starts_with("FAILED")) run.passed = false;
        if (const std::size_t at = text.find("[TensorRT v"); at != std::string_view::npos && run.version.empty()) {
            run.version = version_of(text.substr(at + 11));
        }
        if (const std::size_t at = text.find(" # "); at != std::string_view::npos && run.command.empty()) {
            run.command = trimmed(text.substr(at + 3));
        }
    }

    void take_option(std::string_view text) {
        auto& entries = current().sections.back().entries;
        const std::size_t colon = text.find(':');
        if (colon == std::string_view::npos) return;
        entries.emplace_back(trimmed(text.substr(0, colon)), trimmed(text.substr(colon + 1)));
    }

    Result<void> take_summary(std::string_view text) {
        TrtexecRun& run = current();
        const std::size_t colon = text.find(": ");
        if (colon == std::string_view::npos) return {};
        const std::string_view key = text.substr(0, colon);
        const std::string_view value = text.substr(colon + 2);
        const std::string again = "the log is cut off or damaged: run trtexec again";
        for (const auto& [name, target] : {std::pair{"Throughput", &TrtexecRun::throughput_qps},
                                           std::pair{"Total Host Walltime", &TrtexecRun::walltime_s},
                                           std::pair{"Total GPU Compute Time", &TrtexecRun::compute_total_s}}) {
            if (key != name) continue;
            run.*target = number_at(value);
            if (!(run.*target)) return wrong(std::string(name) + " is no number: " + std::string(value), again);
        }
        for (const auto& [name, target] :
             {std::pair{"Latency", &TrtexecRun::latency}, std::pair{"End-to-End Host Latency", &TrtexecRun::end_to_end},
              std::pair{"Enqueue Time", &TrtexecRun::enqueue}, std::pair{"H2D Latency", &TrtexecRun::copy_in},
              std::pair{"GPU Compute Time", &TrtexecRun::compute}, std::pair{"D2H Latency", &TrtexecRun::copy_out}}) {
            if (key != name) continue;
            run.*target = times_of(value);
            if (!(run.*target)) {
                return wrong(std::string(name) + " lacks min, max, mean, median or a percentile: " + std::string(value),
                             again);
            }
        }
        if (key == "Total GPU Compute Time") section_.clear();
        return {};
    }

    /// Lines that stand alone.
    void take_other(std::string_view text) {
        TrtexecRun& run = current();
        if (text.starts_with("TensorRT version: ")) {
            const std::string_view version = trimmed(text.substr(18));
            // The first of TensorRT 8 printed the number of the line RUNNING.
            run.version = version.find('.') == std::string_view::npos ? version_of(version) : std::string(version);
            recognised_ = true;
        } else if (text.starts_with("Timing trace has ")) {
            if (const auto queries = count_of(number_after(text, "has ")))
                run.queries = static_cast<std::size_t>(*queries);
        } else if (text.starts_with("Warmup completed ")) {
            run.warm_up_ms = number_after(text, " over ");
        } else if (text.starts_with("Engine built in ")) {
            run.build_s = number_after(text, " in ");
        } else if (text.starts_with("Engine loaded in ")) {
            run.load_s = number_after(text, " in ");
        } else if (text.starts_with("Using random values for input ")) {
            run.random_inputs = true;
        } else if (text.starts_with("Input inference shape")) {
            const std::size_t equals = text.rfind('=');
            const std::size_t colon = text.find(": ");
            if (equals == std::string_view::npos || colon == std::string_view::npos || equals < colon) return;
            add_input(trimmed(text.substr(colon + 2, equals - colon - 2)), text.substr(equals + 1));
        } else if (text.starts_with("Input binding for ") || text.starts_with("Created input binding for ")) {
            const std::size_t name = text.find(" for ") + 5;
            const std::size_t with = text.rfind(" with dimensions ");
            if (with == std::string_view::npos || with < name) return;
            add_input(text.substr(name, with - name), text.substr(with + 17));
        }
    }

    void add_input(std::string_view name, std::string_view dimensions) {
        std::vector<std::int64_t> shape = shape_of(dimensions);
        auto& inputs = current().inputs;
        const auto known =
            std::ranges::find(inputs, name, [](const auto& each) -> std::string_view { return each.first; });
        if (shape.empty() || known != inputs.end()) return;
        inputs.emplace_back(name, std::move(shape));
    }

    std::string_view rest_;
    std::string_view where_;
    std::size_t line_ = 0;
    bool recognised_ = false;
    std::string section_;
    std::vector<TrtexecRun> runs_;
};

} // namespace

std::optional<double> TrtexecTimes::percentile(double percent) const {
    const auto found = percentiles.find(percent);
    return found == percentiles.end() ? std::nullopt : std::optional(found->second);
}

std::string_view TrtexecSection::value(std::string_view key) const {
    const auto found = std::ranges::find(entries, key, [](const auto& each) -> std::string_view { return each.first; });
    return found == entries.end() ? std::string_view() : std::string_view(found->second);
}

const TrtexecSection& TrtexecRun::section(std::string_view name) const {
    static const TrtexecSection empty;
    const auto found = std::ranges::find(sections, name, &TrtexecSection::name);
    return found == sections.end() ? empty : *found;
}

bool TrtexecRun::implicit_batch() const { return number_at(section("Inference Options").value("Batch")).has_value(); }

std::int64_t TrtexecRun::batch() const {
    if (const auto given = count_of(number_at(section("Inference Options").value("Batch"))); given && *given >= 1)
        return *given;
    return inputs.empty() || inputs.front().second.empty() ? 1 : std::max<std::int64_t>(1, inputs.front().second[0]);
}

std::string TrtexecRun::precision() const {
    std::string text(section("Build Options").value("Precision"));
    for (char& c : text)
        c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text == "strongly typed" ? "" : text; // the graph's own, from TensorRT 11 on
}

bool TrtexecRun::has_transfers() const {
    const std::string_view said = section("Inference Options").value("Data transfers");
    if (!said.empty()) return said != "Disabled";
    return copy_in && copy_out && copy_in->max + copy_out->max > 0;
}

Result<std::vector<TrtexecRun>> parse_trtexec_log(std::string_view text, std::string_view where) {
    return Parser(text, where).run();
}

} // namespace lathe
