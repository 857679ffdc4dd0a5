#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/open_dataset.hpp"

// The kinds of dataset behind open_dataset, and the finding of files.
namespace lathe::detail {

/// One sample's file.
struct SampleFile {
    std::filesystem::path path;
    std::string name; ///< as it was listed
    std::int64_t label = -1;
};

struct SampleFiles {
    std::vector<SampleFile> files;
    std::vector<std::string> class_names;
    bool labelled = false;
    bool arrays = false; ///< .npy files, not images
};

/// Finds the sample files under a folder, in a list file, or the one file. See open_dataset for the rules.
Result<SampleFiles> find_samples(const std::filesystem::path& path);

/// Images or .npy files, one a sample, read ahead by threads.
Result<std::unique_ptr<Dataset>> make_file_dataset(SampleFiles files, const std::optional<Preprocess>& preprocess,
                                                   const InputSpec& input, const DatasetOptions& options,
                                                   const std::string& where);

/// A .npy file, mapped.
Result<std::unique_ptr<Dataset>> open_npy_dataset(const std::filesystem::path& path,
                                                  const std::optional<Preprocess>& preprocess, const InputSpec& input,
                                                  const DatasetOptions& options);
Result<std::unique_ptr<Dataset>> open_npz_dataset(const std::filesystem::path& path,
                                                  const std::optional<Preprocess>& preprocess,
                                                  const std::vector<InputSpec>& inputs, const DatasetOptions& options);

/// Whether a sample of `shape` (without the sample axis) fits the input; dimensions that are negative fit any.
bool fits_input(const InputSpec& input, const Shape& sample);

/// The sample's shape with `count` in front, or as axis 0.
Shape with_batch(std::size_t count, const Shape& sample);

} // namespace lathe::detail
