#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lathe/export.hpp"
#include "lathe/progress.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// What `lathe profile-data` does: how long a dataset's texts are for a model.
struct ProfileDataRequest {
    std::filesystem::path model;   ///< an ONNX file or an engine with a tokenizer
    std::filesystem::path data;    ///< texts: .tsv, .csv, .jsonl or .txt
    std::string columns = {};      ///< see Data::columns
    std::size_t samples = 0;       ///< spread evenly over the data; 0: all
    std::size_t batch_size = 1;    ///< samples a request, in the data's order; all become as long as the longest
    std::size_t buckets = 4;       ///< lengths to propose shapes for, 1 to most_length_buckets
    std::string command_line = {}; ///< for the document
    Progress* progress = nullptr;  ///< nullptr: silent
};
constexpr std::size_t most_length_buckets = 8;

/// What filling up costs.
struct PaddingCost {
    std::size_t computed_tokens = 0; ///< of all samples, once filled up
    double padding_share = 0;        ///< of the computed tokens that are padding, 0..1
    double padding_over_real = 0;    ///< padding over the texts' own tokens
};

/// Lengths that requests are filled up to, ascending, with the least padding that so many can have.
struct LengthBuckets {
    std::vector<std::size_t> lengths;
    PaddingCost cost;
};

/// Options of `lathe build` for the chosen lengths: "--shape NAME:SHAPE" of every input, in one line each.
struct LengthShapes {
    std::string dynamic;               ///< one engine for every length
    std::vector<std::string> profiles; ///< of one engine on a GPU: a profile a bucket
    std::vector<std::string> fixed;    ///< an engine of one length, for each bucket
};

struct DataProfile {
    std::size_t samples = 0;
    std::size_t tokens = 0; ///< of all samples, special ones included
    double mean = 0;        ///< tokens a sample
    std::size_t shortest = 0, longest = 0;
    std::map<int, std::size_t> percentiles;       ///< 50, 75, 90, 95, 99: so many per cent have at most so many tokens
    std::map<std::size_t, std::size_t> histogram; ///< tokens → samples
    std::size_t limit = 0;                        ///< tokens that the model takes at most
    std::size_t longer_than_limit = 0;            ///< samples that it cuts
    std::size_t tokenizer_limit = 0;              ///< tokens that the tokenizer gives at most
    std::size_t at_tokenizer_limit = 0;           ///< samples that fill it, most of them cut
    PaddingCost own;                              ///< filled up to the longest of each batch only
    std::vector<LengthBuckets> proposals;         ///< of 1, 2, ... lengths
    std::size_t chosen = 0;                       ///< the proposal that was asked for, as an index
    std::optional<LengthShapes> shapes;           ///< absent: the graph itself takes one length only
    std::string document;                         ///< everything, as JSON text: what `lathe profile-data --json` prints
};

/// Errors: unsupported (the model carries no tokenizer), invalid_argument (buckets or a batch size out of range), what
/// the model and the data give (not_found, parse_error, corrupt), cancelled.
LATHE_API Result<DataProfile> profile_data(const ProfileDataRequest& request);

} // namespace lathe
