#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "data/convert.hpp"
#include "data/npy.hpp"
#include "data/sources.hpp"
#include "support/files.hpp"
#include "support/hash.hpp"

namespace lathe::detail {

namespace {

/// Samples along axis 0 of an array that lies row-major in memory (mapped or owned).
struct Column {
    InputSpec input;
    DataType type = DataType::undefined; ///< of the data; the input's may differ
    Shape sample;                        ///< of the data, without axis 0
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;
    bool images = false; ///< uint8 pixels HxWx3 to be preprocessed
    bool whole = false;  ///< a sample is all of the input, whose axis 0 is something else (a recurrent state's layers)
    bool shared = false; ///< the same for all samples

    std::size_t sample_bytes() const { return byte_size(type, static_cast<std::size_t>(element_count(sample))); }
};

class ArrayDataset final : public Dataset {
public:
    ArrayDataset(std::vector<Column> columns, std::vector<std::int64_t> labels, std::vector<std::size_t> chosen,
                 const std::optional<Preprocess>& preprocess, std::string where)
        : columns_(std::move(columns)), labels_(std::move(labels)), chosen_(std::move(chosen)), preprocess_(preprocess),
          where_(std::move(where)) {}

    std::size_t size() const override { return chosen_.size(); }
    bool has_labels() const override { return !labels_.empty(); }
    void rewind() override { position_ = 0; }
    bool has_whole_samples() const override {
        return std::ranges::any_of(columns_, [](const Column& column) { return column.whole && !column.shared; });
    }

    Result<std::optional<Batch>> next(std::size_t count) override {
        count = std::min(count, chosen_.size() - position_);
        // Whole inputs cannot be put together to larger ones, unless they are the same for all.
        if (has_whole_samples()) count = std::min<std::size_t>(count, 1);
        if (count == 0) return std::optional<Batch>{};
        Batch batch;
        for (const Column& column : columns_) {
            Shape sample = column.sample;
            if (column.images) {
                sample = preprocess_->output_shape();
                sample.erase(sample.begin());
            }
            HostTensor tensor(column.input.name, column.input.type,
                              column.whole ? std::move(sample) : with_batch(count, sample));
            const std::size_t parts = column.whole ? 1 : count;
            const std::size_t bytes = tensor.bytes.size() / parts;
            for (std::size_t i = 0; i < parts; ++i) {
                const std::size_t index = chosen_[position_ + i];
                LATHE_CHECK(copy_sample(column, index, std::span(tensor.bytes).subspan(i * bytes, bytes)));
            }
            batch.inputs.push_back(std::move(tensor));
        }
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t index = chosen_[position_ + i];
            batch.names.push_back(std::to_string(index));
            batch.labels.push_back(labels_.empty() ? -1 : labels_[index]);
        }
        position_ += count;
        return std::optional<Batch>(std::move(batch));
    }

    Result<std::string> digest() const override {
        Hasher hasher;
        for (const Column& column : columns_) {
            hasher.update(column.input.name);
            hasher.update(to_string(column.input.type) + " " + to_string(column.type) + " " + to_string(column.sample));
            if (column.images) hasher.update(preprocess_->to_json().dump());
            const std::size_t bytes = column.sample_bytes();
            for (const std::size_t index : chosen_)
                hasher.update(column.bytes.subspan(column.shared ? 0 : index * bytes, bytes));
        }
        for (const std::size_t index : chosen_) {
            hasher.update(static_cast<std::int64_t>(index));
            hasher.update(labels_.empty() ? -1 : labels_[index]);
        }
        return hasher.hex();
    }

private:
    Result<void> copy_sample(const Column& column, std::size_t index, std::span<std::byte> out) const {
        const std::size_t bytes = column.sample_bytes();
        const auto in = column.bytes.subspan(column.shared ? 0 : index * bytes, bytes);
        const std::string place = where_ + ": sample " + std::to_string(index);
        if (!column.images) return convert_elements(column.type, in, column.input.type, out, place);
        Image image(static_cast<std::size_t>(column.sample[1]), static_cast<std::size_t>(column.sample[0]));
        std::memcpy(image.pixels.data(), in.data(), in.size());
        std::vector<float> values(preprocess_->output_count());
        LATHE_CHECK(preprocess_->apply(image, values));
        return convert_elements(DataType::float32, std::as_bytes(std::span(values)), column.input.type, out, place);
    }

    std::vector<Column> columns_;
    std::vector<std::int64_t> labels_;
    std::vector<std::size_t> chosen_;
    std::optional<Preprocess> preprocess_;
    std::string where_;
    std::size_t position_ = 0;
};

struct Source {
    DataType type = DataType::undefined;
    Shape shape;
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;
};

/// Whether the shape is that of all of the input, one value or more; sizes that are negative fit any.
bool is_whole(const InputSpec& input, const Shape& shape) {
    return std::ranges::equal(shape, input.shape,
                              [](std::int64_t given, std::int64_t wanted) { return wanted < 0 || wanted == given; });
}

/// Splits an array into samples for an input, or takes it whole as `one_request`; the number of samples goes to
/// `count`.
Result<Column> make_column(const InputSpec& input, Source source, const std::optional<Preprocess>& preprocess,
                           bool one_request, std::size_t& count, const std::string& where) {
    Column column;
    column.input = input;
    column.type = source.type;
    column.bytes = source.bytes;
    column.owner = std::move(source.owner);
    const Shape& shape = source.shape;
    const Shape rest = shape.empty() ? Shape{} : Shape(shape.begin() + 1, shape.end());
    if (!one_request && preprocess && source.type == DataType::uint8 && is_floating(input.type) && shape.size() == 4 &&
        shape[3] == 3) {
        Shape sample = preprocess->output_shape();
        sample.erase(sample.begin());
        column.images = fits_input(input, sample) && shape[1] > 0 && shape[2] > 0;
    }
    if (one_request) {
        column.sample = shape;
        column.whole = true;
        count = 1;
    } else if (input.shape.empty() && element_count(shape) == 1) {
        column.whole = true;
        column.shared = true;
        count = 1;
    } else if (column.images || (!shape.empty() && fits_input(input, rest))) {
        column.sample = rest;
        count = static_cast<std::size_t>(shape[0]);
    } else if (!shape.empty() && is_whole(input, rest)) {
        column.sample = rest;
        column.whole = true;
        count = static_cast<std::size_t>(shape[0]);
    } else if (fits_input(input, shape)) {
        column.sample = shape; // one sample without the sample axis
        count = 1;
    } else {
        return Error{ErrorCode::mismatch,
                     "the array is " + to_string(shape) + " but input \"" + input.name + "\" is " +
                         to_string(input.shape),
                     where,
                     "axis 0 of the array is the sample; the other axes must equal the model's, or, where the model's "
                     "axis 0 is no batch, all of the model's"};
    }
    if (element_count(column.sample) == 0 || count == 0) {
        return Error{ErrorCode::invalid_argument, "the array has no elements", where, ""};
    }
    return column;
}

/// Whether the arrays are what the model's inputs are, whole, and cannot be samples, as their first axes differ: one
/// request of a model some of whose inputs have no batch (places of pixels, a recurrent state's layers). At least one
/// of those axes is the model's own; what is open is of one size, else an array has too few samples.
bool is_one_request(const std::vector<HostTensor>& tensors, const std::vector<InputSpec>& inputs) {
    std::set<std::int64_t> firsts;
    std::set<std::int64_t> open;
    for (const InputSpec& input : inputs) {
        const auto found = std::ranges::find(tensors, input.name, &HostTensor::name);
        if (found == tensors.end() || element_count(found->shape) <= 0 || !is_whole(input, found->shape)) return false;
        if (found->shape.empty()) continue;
        if (input.first >= 0 && found->shape[0] != input.first) return false;
        firsts.insert(found->shape[0]);
        if (input.first < 0) open.insert(found->shape[0]);
    }
    return firsts.size() > 1 && open.size() <= 1;
}

/// A numpy label array as int64.
Result<std::vector<std::int64_t>> labels_of(const HostTensor& tensor, const std::string& where) {
    std::vector<std::int64_t> labels(static_cast<std::size_t>(std::max<std::int64_t>(0, element_count(tensor.shape))));
    LATHE_CHECK(convert_elements(tensor.type, tensor.bytes, DataType::int64, std::as_writable_bytes(std::span(labels)),
                                 where + ": labels"));
    return labels;
}

Result<std::unique_ptr<Dataset>> from_tensors(std::vector<HostTensor> tensors, std::vector<std::int64_t> labels,
                                              const std::optional<Preprocess>& preprocess,
                                              const std::vector<InputSpec>& inputs, const DatasetOptions& options,
                                              const std::string& where) {
    std::string names;
    for (const HostTensor& tensor : tensors)
        names += (names.empty() ? "" : ", ") + tensor.name;
    std::vector<Column> columns;
    std::vector<bool> taken(tensors.size(), false);
    std::size_t count = 0;
    const bool one_request = is_one_request(tensors, inputs);
    for (const InputSpec& input : inputs) {
        auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const HostTensor& tensor) { return tensor.name == input.name; });
        if (found == tensors.end() && inputs.size() == 1 && tensors.size() == 1) found = tensors.begin();
        if (found == tensors.end()) {
            return Error{ErrorCode::mismatch, "no array for input \"" + input.name + "\"", where,
                         "the arrays here are: " + names};
        }
        auto owner = std::make_shared<const HostTensor>(std::move(*found));
        const std::string place = where + ": " + owner->name;
        std::size_t column_count = 0;
        LATHE_TRY(Column column, make_column(input, {owner->type, owner->shape, owner->bytes, owner}, preprocess,
                                             one_request, column_count, place));
        if (column.shared) column_count = count;
        if (count > 0 && column_count != count) {
            return Error{ErrorCode::mismatch,
                         std::to_string(column_count) + " samples, but the first array has " + std::to_string(count),
                         place, "all arrays need the same number of samples"};
        }
        count = column_count;
        columns.push_back(std::move(column));
        taken[static_cast<std::size_t>(found - tensors.begin())] = true;
    }
    if (count == 0) count = 1; // numbers alone
    // What nobody reads would change nothing, and its owner believe that it did.
    if (const auto left = std::ranges::find(taken, false); left != taken.end()) {
        const std::string& name = tensors[static_cast<std::size_t>(left - taken.begin())].name;
        std::string known;
        for (const InputSpec& input : inputs)
            known += (known.empty() ? "" : ", ") + input.name;
        return Error{ErrorCode::mismatch, "the model has no input \"" + name + "\"", where,
                     "its inputs: " + known + "; leave other arrays out (constants of a model cannot be given)"};
    }
    if (!labels.empty() && labels.size() != count) {
        return Error{ErrorCode::mismatch,
                     std::to_string(labels.size()) + " labels for " + std::to_string(count) + " samples", where, ""};
    }
    return std::unique_ptr<Dataset>(std::make_unique<ArrayDataset>(std::move(columns), std::move(labels),
                                                                   choose_samples(count, options), preprocess, where));
}

} // namespace

Result<std::unique_ptr<Dataset>> open_npy_dataset(const std::filesystem::path& path,
                                                  const std::optional<Preprocess>& preprocess, const InputSpec& input,
                                                  const DatasetOptions& options) {
    LATHE_TRY(auto file, MappedFile::open(path));
    LATHE_TRY(const NpyView view, parse_npy(file->bytes(), path.string()));
    Source source{view.type, view.shape, view.data, file};
    if (!view.is_plain()) { // has to be reordered in memory
        LATHE_TRY(HostTensor tensor, to_host_tensor(view, input.name));
        auto owner = std::make_shared<const HostTensor>(std::move(tensor));
        source = {owner->type, owner->shape, owner->bytes, owner};
    }
    std::size_t count = 0;
    LATHE_TRY(Column column, make_column(input, std::move(source), preprocess, false, count, path.string()));
    std::vector<Column> columns;
    columns.push_back(std::move(column));
    return std::unique_ptr<Dataset>(std::make_unique<ArrayDataset>(
        std::move(columns), std::vector<std::int64_t>{}, choose_samples(count, options), preprocess, path.string()));
}

Result<std::unique_ptr<Dataset>> open_npz_dataset(const std::filesystem::path& path,
                                                  const std::optional<Preprocess>& preprocess,
                                                  const std::vector<InputSpec>& inputs, const DatasetOptions& options) {
    LATHE_TRY(std::vector<HostTensor> tensors, read_npz(path));
    std::vector<std::int64_t> labels;
    const auto found = std::find_if(tensors.begin(), tensors.end(), [](const HostTensor& tensor) {
        return tensor.name == "labels" || tensor.name == "label" || tensor.name == "y";
    });
    const bool is_input = found != tensors.end() && std::any_of(inputs.begin(), inputs.end(), [&](const InputSpec& in) {
                              return in.name == found->name;
                          });
    if (found != tensors.end() && !is_input) {
        LATHE_TRY(labels, labels_of(*found, path.string()));
        tensors.erase(found);
    }
    return from_tensors(std::move(tensors), std::move(labels), preprocess, inputs, options, path.string());
}

} // namespace lathe::detail

namespace lathe {

Result<std::unique_ptr<Dataset>> dataset_of_arrays(std::vector<HostTensor> arrays, std::vector<std::int64_t> labels,
                                                   const std::vector<InputSpec>& inputs,
                                                   const DatasetOptions& options) {
    return detail::from_tensors(std::move(arrays), std::move(labels), {}, inputs, options, "arrays");
}

} // namespace lathe
