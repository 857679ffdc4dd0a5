#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "lathe/result.hpp"
#include "mix/search.hpp"
#include "sensitivity/journal.hpp"

namespace lathe {

/// What a search knows and which of its engines is written, kept in a file between runs (see Journal).
class MixRecord {
public:
    /// `key`: a digest of all that the search depends on.
    MixRecord(std::filesystem::path file, std::string key) : journal_(std::move(file), std::move(key)) {}

    /// Whether there was anything kept; then `state` and the rest are that. `layers`: how many the model has.
    /// Errors: those of Journal::read; corrupt.
    Result<bool> read(std::size_t layers);
    Result<void> keep() const;
    /// The search is done and its engine judged.
    void remove() const { journal_.remove(); }
    const std::filesystem::path& file() const { return journal_.file(); }

    SearchState state;
    std::string saved_mix;  ///< key of the mix whose engine is written; empty: none yet
    std::string saved_hash; ///< of that file

private:
    Journal journal_;
};

} // namespace lathe
