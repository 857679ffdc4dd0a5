#include "data/lengths.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "data/text_dataset.hpp"

namespace lathe {

LengthCounts count_lengths(std::span<const std::size_t> lengths, std::size_t batch) {
    LengthCounts counts;
    for (std::size_t first = 0; first < lengths.size(); first += batch) {
        const auto request = lengths.subspan(first, std::min(batch, lengths.size() - first));
        counts[*std::ranges::max_element(request)] += request.size();
    }
    return counts;
}

std::size_t length_quantile(const LengthCounts& counts, double share) {
    std::size_t total = 0;
    for (const auto& [length, samples] : counts)
        total += samples;
    const double rank = std::ceil(share * static_cast<double>(total));
    std::size_t seen = 0;
    for (const auto& [length, samples] : counts) {
        seen += samples;
        if (static_cast<double>(seen) >= rank) return length;
    }
    return 0;
}

std::vector<BucketPlan> propose_buckets(const LengthCounts& counts, std::size_t most) {
    constexpr std::size_t none = std::numeric_limits<std::size_t>::max();
    std::vector<std::size_t> lengths;
    std::vector<std::size_t> below{0}; // samples of the first i lengths
    for (const auto& [length, samples] : counts) {
        lengths.push_back(length);
        below.push_back(below.back() + samples);
    }
    const std::size_t n = lengths.size();
    // cost[j]: least tokens of the j shortest lengths with k buckets; start[k - 1][j]: where the last of them begins.
    std::vector<std::size_t> cost(n + 1, none);
    cost[0] = 0;
    std::vector<std::vector<std::size_t>> start;
    std::vector<BucketPlan> plans;
    for (std::size_t k = 1; k <= std::min(most, n); ++k) {
        std::vector<std::size_t> next(n + 1, none);
        std::vector<std::size_t>& begins = start.emplace_back(n + 1, 0);
        for (std::size_t j = k; j <= n; ++j) {
            for (std::size_t i = k - 1; i < j; ++i) {
                if (cost[i] == none) continue;
                const std::size_t tokens = cost[i] + lengths[j - 1] * (below[j] - below[i]);
                if (tokens >= next[j]) continue;
                next[j] = tokens;
                begins[j] = i;
            }
        }
        BucketPlan plan{std::vector<std::size_t>(k), next[n]};
        for (std::size_t bucket = k, end = n; bucket > 0; end = start[--bucket][end])
            plan.lengths[bucket - 1] = lengths[end - 1];
        plans.push_back(std::move(plan));
        cost = std::move(next);
    }
    return plans;
}

std::size_t bucket_of(std::size_t length, std::span<const std::size_t> buckets) {
    const auto found = std::ranges::lower_bound(buckets, length);
    return found == buckets.end() ? 0 : *found;
}

Result<std::vector<std::size_t>> read_lengths(const std::filesystem::path& path, const DatasetOptions& options,
                                              Progress& progress) {
    constexpr std::size_t at_once = 64;
    LATHE_TRY(const auto data, open_text_dataset(path, {{"attention_mask", DataType::int64, {-1, -1}}}, options));
    std::vector<std::size_t> lengths;
    lengths.reserve(data->size());
    progress.begin("count tokens", data->size());
    while (true) {
        LATHE_CHECK(progress.check());
        LATHE_TRY(const auto batch, data->next(at_once));
        if (!batch) break;
        const auto mask = batch->inputs[0].as<std::int64_t>();
        const std::size_t columns = mask.size() / batch->size();
        for (std::size_t row = 0; row < batch->size(); ++row) {
            const auto tokens = mask.subspan(row * columns, columns);
            lengths.push_back(std::accumulate(tokens.begin(), tokens.end(), std::size_t{0},
                                              [](std::size_t sum, std::int64_t one) { return sum + (one != 0); }));
            progress.advance();
        }
    }
    progress.end();
    if (lengths.empty()) return Error{ErrorCode::invalid_argument, "the data holds no samples", path.string(), ""};
    return lengths;
}

} // namespace lathe
