#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/image.hpp"
#include "lathe/result.hpp"
#include "lathe/types.hpp"

namespace lathe {

/// In pixels.
struct PictureSize {
    std::size_t width = 0;
    std::size_t height = 0;
};

/// Some samples, ready to be fed to the model.
struct Batch {
    std::vector<HostTensor> inputs;   ///< one a model input; axis 0 is the sample, but see is_whole
    std::vector<Image> pictures{};    ///< instead of inputs, where the dataset was asked for pictures
    std::vector<PictureSize> sizes{}; ///< one a sample that is made from a picture: its own size; else empty
    std::vector<std::string> names;   ///< one a sample: file name or index
    std::vector<std::int64_t> labels; ///< one a sample; -1 where unknown
    std::vector<double> scores{};     ///< one a sample where the data has numbers for labels; else empty
    std::size_t cut = 0;              ///< samples of text that were longer than the model takes
    std::size_t token_limit = 0;      ///< what texts are cut at; 0: they are no texts
    std::size_t size() const { return names.size(); }
    /// Whether the input has no row for each sample: it belongs whole to the only sample (a state, a number).
    bool is_whole(const HostTensor& input) const {
        return input.shape.empty() || input.shape[0] != static_cast<std::int64_t>(size());
    }
};

/// Texts that were cut, counted over batches.
struct CutTexts {
    std::size_t samples = 0;
    std::size_t cut = 0;
    std::size_t limit = 0;

    void add(const Batch& batch) {
        samples += batch.size();
        cut += batch.cut;
        limit = batch.token_limit;
    }
    /// "3 of 10 texts have more than the 128 tokens ..."; empty where none was cut.
    std::string describe() const {
        if (cut == 0) return {};
        return std::to_string(cut) + " of " + std::to_string(samples) + " texts have more than the " +
               std::to_string(limit) + " tokens that the model takes here, and were cut";
    }
};

/// Samples in a fixed order, streamed: memory does not grow with their number.
class Dataset {
public:
    virtual ~Dataset() = default;
    /// Total number of samples.
    virtual std::size_t size() const = 0;
    virtual bool has_labels() const = 0;
    /// The next at most `count` samples; nothing at the end.
    virtual Result<std::optional<Batch>> next(std::size_t count) = 0;
    /// Back to the first sample.
    virtual void rewind() = 0;
    /// Digest of the sample files and of the preprocessing: equal when the tensors would be equal.
    virtual Result<std::string> digest() const = 0;
    /// Whether a sample is all that the model takes at once, so that batches are of one.
    virtual bool has_whole_samples() const { return false; }
    /// Class names found beside the data (classes.csv); empty where there are none.
    virtual std::vector<std::string> class_names() const { return {}; }
};

} // namespace lathe
