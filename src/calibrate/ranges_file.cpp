#include "calibrate/ranges_file.hpp"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "calibrate/guard.hpp"
#include "calibrate/model_key.hpp"
#include "support/thread_pool.hpp"

namespace lathe {

namespace {

constexpr std::size_t names_listed = 8;

/// "a, b, c and 4 more".
std::string listed(const std::vector<std::string>& names) {
    std::string text;
    for (std::size_t i = 0; i < std::min(names.size(), names_listed); ++i)
        text += (i == 0 ? "" : ", ") + names[i];
    if (names.size() > names_listed) text += " and " + std::to_string(names.size() - names_listed) + " more";
    return text;
}

Error mismatch(std::string message) {
    return {ErrorCode::mismatch, std::move(message), "", "calibrate again: lathe calibrate MODEL --data DIR --force"};
}

} // namespace

const TensorRange* RangesFile::find(std::string_view tensor) const {
    const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == tensor; });
    return found == tensors.end() ? nullptr : &*found;
}

Range RangesFile::range(const TensorRange& tensor, const NumberFormat& format) const {
    if (format == NumberFormat::uint8()) return tensor.uint8;
    if (format == NumberFormat::int8()) return tensor.int8;
    return guarded_range(tensor.histogram, method, format, options);
}

void reestimate(RangesFile& ranges, Method method, const EstimateOptions& options, std::size_t threads) {
    ranges.method = method;
    ranges.options = options;
    std::vector<std::optional<Collapse>> collapses(ranges.tensors.size());
    ThreadPool pool(threads);
    pool.for_each(ranges.tensors.size(), [&](std::size_t i) {
        TensorRange& tensor = ranges.tensors[i];
        std::optional<Collapse> signed_collapse;
        tensor.uint8 = guarded_range(tensor.histogram, method, NumberFormat::uint8(), options, &collapses[i]);
        tensor.int8 = guarded_range(tensor.histogram, method, NumberFormat::int8(), options, &signed_collapse);
        if (!collapses[i]) collapses[i] = signed_collapse;
        tensor.fallback = options.guard && collapses[i].has_value();
    });
    std::erase_if(ranges.findings, [](const CalibrationFinding& finding) { return finding.name == collapsed_range; });
    for (std::size_t i = 0; i < collapses.size(); ++i) {
        if (collapses[i]) ranges.findings.push_back(finding_of(*collapses[i], ranges.tensors[i], method, options));
    }
}

RangesFile make_ranges(ActivationStatistics statistics, RangesKey key, Method method, const EstimateOptions& options,
                       std::size_t threads) {
    RangesFile ranges;
    ranges.key = std::move(key);
    ranges.samples_seen = statistics.samples;
    for (TensorStatistics& tensor : statistics.tensors)
        ranges.tensors.push_back({std::move(tensor.name), std::move(tensor.histogram), {}, {}, false});
    reestimate(ranges, method, options, threads);
    return ranges;
}

Result<void> validate_ranges(const RangesFile& ranges, const RangesKey& expected,
                             std::span<const std::string> tensors) {
    const RangesKey& key = ranges.key;
    if (!expected.model.empty() && expected.model != key.model) {
        return mismatch("the ranges are for another model (made for " + key.model + ", this one is " + expected.model +
                        ")");
    }
    // The data's digest covers the next two as well, but cannot say which of them it was.
    if (expected.samples != 0 && expected.until_settled != key.until_settled) {
        const std::string asked = std::to_string(expected.samples) + " samples";
        return mismatch(key.until_settled ? "the ranges were calibrated until they settled (--samples auto), on " +
                                                std::to_string(ranges.samples_seen) + " samples, not on " + asked
                                          : "the ranges were calibrated on " + std::to_string(key.samples) +
                                                " samples, not until they settle (--samples auto)");
    }
    if (expected.samples != 0 && expected.samples != key.samples) {
        return mismatch("the ranges were calibrated on " + std::to_string(key.samples) + " samples, not " +
                        std::to_string(expected.samples));
    }
    if (!expected.preprocess.empty() && expected.preprocess != key.preprocess) {
        return mismatch("the ranges were calibrated with other preprocessing (" +
                        (key.preprocess.empty() ? std::string("none") : key.preprocess) + ", now " +
                        expected.preprocess + ")");
    }
    if (!expected.data.empty() && expected.data != key.data) {
        return mismatch("the ranges were calibrated on other data (digest " + key.data + ", this data has " +
                        expected.data + ")");
    }
    std::unordered_set<std::string_view> known;
    for (const TensorRange& tensor : ranges.tensors)
        known.insert(tensor.name);
    std::vector<std::string> missing;
    for (const std::string& tensor : tensors) {
        if (!known.contains(tensor)) missing.push_back(tensor);
    }
    if (!missing.empty()) return mismatch("the ranges lack tensors that are needed: " + listed(missing));
    return {};
}

Result<void> validate_ranges(const RangesFile& ranges, const Model& model) {
    std::unordered_set<std::string_view> known;
    for (const ValueInfo& input : model.graph.inputs)
        known.insert(input.name);
    for (const auto& node : model.graph.nodes)
        known.insert(node->outputs.begin(), node->outputs.end());
    std::vector<std::string> absent;
    for (const TensorRange& tensor : ranges.tensors) {
        if (!known.contains(tensor.name)) absent.push_back(tensor.name);
    }
    if (!absent.empty()) {
        return Error{ErrorCode::mismatch, "the ranges name tensors that the model does not have: " + listed(absent), "",
                     "calibrate the model that you quantise: simplify first, then calibrate and quantise its output"};
    }
    return validate_ranges(ranges, RangesKey{calibration_key(model), "", "", 0});
}

} // namespace lathe
