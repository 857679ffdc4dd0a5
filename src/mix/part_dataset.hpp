#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "data/dataset.hpp"

namespace lathe {

/// Rows of a batch, in the order given. Batches of pictures keep their pictures.
Batch rows_of(const Batch& batch, const std::vector<std::size_t>& rows);

/// Every `parts`-th sample of another dataset, beginning with number `part`: data sorted by class give all classes to
/// every part, and the same samples always go to the same part. The samples of the other parts are read and dropped.
class PartDataset final : public Dataset {
public:
    /// `whole` must outlive it. part < parts.
    PartDataset(Dataset& whole, std::size_t part, std::size_t parts) : whole_(whole), part_(part), parts_(parts) {}
    std::size_t size() const override;
    bool has_labels() const override { return whole_.has_labels(); }
    std::vector<std::string> class_names() const override { return whole_.class_names(); }
    Result<std::optional<Batch>> next(std::size_t count) override;
    void rewind() override;
    Result<std::string> digest() const override;

private:
    Dataset& whole_;
    std::size_t part_;
    std::size_t parts_;
    std::size_t read_ = 0; ///< samples of the whole
};

/// Samples kept in memory, evenly spread over those of `batches` (which must outlive it): all if `samples` is 0.
class MemoryDataset final : public Dataset {
public:
    MemoryDataset(const std::vector<Batch>& batches, std::size_t samples);
    std::size_t size() const override { return places_.size(); }
    bool has_labels() const override;
    Result<std::optional<Batch>> next(std::size_t count) override;
    void rewind() override { next_ = 0; }
    /// Of how many samples it is: whose they are, the caller knows.
    Result<std::string> digest() const override { return "memory-" + std::to_string(size()); }

private:
    const std::vector<Batch>& batches_;
    std::vector<std::pair<std::size_t, std::size_t>> places_; ///< batch and row
    std::size_t next_ = 0;
};

/// All samples of a dataset, from its start, in batches of 16.
Result<std::vector<Batch>> read_all(Dataset& data);

} // namespace lathe
