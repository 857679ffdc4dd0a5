#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lathe/result.hpp"
#include "support/json.hpp"

namespace lathe::cuda {

/// What the builder found for one candidate.
struct Timing {
    std::string tactic;  ///< "provider:id"
    double mixed_us = 0; ///< activations warm in L2, weights cold: what is compared
    double warm_us = 0;
    double cold_us = 0;
    std::string
        refused; ///< why it may not win (wrong result with its error, launch failure, workspace); empty if it may
    std::size_t workspace = 0;
    double error = 0; ///< against the reference
};

/// Candidates of an op, by environment and signature. Thread-safe.
class TimingCache {
public:
    /// `environment`: "NVIDIA H200; sm_90; 132 SMs; driver 580.159.04; cuda 13.0; cudnn 9.19.0; cublasLt 13.1.0;
    /// lathe-kernels <digest>".
    explicit TimingCache(std::string environment);
    /// Adds the entries of a file for this environment; others are kept and written back. A missing file is an empty
    /// one; a damaged one is set aside as FILE.damaged with a warning.
    Result<void> read(const std::filesystem::path& file);
    /// Reads the file anew, merges (newer wins), writes atomically, under a lock file.
    Result<void> write(const std::filesystem::path& file) const;
    /// Nothing where it is not known, or was found with less effort than `least_effort`.
    std::optional<std::vector<Timing>> find(const std::string& signature, int least_effort = 0) const;
    /// `effort`: how much was tried; 0 little, 1 the usual, 2 all.
    void store(const std::string& signature, std::vector<Timing> timings, int effort = 1);

    /// What is known of an operation.
    struct Entry {
        std::int64_t time = 0; ///< seconds since 1970
        int effort = 1;
        std::vector<Timing> timings;
    };

private:
    std::string environment_;
    mutable std::mutex mutex_;
    Json foreign_;
    std::map<std::string, Entry> entries_;
};

/// The fastest that may win and fits the workspace; within 1 % the earlier provider and the smaller workspace. nullptr
/// if none.
const Timing* choose(const std::vector<Timing>& timings, std::size_t workspace_limit);

} // namespace lathe::cuda
