#include "data/checks.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

namespace lathe {

namespace {

constexpr std::size_t names_shown = 3;
constexpr std::size_t most_digests = 1'000'000;
/// Photographs have a mean of 90 to 140 and a standard deviation of 50 to 80, of 255. These bounds leave room for
/// scans, night and snow; values read in a wrong unit miss them by far.
constexpr double least_pixel_mean = 10;
constexpr double most_pixel_mean = 245;
constexpr double least_pixel_std = 20;

std::string figure(double value) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.4g", value);
    return text.data();
}

/// What a range of values looks like to someone who has seen many wrong ones.
std::string guess_encoding(double min, double max, double mean) {
    if (min >= -0.01 && max > 16 && max <= 255.5) return "pixels of 0..255 that were not scaled";
    if (min >= -0.001 && max <= 1.001) return "pixels of 0..1 that were not normalised by mean and std";
    if (min >= -1.01 && max <= 1.01 && std::fabs(mean) < 0.5) return "pixels scaled to -1..1";
    if (min >= -2.7 && max <= 2.7) return "pixels normalised with ImageNet's mean and std";
    return "no common encoding of pixels";
}

} // namespace

const char* to_string(DataFinding::Severity severity) {
    switch (severity) {
        case DataFinding::Severity::information: return "information";
        case DataFinding::Severity::warning: return "warning";
        case DataFinding::Severity::error: return "error";
    }
    return "error";
}

Json to_json(const std::vector<DataFinding>& findings) {
    Json json = Json::array();
    for (const DataFinding& finding : findings) {
        json.push_back({{"name", finding.name}, {"severity", to_string(finding.severity)}, {"detail", finding.detail}});
    }
    return json;
}

void DataChecks::Names::add(const std::string& name) {
    if (count++ < names_shown) first.push_back(name);
}

std::string DataChecks::Names::describe() const {
    std::string text;
    for (const std::string& name : first)
        text += (text.empty() ? "" : ", ") + name;
    return count > first.size() ? text + ", …" : text;
}

DataChecks::DataChecks(const DataExpectations& expectations) : expectations_(expectations) {}

void DataChecks::observe(const Batch& batch) {
    for (const SampleFacts& sample : facts_of(batch))
        add(sample);
}

void DataChecks::add(const SampleFacts& sample) {
    ++samples_;
    for (std::size_t i = 0; i < sample.nonfinite; ++i)
        nonfinite_.add(sample.name);
    for (std::size_t i = 0; i < sample.constant; ++i)
        constant_.add(sample.name);
    for (const auto& image : sample.images) {
        // The range is judged for one image input; a second one may hold anything.
        if (channels_.empty()) channels_.resize(image.size());
        if (channels_.size() != image.size()) continue;
        for (std::size_t c = 0; c < image.size(); ++c) {
            const SampleFacts::Channel& seen = image[c];
            if (seen.count == 0) continue;
            SampleFacts::Channel& channel = channels_[c];
            channel.min = channel.count > 0 ? std::min(channel.min, seen.min) : seen.min;
            channel.max = channel.count > 0 ? std::max(channel.max, seen.max) : seen.max;
            channel.count += seen.count;
            channel.sum += seen.sum;
            channel.squares += seen.squares;
        }
    }
    const auto found = seen_.find(sample.digest);
    if (found != seen_.end())
        duplicates_.add(sample.name + " = " + found->second);
    else if (seen_.size() < most_digests)
        seen_.emplace(sample.digest, sample.name);
    ++cut_.samples;
    cut_.cut += sample.cut;
    cut_.limit = sample.token_limit;
    if (sample.label < 0) return;
    ++labelled_;
    if (labels_.size() < 2) labels_.insert(sample.label);
}

std::optional<DataFinding> DataChecks::check_range() const {
    double min = 0;
    double max = 0;
    double mean = 0;
    double lowest_std = 0;
    bool any = false;
    for (std::size_t c = 0; c < channels_.size(); ++c) {
        const SampleFacts::Channel& channel = channels_[c];
        if (channel.count == 0) return {};
        const double channel_mean = channel.sum / channel.count;
        const double deviation =
            std::sqrt(std::max(0.0, channel.squares / channel.count - channel_mean * channel_mean));
        min = any ? std::min<double>(min, channel.min) : channel.min;
        max = any ? std::max<double>(max, channel.max) : channel.max;
        lowest_std = any ? std::min(lowest_std, deviation) : deviation;
        mean += channel_mean / static_cast<double>(channels_.size());
        any = true;
    }
    if (!any || constant_.count == samples_) return {}; // constant images are a finding of their own
    const std::string seen = "values of " + figure(min) + ".." + figure(max) + ", mean " + figure(mean) +
                             ", look like " + guess_encoding(min, max, mean);
    if (!expectations_.preprocess || channels_.size() != 3) {
        const bool raw = min >= -0.01 && max > 16 && max <= 255.5;
        const bool unit = min >= -0.001 && max <= 1.001;
        if (!raw && !unit) return {};
        return DataFinding{"wrong_value_range", DataFinding::Severity::information,
                           seen + "; the model does not say what it expects"};
    }
    const Preprocess& expected = *expectations_.preprocess;
    for (std::size_t c = 0; c < 3; ++c) {
        const SampleFacts::Channel& channel = channels_[c];
        const auto value_of = [&](double pixel) {
            return (pixel * expected.scale - expected.mean[c]) / expected.std[c];
        };
        const auto pixel_of = [&](double value) {
            return (value * expected.std[c] + expected.mean[c]) / expected.scale;
        };
        const double low = std::min(value_of(0), value_of(255));
        const double high = std::max(value_of(0), value_of(255));
        const double slack = 0.02 * (high - low);
        const double channel_mean = channel.sum / channel.count;
        const double variance = std::max(0.0, channel.squares / channel.count - channel_mean * channel_mean);
        const double pixel_mean = pixel_of(channel_mean);
        const double pixel_std = std::fabs(std::sqrt(variance) * expected.std[c] / expected.scale);
        if (channel.min >= low - slack && channel.max <= high + slack && pixel_mean >= least_pixel_mean &&
            pixel_mean <= most_pixel_mean && pixel_std >= least_pixel_std) {
            continue;
        }
        return DataFinding{"wrong_value_range", DataFinding::Severity::warning,
                           seen + "; the model expects " + figure(low) + ".." + figure(high) + " in channel " +
                               std::to_string(c) + " (check scale, mean and std)"};
    }
    return {};
}

std::vector<DataFinding> DataChecks::findings() const {
    using Severity = DataFinding::Severity;
    std::vector<DataFinding> found;
    const auto share = [&](std::size_t count) { return std::to_string(count) + " of " + std::to_string(samples_); };
    if (nonfinite_.count > 0) {
        found.push_back({"nonfinite_values", Severity::error,
                         share(nonfinite_.count) + " samples hold NaN or infinite values: " + nonfinite_.describe()});
    }
    if (auto range = check_range()) found.push_back(*std::move(range));
    if (constant_.count > 0) {
        found.push_back({"constant_images", Severity::warning,
                         share(constant_.count) + " images have one value a channel: " + constant_.describe()});
    }
    if (duplicates_.count > 0) {
        found.push_back({"duplicates", Severity::warning,
                         share(duplicates_.count) + " samples repeat an earlier one: " + duplicates_.describe()});
    }
    if (cut_.cut > 0) found.push_back({"cut_texts", Severity::warning, cut_.describe()});
    if (samples_ < expectations_.enough_samples) {
        found.push_back(
            {"too_few_samples", Severity::warning,
             std::to_string(samples_) + " samples; give at least " + std::to_string(expectations_.enough_samples)});
    }
    if (labelled_ > 1 && labels_.size() == 1) {
        found.push_back({"single_label", Severity::warning,
                         "all " + std::to_string(labelled_) + " labelled samples are of class " +
                             std::to_string(*labels_.begin())});
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const DataFinding& a, const DataFinding& b) { return a.severity > b.severity; });
    return found;
}

} // namespace lathe
