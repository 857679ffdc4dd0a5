#include "calibrate/report.hpp"

#include <algorithm>
#include <cmath>

#include "calibrate/settle.hpp"

namespace lathe {

namespace {

constexpr int most_bins = 256;

Json thinned(const Histogram& histogram) {
    Json edges = Json::array();
    Json counts = Json::array();
    int first = histogram.first_bin();
    int end = std::max(histogram.end_bin(), 1); // bin 0 at least, for the zeros
    int stride = 1;
    while ((end - first) / stride >= most_bins)
        stride *= 2;
    // Groups start at multiples of the stride, so that zero stays an edge.
    first = first >= 0 ? 0 : -((-first + stride - 1) / stride * stride);
    for (int begin = first; begin < end; begin += stride) {
        std::uint64_t sum = begin == 0 ? histogram.zeros() : 0;
        for (int i = begin; i < begin + stride; ++i)
            sum += histogram.bin(i);
        edges.push_back(begin * histogram.bin_width());
        counts.push_back(sum);
    }
    end = first + static_cast<int>(counts.size()) * stride;
    edges.push_back(end * histogram.bin_width());
    return {{"edges", std::move(edges)}, {"counts", std::move(counts)}};
}

} // namespace

std::vector<JudgedTensor> judge_all(const RangesFile& ranges, const NumberFormat& format) {
    std::vector<JudgedTensor> judged;
    for (const TensorRange& tensor : ranges.tensors) {
        const Range range = ranges.range(tensor, format);
        judged.push_back({&tensor, range, judge(tensor.histogram, range, format)});
    }
    return judged;
}

Json to_json(const CalibrationFinding& finding) {
    return {{"name", finding.name},
            {"tensor", finding.tensor},
            {"detail", (finding.tensor.empty() ? "" : finding.tensor + ": ") + finding.detail},
            {"severity", to_string(finding.severity)}};
}

Json calibration_to_json(const RangesFile& ranges, const NumberFormat& format, double seconds) {
    std::vector<JudgedTensor> rows = judge_all(ranges, format);
    std::stable_sort(rows.begin(), rows.end(), [](const JudgedTensor& a, const JudgedTensor& b) {
        return a.quality.sqnr_db < b.quality.sqnr_db;
    });

    Json tensors = Json::array();
    for (const JudgedTensor& row : rows) {
        const Histogram& histogram = row.tensor->histogram;
        const double sqnr = row.quality.sqnr_db;
        tensors.push_back({{"name", row.tensor->name},
                           {"min", static_cast<double>(histogram.min())},
                           {"max", static_cast<double>(histogram.max())},
                           {"low", static_cast<double>(row.range.low)},
                           {"high", static_cast<double>(row.range.high)},
                           {"clipped_fraction", row.quality.clipped_fraction},
                           {"sqnr_db", std::isfinite(sqnr) ? Json(sqnr) : Json(nullptr)},
                           {"fallback", row.tensor->fallback},
                           {"histogram", thinned(histogram)}});
    }
    Json found = Json::array();
    for (const CalibrationFinding& finding : ranges.findings)
        found.push_back(to_json(finding));
    Json document{{"kind", "calibration"},
                  {"version", 1},
                  {"method", to_string(ranges.method)},
                  {"guard", ranges.options.guard},
                  {"samples", ranges.samples_seen},
                  {"data_digest", ranges.key.data},
                  {"seconds", seconds},
                  {"tensors", std::move(tensors)},
                  {"findings", std::move(found)}};
    if (ranges.convergence) document["convergence"] = to_json(*ranges.convergence);
    return document;
}

} // namespace lathe
