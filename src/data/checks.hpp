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

/// Watches the batches of a dataset go by and tells afterwards what looks wrong. Images are inputs of rank 4 with 1, 3
/// or 4 channels; value range and constant images are judged for those alone. Memory: some 100 bytes a sample, for the
/// first million samples.
class DataChecks {
public:
    explicit DataChecks(const DataExpectations& expectations = {});

    void observe(const Batch& batch);
    /// What was found so far, the gravest first.
    std::vector<DataFinding> findings() const;
    std::size_t samples() const { return samples_; }

private:
    /// Statistics of the finite values of one channel.
    struct Channel {
        double count = 0;
        double sum = 0;
        double squares = 0;
        float min = 0;
        float max = 0;
    };
    struct Names {
        std::size_t count = 0;
        std::vector<std::string> first;
        void add(const std::string& name);
        std::string describe() const;
    };

    void observe_values(const HostTensor& tensor, const std::vector<std::string>& names);
    void observe_duplicates(const Batch& batch);
    std::optional<DataFinding> check_range() const;

    DataExpectations expectations_;
    std::size_t samples_ = 0;
    std::vector<Channel> channels_; ///< of the first image input, in the model's channel order
    bool has_images_ = false;
    std::map<std::string, std::string> seen_; ///< digest of a sample's inputs, and its name
    Names duplicates_;
    Names constant_;
    Names nonfinite_;
    CutTexts cut_;
    std::set<std::int64_t> labels_;
    std::size_t labelled_ = 0;
};

} // namespace lathe
