#include "mix/part_dataset.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "data/open_dataset.hpp"

namespace lathe {

namespace {

bool fit_together(const Batch& batch, const Batch& other) {
    for (std::size_t i = 0; i < batch.inputs.size(); ++i) {
        const Shape& a = batch.inputs[i].shape;
        const Shape& b = other.inputs[i].shape;
        if (a.size() != b.size() || !std::equal(a.begin() + 1, a.end(), b.begin() + 1)) return false;
    }
    return true;
}

void append(Batch& batch, Batch&& other) {
    if (batch.size() == 0) {
        batch = std::move(other);
        return;
    }
    for (std::size_t i = 0; i < batch.inputs.size(); ++i) {
        batch.inputs[i].shape[0] += other.inputs[i].shape[0];
        batch.inputs[i].bytes.insert(batch.inputs[i].bytes.end(), other.inputs[i].bytes.begin(),
                                     other.inputs[i].bytes.end());
    }
    const auto join = [](auto& to, auto& from) {
        to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
    };
    join(batch.pictures, other.pictures);
    join(batch.names, other.names);
    join(batch.labels, other.labels);
    join(batch.sizes, other.sizes);
    join(batch.scores, other.scores);
}

} // namespace

Batch rows_of(const Batch& batch, const std::vector<std::size_t>& rows) {
    Batch part;
    for (const HostTensor& whole : batch.inputs) {
        if (batch.is_whole(whole)) { // of a batch of one: there are no other rows
            part.inputs.push_back(whole);
            continue;
        }
        Shape shape = whole.shape;
        shape[0] = static_cast<std::int64_t>(rows.size());
        HostTensor tensor(whole.name, whole.type, std::move(shape));
        const std::size_t bytes = batch.size() == 0 ? 0 : whole.bytes.size() / batch.size();
        for (std::size_t i = 0; i < rows.size(); ++i)
            std::memcpy(tensor.bytes.data() + i * bytes, whole.bytes.data() + rows[i] * bytes, bytes);
        part.inputs.push_back(std::move(tensor));
    }
    for (const std::size_t row : rows) {
        if (!batch.pictures.empty()) part.pictures.push_back(batch.pictures[row]);
        part.names.push_back(batch.names[row]);
        part.labels.push_back(batch.labels[row]);
        if (!batch.sizes.empty()) part.sizes.push_back(batch.sizes[row]);
        if (!batch.scores.empty()) part.scores.push_back(batch.scores[row]);
    }
    return part;
}

std::size_t PartDataset::size() const {
    const std::size_t whole = whole_.size();
    return whole > part_ ? (whole - part_ + parts_ - 1) / parts_ : 0;
}

Result<std::optional<Batch>> PartDataset::next(std::size_t count) {
    while (true) {
        LATHE_TRY(const std::optional<Batch> batch, whole_.next(std::max<std::size_t>(1, count) * parts_));
        if (!batch || batch->size() == 0) return std::optional<Batch>();
        std::vector<std::size_t> rows;
        for (std::size_t i = 0; i < batch->size(); ++i) {
            if ((read_ + i) % parts_ == part_) rows.push_back(i);
        }
        read_ += batch->size();
        if (!rows.empty()) return std::optional<Batch>(rows_of(*batch, rows));
    }
}

void PartDataset::rewind() {
    whole_.rewind();
    read_ = 0;
}

Result<std::string> PartDataset::digest() const {
    LATHE_TRY(std::string digest, whole_.digest());
    return digest + "-" + std::to_string(part_) + "of" + std::to_string(parts_);
}

MemoryDataset::MemoryDataset(const std::vector<Batch>& batches, std::size_t samples) : batches_(batches) {
    std::vector<std::pair<std::size_t, std::size_t>> all;
    for (std::size_t i = 0; i < batches.size(); ++i) {
        for (std::size_t row = 0; row < batches[i].size(); ++row)
            all.emplace_back(i, row);
    }
    for (const std::size_t index : choose_samples(all.size(), samples, std::nullopt))
        places_.push_back(all[index]);
}

bool MemoryDataset::has_labels() const {
    return std::ranges::any_of(batches_, [](const Batch& batch) {
        return std::ranges::any_of(batch.labels, [](std::int64_t label) { return label >= 0; });
    });
}

Result<std::optional<Batch>> MemoryDataset::next(std::size_t count) {
    Batch batch;
    while (next_ < places_.size() && batch.size() < std::max<std::size_t>(1, count)) {
        const auto [from, row] = places_[next_];
        Batch one = rows_of(batches_[from], {row});
        // Texts may differ in length between batches.
        if (batch.size() > 0 && !fit_together(batch, one)) break;
        append(batch, std::move(one));
        ++next_;
    }
    if (batch.size() == 0) return std::optional<Batch>();
    return std::optional<Batch>(std::move(batch));
}

Result<std::vector<Batch>> read_all(Dataset& data) {
    data.rewind();
    std::vector<Batch> batches;
    while (true) {
        LATHE_TRY(std::optional<Batch> batch, data.next(16));
        if (!batch || batch->size() == 0) return batches;
        batches.push_back(std::move(*batch));
    }
}

} // namespace lathe
