#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <vector>

#include "data/open_dataset.hpp"
#include "lathe/result.hpp"
#include "support/progress.hpp"

namespace lathe {

/// Tokens of a request → number of samples that are computed at this length.
using LengthCounts = std::map<std::size_t, std::size_t>;

/// Samples of consecutive batches (the last may be smaller), each as long as the longest of its batch. `batch` ≥ 1.
LengthCounts count_lengths(std::span<const std::size_t> lengths, std::size_t batch);

/// The smallest length that `share` (0..1) of the samples do not exceed (nearest rank); 0 for no samples.
std::size_t length_quantile(const LengthCounts& counts, double share);

/// Sequence lengths that requests are filled up to, ascending; the last is the longest that was seen.
struct BucketPlan {
    std::vector<std::size_t> lengths;
    std::size_t computed = 0; ///< tokens of all samples once filled up
};

/// For each number of buckets 1, 2, ... `most` (no more than there are different lengths) the lengths that make the
/// least tokens in all. Exact, by dynamic programming over the different lengths: O(most · lengths²).
std::vector<BucketPlan> propose_buckets(const LengthCounts& counts, std::size_t most);

/// The smallest of ascending `buckets` that holds `length` tokens; 0 if none does.
std::size_t bucket_of(std::size_t length, std::span<const std::size_t> buckets);

/// Tokens of every sample of a text file, special tokens included, in the file's order (see open_text_dataset, whose
/// errors these are); cut at `options.text.max_length`.
Result<std::vector<std::size_t>> read_lengths(const std::filesystem::path& path, const DatasetOptions& options,
                                              Progress& progress);

} // namespace lathe
