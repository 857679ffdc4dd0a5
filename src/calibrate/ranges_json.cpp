#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "calibrate/guard.hpp"
#include "calibrate/ranges_file.hpp"
#include "calibrate/settle.hpp"
#include "support/files.hpp"
#include "support/hash.hpp"

// The file: a first line {"kind":"ranges","version":1,"checksum":"<digest of all that follows it>", then the rest of
// the object, one tensor a line. Counts are integers; a negative one stands for that many empty bins.

namespace lathe {

namespace {

constexpr int file_version = 1;
constexpr std::size_t size_limit = std::size_t{1} << 28; // 100 times the file of a large model
constexpr std::string_view not_ranges = "this is not a ranges file of Lathe";
constexpr std::string_view redo = "make it again with lathe calibrate --force";

Error corrupt(std::string message, std::string_view where) {
    return {ErrorCode::corrupt, std::move(message), std::string(where), std::string(redo)};
}

std::string dumped(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json histogram_to_json(const Histogram& histogram) {
    const Histogram::Parts parts = histogram.parts();
    Json counts = Json::array();
    std::int64_t empty = 0;
    for (const std::uint64_t count : parts.counts) {
        if (count == 0) {
            --empty;
            continue;
        }
        if (empty != 0) counts.push_back(std::exchange(empty, 0));
        counts.push_back(count);
    }
    if (empty != 0) counts.push_back(empty);
    return {{"exponent", parts.exponent},
            {"first", parts.first_bin},
            {"zeros", parts.zeros},
            {"nans", parts.nans},
            {"infinities", parts.infinities},
            {"min", static_cast<double>(parts.min)},
            {"max", static_cast<double>(parts.max)},
            {"counts", std::move(counts)}};
}

/// Reads members with their type checked; remembers the first that is missing or wrong.
class Reader {
public:
    Reader(const Json& object, std::string place) : object_(object), place_(std::move(place)) {
        if (!object.is_object()) fail("is not an object");
    }

    std::string text(const char* name) {
        const Json* member = find(name);
        if (member == nullptr || !member->is_string()) return fail(name), std::string();
        return member->get<std::string>();
    }
    std::uint64_t count(const char* name) {
        const Json* member = find(name);
        if (member == nullptr || !member->is_number_unsigned()) return fail(name), 0;
        return member->get<std::uint64_t>();
    }
    int integer(const char* name) {
        const Json* member = find(name);
        constexpr std::int64_t limit = 1 << 20;
        if (member == nullptr || !member->is_number_integer()) return fail(name), 0;
        const auto value = member->get<std::int64_t>();
        if (value < -limit || value > limit) return fail(name), 0;
        return static_cast<int>(value);
    }
    bool has(const char* name) const { return find(name) != nullptr; }
    bool boolean(const char* name) {
        const Json* member = find(name);
        if (member == nullptr || !member->is_boolean()) return fail(name), false;
        return member->get<bool>();
    }
    double number(const char* name) {
        const Json* member = find(name);
        if (member == nullptr || !member->is_number()) return fail(name), 0.0;
        return member->get<double>();
    }
    float real(const char* name) { return as_float(find(name), name); }
    Range range(const char* name) {
        const Json* member = find(name);
        if (member == nullptr || !member->is_array() || member->size() != 2) return fail(name), Range{};
        const Range range{as_float(&(*member)[0], name), as_float(&(*member)[1], name)};
        if (!(range.low <= 0.0F && range.high >= 0.0F)) fail(name);
        return range;
    }
    const Json& array(const char* name) {
        static const Json empty = Json::array();
        const Json* member = find(name);
        if (member == nullptr || !member->is_array()) return fail(name), empty;
        return *member;
    }
    const Json& object(const char* name) {
        static const Json empty = Json::object();
        const Json* member = find(name);
        if (member == nullptr || !member->is_object()) return fail(name), empty;
        return *member;
    }

    void fail(const std::string& what) {
        if (problem_.empty()) problem_ = what;
    }
    Result<void> result(std::string_view where) const {
        if (problem_.empty()) return {};
        return corrupt("the ranges file is damaged: '" + problem_ + "' is missing or wrong",
                       std::string(where) + (place_.empty() ? "" : ", " + place_));
    }

private:
    const Json* find(const char* name) const {
        if (!object_.is_object()) return nullptr;
        const auto found = object_.find(name);
        return found == object_.end() ? nullptr : &*found;
    }
    float as_float(const Json* json, const char* name) {
        if (json == nullptr || !json->is_number()) return fail(name), 0.0F;
        const auto value = json->get<double>();
        // The double must be a float exactly, since it was one when written.
        if (!std::isfinite(value) || std::fabs(value) > 3.4028234663852886e38) return fail(name), 0.0F;
        const auto single = static_cast<float>(value);
        if (static_cast<double>(single) != value) fail(name);
        return single;
    }

    const Json& object_;
    std::string place_;
    std::string problem_;
};

Histogram histogram_from_json(const Json& json, Reader& owner, const std::string& place, std::string_view where,
                              Result<void>& status) {
    Reader reader(json, place);
    Histogram::Parts parts;
    parts.exponent = reader.integer("exponent");
    parts.first_bin = reader.integer("first");
    parts.zeros = reader.count("zeros");
    parts.nans = reader.count("nans");
    parts.infinities = reader.count("infinities");
    parts.min = reader.real("min");
    parts.max = reader.real("max");
    constexpr std::int64_t most = 2 * std::int64_t{Histogram::bins_per_side};
    for (const Json& item : reader.array("counts")) {
        if (!item.is_number_integer()) {
            reader.fail("counts");
            break;
        }
        if (item.is_number_unsigned()) {
            parts.counts.push_back(item.get<std::uint64_t>());
        } else {
            const auto run = item.get<std::int64_t>();
            if (run >= 0 || run < -most) {
                reader.fail("counts");
                break;
            }
            parts.counts.insert(parts.counts.end(), static_cast<std::size_t>(-run), 0);
        }
        if (parts.counts.size() > static_cast<std::size_t>(most)) {
            reader.fail("counts");
            break;
        }
    }
    Histogram histogram;
    status = reader.result(where);
    if (status && !histogram.assign(parts)) owner.fail("histogram");
    return histogram;
}

Result<TensorRange> tensor_from_json(const Json& json, std::size_t index, std::string_view where) {
    Reader reader(json, "tensor " + std::to_string(index));
    TensorRange tensor;
    tensor.name = reader.text("name");
    tensor.uint8 = reader.range("uint8");
    tensor.int8 = reader.range("int8");
    tensor.fallback = reader.has("fallback") && reader.text("fallback") == to_string(Method::mse);
    const Json& stored = reader.object("histogram");
    LATHE_CHECK(reader.result(where));
    Result<void> status;
    tensor.histogram = histogram_from_json(stored, reader, "tensor " + tensor.name, where, status);
    LATHE_CHECK(std::move(status));
    LATHE_CHECK(reader.result(where));
    return tensor;
}

Result<CalibrationConvergence> convergence_from_json(const Json& json, std::string_view where) {
    Reader reader(json, "convergence");
    CalibrationConvergence convergence;
    convergence.available = reader.count("available");
    convergence.settled = reader.boolean("settled");
    for (const Json& item : reader.array("rounds")) {
        Reader entry(item, "round");
        convergence.rounds.push_back({entry.count("samples"), entry.count("fresh"), entry.number("noise_change"),
                                      entry.number("worst_change"), entry.text("worst_tensor")});
        LATHE_CHECK(entry.result(where));
    }
    LATHE_CHECK(reader.result(where));
    return convergence;
}

} // namespace

std::string to_text(const RangesFile& ranges) {
    Json head;
    head["model"] = ranges.key.model;
    head["data"] = ranges.key.data;
    head["preprocess"] = ranges.key.preprocess;
    head["samples"] = ranges.key.samples;
    head["samples_seen"] = ranges.samples_seen;
    if (ranges.key.until_settled) head["until_settled"] = true;
    if (ranges.convergence) head["convergence"] = to_json(*ranges.convergence);
    head["method"] = to_string(ranges.method);
    head["percentile"] = ranges.options.percentile;
    head["guard"] = ranges.options.guard;
    head["findings"] = Json::array();
    for (const CalibrationFinding& finding : ranges.findings) {
        head["findings"].push_back({{"name", finding.name},
                                    {"tensor", finding.tensor},
                                    {"detail", finding.detail},
                                    {"severity", to_string(finding.severity)}});
    }
    std::string body;
    for (const auto& [key, value] : head.items())
        body += dumped(Json(key)) + ":" + dumped(value) + ",\n";
    body += "\"tensors\":[\n";
    for (std::size_t i = 0; i < ranges.tensors.size(); ++i) {
        const TensorRange& tensor = ranges.tensors[i];
        const auto pair = [](const Range& range) {
            return Json::array({static_cast<double>(range.low), static_cast<double>(range.high)});
        };
        Json line = {{"name", tensor.name},
                     {"uint8", pair(tensor.uint8)},
                     {"int8", pair(tensor.int8)},
                     {"histogram", histogram_to_json(tensor.histogram)}};
        if (tensor.fallback) line["fallback"] = to_string(Method::mse);
        body += dumped(line) + (i + 1 < ranges.tensors.size() ? ",\n" : "\n");
    }
    body += "]}\n";
    const std::string first = R"({"kind":"ranges","version":)" + std::to_string(file_version) + R"(,"checksum":")" +
                              hash_hex(std::as_bytes(std::span(body))) + "\",\n";
    return first + body;
}

Result<void> save_ranges(const std::filesystem::path& path, const RangesFile& ranges) {
    return write_file(path, to_text(ranges));
}

Result<RangesFile> parse_ranges(std::string_view text, std::string_view where) {
    auto parsed = parse_json(text, where);
    const std::size_t line_end = text.find('\n');
    if (!parsed) {
        // A truncated file of ours is not JSON either: say which of the two it is.
        if (text.starts_with(R"({"kind":"ranges")")) return corrupt("the ranges file is truncated or damaged", where);
        return Error{ErrorCode::parse_error, std::string(not_ranges), std::string(where), std::string(redo)};
    }
    const Json& json = *parsed;
    if (!json.is_object() || !json.contains("kind") || json["kind"] != "ranges") {
        return Error{ErrorCode::parse_error, std::string(not_ranges), std::string(where), std::string(redo)};
    }
    Reader reader(json, "");
    const int version = reader.integer("version");
    const std::string checksum = reader.text("checksum");
    LATHE_CHECK(reader.result(where));
    if (version != file_version) {
        return Error{ErrorCode::unsupported,
                     "the ranges file has version " + std::to_string(version) + ", this Lathe reads version " +
                         std::to_string(file_version),
                     std::string(where), std::string(redo)};
    }
    const std::string_view body = line_end == std::string_view::npos ? "" : text.substr(line_end + 1);
    if (checksum != hash_hex(std::as_bytes(std::span(body)))) {
        return corrupt("the ranges file was changed after it was written: its checksum is wrong", where);
    }

    RangesFile ranges;
    ranges.key.model = reader.text("model");
    ranges.key.data = reader.text("data");
    ranges.key.preprocess = reader.text("preprocess");
    ranges.key.samples = reader.count("samples");
    ranges.samples_seen = reader.count("samples_seen");
    ranges.options.percentile = reader.number("percentile");
    const bool has_guard = reader.has("guard");
    if (has_guard) ranges.options.guard = reader.boolean("guard");
    const std::string method_name = reader.text("method");
    if (reader.has("until_settled")) ranges.key.until_settled = reader.boolean("until_settled");
    const Json& tensors = reader.array("tensors");
    if (!check(ranges.options)) reader.fail("percentile");
    LATHE_CHECK(reader.result(where));
    auto method = method_from_name(method_name);
    if (!method) return std::move(method).error().in(std::string(where));
    ranges.method = *method;
    // A file of before there was a guard has ranges as its method found them.
    if (!has_guard) ranges.options.guard = !can_clip_the_signal(ranges.method);

    if (reader.has("convergence")) {
        LATHE_TRY(ranges.convergence, convergence_from_json(reader.object("convergence"), where));
    }
    for (const Json& item : reader.array("findings")) {
        Reader finding(item, "finding");
        ranges.findings.push_back({finding.text("name"), finding.text("tensor"), finding.text("detail"),
                                   severity_from_name(finding.text("severity"))});
        LATHE_CHECK(finding.result(where));
    }
    LATHE_CHECK(reader.result(where));

    std::unordered_set<std::string> names;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        LATHE_TRY(TensorRange tensor, tensor_from_json(tensors[i], i, where));
        if (!names.insert(tensor.name).second) {
            return corrupt("the ranges file names a tensor twice", std::string(where) + ", tensor " + tensor.name);
        }
        ranges.tensors.push_back(std::move(tensor));
    }
    return ranges;
}

Result<RangesFile> load_ranges(const std::filesystem::path& path) {
    LATHE_TRY(const std::string text, read_text_file(path, size_limit));
    return parse_ranges(text, path.string());
}

} // namespace lathe
