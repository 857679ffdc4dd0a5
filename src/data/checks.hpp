#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "data/preprocess.hpp"
#include "support/json.hpp"

namespace lathe {

/// Something about the data that a person should look at.
struct DataFinding {
    enum class Severity { information, warning, error };
    std::string name; ///< "wrong_value_range", "duplicates", "constant_images", "too_few_samples", "nonfinite_values",
                      ///< "single_label", "cut_texts"
    Severity severity = Severity::warning;
    std::string detail; ///< one sentence, with figures and the first samples concerned
};

const char* to_string(DataFinding::Severity severity);

/// [{"name", "severity", "detail"}, ...]
Json to_json(const std::vector<DataFinding>& findings);

/// What the data should look like.
struct DataExpectations {
    /// The preprocessing that the model was trained with (its metadata), whatever was done to the data. Without it only
    /// the common mistakes are recognised: pixels of 0..255 or 0..1 that were not normalised.
    std::optional<Preprocess> preprocess;
    std::size_t enough_samples = 32; ///< fewer are too few
};

/// What the checks keep of one sample.
struct SampleFacts {
    /// Statistics of the values of one channel; nothing counted where some are not finite.
    struct Channel {
        double count = 0;
        double sum = 0;
        double squares = 0;
        float min = 0;
        float max = 0;
    };

    std::string name;
    std::string digest;                       ///< of its inputs
    std::int64_t label = -1;                  ///< -1: none
    std::size_t nonfinite = 0;                ///< inputs with NaN or infinite values
    std::size_t constant = 0;                 ///< images with one value a channel
    std::size_t cut = 0;                      ///< texts cut in its batch, if it is the first one there
    std::size_t token_limit = 0;              ///< what they are cut at; 0: no texts
    std::vector<std::vector<Channel>> images; ///< an image input each, in the model's channel order
};

/// The facts of each sample of a batch.
std::vector<SampleFacts> facts_of(const Batch& batch);
Json to_json(const std::vector<SampleFacts>& facts);
/// Errors: corrupt.
Result<std::vector<SampleFacts>> sample_facts_from_json(const Json& json, const std::string& where);

/// Watches the batches of a dataset go by and tells afterwards what looks wrong. Images are inputs of rank 4 with 1, 3
/// or 4 channels; value range and constant images are judged for those alone. Memory: some 100 bytes a sample, for the
/// first million samples.
class DataChecks {
public:
    explicit DataChecks(const DataExpectations& expectations = {});

    void observe(const Batch& batch);
    /// A sample that was looked at before, perhaps elsewhere: facts added in the order of the samples find what
    /// observing their batches finds.
    void add(const SampleFacts& sample);
    /// What was found so far, the gravest first.
    std::vector<DataFinding> findings() const;
    std::size_t samples() const { return samples_; }

private:
    struct Names {
        std::size_t count = 0;
        std::vector<std::string> first;
        void add(const std::string& name);
        std::string describe() const;
    };

    std::optional<DataFinding> check_range() const;

    DataExpectations expectations_;
    std::size_t samples_ = 0;
    std::vector<SampleFacts::Channel> channels_; ///< of the first image input, in the model's channel order
    std::map<std::string, std::string> seen_;    ///< digest of a sample's inputs, and its name
    Names duplicates_;
    Names constant_;
    Names nonfinite_;
    CutTexts cut_;
    std::set<std::int64_t> labels_;
    std::size_t labelled_ = 0;
};

} // namespace lathe
