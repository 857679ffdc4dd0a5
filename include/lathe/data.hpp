#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/export.hpp"
#include "lathe/model.hpp"
#include "lathe/result.hpp"
#include "lathe/types.hpp"

namespace lathe {

/// Samples for a model: a path, or arrays in memory.
struct Data {
    /// A folder of images (with labels.csv or class subfolders: labelled), one image, a list of images (.txt, .csv), a
    /// .npy file or folder of them, or a .npz file with one array a model input and, optionally, "labels". For a model
    /// with a tokenizer also texts: .tsv, .csv, .jsonl or .txt.
    std::filesystem::path path;
    /// Instead of a path: one array a model input, by name (or one for the only input); axis 0 is the sample.
    std::vector<HostTensor> arrays;
    std::vector<std::int64_t> labels; ///< of `arrays`: none, or one a sample
    /// Of a text file: "text=NAME,pair=NAME,label=NAME", names of its header line or numbers from 0; empty: usual
    /// names.
    std::string columns = {};

    Data(std::filesystem::path path_) : path(std::move(path_)) {}
    Data(const char* path_) : path(path_) {}
    Data(const std::string& path_) : path(path_) {}
    Data(std::vector<HostTensor> arrays_, std::vector<std::int64_t> labels_ = {})
        : arrays(std::move(arrays_)), labels(std::move(labels_)) {}
};

/// How the model wants its images, as JSON text ({"resize": [224, 224], "mean": [...], ...}); empty if the model does
/// not say. For an engine it is EngineInfo::preprocess.
LATHE_API std::string preprocess_json(const Model& model);

/// Decode, resize, crop and normalise JPEG or PNG files: one float32 tensor, Nx3xHxW (or NxHxWx3 where the
/// preprocessing says so), named `name`. Decoding uses all cores; the order is that of `files`.
/// Errors: invalid_argument (no files, preprocessing without a size), parse_error (preprocessing, a damaged image:
/// named), not_found, unsupported (image format).
LATHE_API Result<HostTensor> load_images(std::span<const std::filesystem::path> files, std::string_view preprocess,
                                         std::string name = {});

} // namespace lathe
