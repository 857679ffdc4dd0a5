#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "data/open_dataset.hpp"
#include "lathe/result.hpp"
#include "lathe/types.hpp"
#include "support/json.hpp"
#include "support/progress.hpp"

namespace lathe {

/// Several complete sets of inputs. Together they exceed the last-level cache, so that a call does not find its input
/// there from the call before; never zeros, which some kernels and CPUs take a shortcut for.
class InputSets {
public:
    /// `specs` are the model's inputs with fully known shapes. Reproducible random inputs: floats from N(0, 1), uint8
    /// and int8 over their range, other integers 0 and 1 (a mask, and an index into anything), booleans even. Strings
    /// are not supported.
    static Result<InputSets> random(std::vector<InputSpec> specs, std::uint64_t seed, std::size_t cache_bytes);
    /// Inputs from a dataset, from its start, again from the start when it ends. Each batch's preparation is timed.
    /// Fails if the data's shapes or types are not those of the specs.
    static Result<InputSets> from_data(std::vector<InputSpec> specs, Dataset& data, std::size_t cache_bytes,
                                       Progress& progress);

    std::size_t count() const { return sets_.size(); }
    std::int64_t batch() const;
    const std::vector<InputSpec>& specs() const { return specs_; }
    std::vector<HostTensor>& set(std::size_t index) const { return sets_[index]; }
    std::size_t bytes_per_set() const;
    /// Milliseconds to load and preprocess one batch, for each set that came from data; empty for random ones.
    const std::vector<double>& preprocess_ms() const { return preprocess_ms_; }

    /// All sets, one after another, densely packed in the order of the specs, for workers in other processes.
    Result<void> write(const std::filesystem::path& file) const;
    /// [{"name", "type", "shape"}], one an input.
    Json describe() const;

private:
    InputSets() = default;
    std::vector<InputSpec> specs_;
    // A session binds inputs by a mutable view; it does not write through it.
    mutable std::vector<std::vector<HostTensor>> sets_;
    std::vector<double> preprocess_ms_;
};

/// Bytes of the largest cache the kernel reports for a core; 32 MiB where it reports none.
std::size_t last_level_cache_bytes();

} // namespace lathe
