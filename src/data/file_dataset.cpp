#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "data/convert.hpp"
#include "data/npy.hpp"
#include "data/prefetch.hpp"
#include "data/preprocess_presets.hpp"
#include "data/sources.hpp"
#include "support/files.hpp"
#include "support/hash.hpp"
#include "support/thread_pool.hpp"

namespace lathe::detail {

namespace {

/// Memory that samples read ahead may take.
constexpr std::size_t prefetch_bytes = std::size_t{128} << 20;
constexpr std::size_t prefetch_samples = 64;

using Sides = std::array<std::uint64_t, 2>; ///< width and height, at the end of an item

void append_sides(Prefetcher::Item& item, const Image& image) {
    const Sides sides{image.width, image.height};
    const std::size_t end = item.size();
    item.resize(end + sizeof(sides));
    std::memcpy(item.data() + end, sides.data(), sizeof(sides));
}

PictureSize size_of(const Prefetcher::Item& item) {
    Sides sides{};
    std::memcpy(sides.data(), item.data() + item.size() - sizeof(sides), sizeof(sides));
    return {sides[0], sides[1]};
}

/// The model's values of one picture, in the input's type.
Result<Prefetcher::Item> picture_values(const Image& image, const SampleFile& file, const Preprocess& preprocess,
                                        DataType type) {
    const std::size_t count = preprocess.output_count();
    std::vector<std::byte> floats(count * sizeof(float));
    const std::span<float> values(reinterpret_cast<float*>(floats.data()), count);
    if (auto applied = preprocess.apply(image, values); !applied) {
        return std::move(applied).error().in(file.path.string());
    }
    if (type == DataType::float32) return floats;
    std::vector<std::byte> out(byte_size(type, count));
    if (type == DataType::uint8) { // a model that normalises by itself: whole pixel values
        for (std::size_t i = 0; i < count; ++i) {
            out[i] = static_cast<std::byte>(std::clamp(std::nearbyint(values[i]), 0.0F, 255.0F));
        }
        return out;
    }
    LATHE_CHECK(convert_elements(DataType::float32, floats, type, out, file.path.string()));
    return out;
}

/// The same as an item, with the picture's size.
Result<Prefetcher::Item> make_image_sample(const SampleFile& file, const Preprocess& preprocess, DataType type) {
    LATHE_TRY(const Image image, read_image(file.path));
    LATHE_TRY(Prefetcher::Item item, picture_values(image, file, preprocess, type));
    append_sides(item, image);
    return item;
}

/// A decoded picture as an item.
Result<Prefetcher::Item> make_picture(const SampleFile& file) {
    LATHE_TRY(const Image image, read_image(file.path));
    Prefetcher::Item item(image.pixels.size());
    std::memcpy(item.data(), image.pixels.data(), image.pixels.size());
    append_sides(item, image);
    return item;
}

Image picture_of(const Prefetcher::Item& item) {
    const PictureSize size = size_of(item);
    Image image(size.width, size.height);
    std::memcpy(image.pixels.data(), item.data(), image.pixels.size());
    return image;
}

/// A .npy file with the shape of one sample, with or without a leading 1.
Result<Prefetcher::Item> make_array_sample(const SampleFile& file, const Shape& sample, DataType type) {
    LATHE_TRY(const HostTensor tensor, read_npy(file.path));
    Shape shape = tensor.shape;
    if (shape.size() == sample.size() + 1 && shape[0] == 1) shape.erase(shape.begin());
    if (shape != sample) {
        return Error{ErrorCode::mismatch,
                     "the array is " + to_string(tensor.shape) + " but the samples are " + to_string(sample),
                     file.path.string(), "all samples need one shape, that of the model's input"};
    }
    std::vector<std::byte> out(byte_size(type, static_cast<std::size_t>(element_count(sample))));
    LATHE_CHECK(convert_elements(tensor.type, tensor.bytes, type, out, file.path.string()));
    return out;
}

class FileDataset final : public Dataset {
public:
    FileDataset(SampleFiles files, InputSpec input, Shape sample, bool pictures, std::string digest_prefix,
                std::size_t threads, std::size_t read_ahead, Prefetcher::Produce produce)
        : files_(std::move(files)), input_(std::move(input)), sample_(std::move(sample)), pictures_(pictures),
          digest_prefix_(std::move(digest_prefix)),
          sample_bytes_(byte_size(input_.type, static_cast<std::size_t>(element_count(sample_)))),
          prefetcher_(files_.files.size(), threads, capacity(sample_bytes_, threads, read_ahead), std::move(produce)) {}

    std::size_t size() const override { return files_.files.size(); }
    bool has_labels() const override { return files_.labelled; }
    std::vector<std::string> class_names() const override { return files_.class_names; }
    void rewind() override { prefetcher_.restart(); }

    Result<std::optional<Batch>> next(std::size_t count) override {
        count = std::min(count, prefetcher_.remaining());
        if (count == 0) return std::optional<Batch>{};
        Batch batch;
        if (!pictures_) batch.inputs.emplace_back(input_.name, input_.type, with_batch(count, sample_));
        for (std::size_t i = 0; i < count; ++i) {
            const SampleFile& file = files_.files[size() - prefetcher_.remaining()];
            LATHE_TRY(const Prefetcher::Item item, prefetcher_.next());
            if (pictures_)
                batch.pictures.push_back(picture_of(item));
            else
                std::memcpy(batch.inputs[0].bytes.data() + i * sample_bytes_, item.data(), sample_bytes_);
            if (!files_.arrays) batch.sizes.push_back(size_of(item));
            batch.names.push_back(file.name);
            batch.labels.push_back(file.label);
        }
        return std::optional<Batch>(std::move(batch));
    }

    Result<std::string> digest() const override {
        Hasher hasher;
        hasher.update(digest_prefix_);
        for (const SampleFile& file : files_.files) {
            LATHE_TRY(const auto mapped, MappedFile::open(file.path));
            hasher.update(file.name);
            hasher.update(file.label);
            hasher.update(static_cast<std::int64_t>(mapped->bytes().size()));
            hasher.update(mapped->bytes());
        }
        return hasher.hex();
    }

private:
    static std::size_t capacity(std::size_t sample_bytes, std::size_t threads, std::size_t read_ahead) {
        const std::size_t most = std::clamp(prefetch_bytes / std::max<std::size_t>(1, sample_bytes), 2 * threads,
                                            std::max(prefetch_samples, 2 * threads));
        return read_ahead == 0 ? most : std::min(most, std::max(read_ahead, threads));
    }

    SampleFiles files_;
    InputSpec input_;
    Shape sample_;
    bool pictures_;
    std::string digest_prefix_;
    std::size_t sample_bytes_;
    Prefetcher prefetcher_;
};

/// Shape of the first array file without a sample axis: that of the whole folder.
Result<Shape> array_sample_shape(const SampleFile& file, const InputSpec& input) {
    LATHE_TRY(const auto mapped, MappedFile::open(file.path));
    LATHE_TRY(const NpyView view, parse_npy(mapped->bytes(), file.path.string()));
    Shape sample = view.shape;
    if (sample.size() == input.shape.size() && !sample.empty() && sample[0] == 1) sample.erase(sample.begin());
    if (!fits_input(input, sample)) {
        return Error{ErrorCode::mismatch,
                     "the array is " + to_string(view.shape) + " but input \"" + input.name + "\" is " +
                         to_string(input.shape),
                     file.path.string(), "each file holds one sample"};
    }
    return sample;
}

} // namespace

Result<std::unique_ptr<Dataset>> make_file_dataset(SampleFiles files, const std::optional<Preprocess>& preprocess,
                                                   const InputSpec& input, const DatasetOptions& options,
                                                   const std::string& where) {
    SampleFiles chosen;
    chosen.labelled = files.labelled;
    chosen.arrays = files.arrays;
    chosen.class_names = std::move(files.class_names);
    for (const std::size_t index : choose_samples(files.files.size(), options))
        chosen.files.push_back(std::move(files.files[index]));
    if (chosen.files.empty())
        return Error{ErrorCode::out_of_range, "the data have no such samples", where, "ask for a part that there is"};

    const std::size_t threads = options.threads != 0 ? options.threads : available_cores();
    const std::string spec = to_string(input.type) + " ";
    // The producer keeps its own list: it may outlive a move of the dataset's.
    auto list = std::make_shared<const std::vector<SampleFile>>(chosen.files);
    if (chosen.arrays && options.pictures) {
        return Error{ErrorCode::invalid_argument, "the data are arrays, not pictures", where,
                     "leave preprocessing to the CPU, or give pictures"};
    }
    if (chosen.arrays) {
        LATHE_TRY(Shape sample, array_sample_shape(chosen.files.front(), input));
        auto produce = [list, sample, type = input.type](std::size_t i) {
            return make_array_sample((*list)[i], sample, type);
        };
        const std::string prefix = spec + to_string(sample);
        return std::unique_ptr<Dataset>(std::make_unique<FileDataset>(std::move(chosen), input, sample, false, prefix,
                                                                      threads, options.read_ahead, std::move(produce)));
    }
    if (!preprocess) {
        return Error{ErrorCode::invalid_argument, "the model does not say how images become its input", where,
                     "say it with --preprocess: " + preset_names() +
                         ", or JSON (or export the model with lathe export, which writes it down)"};
    }
    LATHE_CHECK(preprocess->validate("preprocess"));
    if (!is_floating(input.type) && input.type != DataType::uint8) {
        return Error{ErrorCode::mismatch,
                     "input \"" + input.name + "\" takes " + to_string(input.type) + ", not images", where,
                     "give the data as .npy or .npz"};
    }
    Shape sample = preprocess->output_shape();
    if (!fits_input(input, Shape(sample.begin() + 1, sample.end()))) {
        return Error{ErrorCode::mismatch,
                     "preprocessing gives " + to_string(sample) + " but input \"" + input.name + "\" is " +
                         to_string(input.shape),
                     where, "change resize, crop or layout in --preprocess FILE.json"};
    }
    sample.erase(sample.begin());
    if (options.pictures && input.type != DataType::float32) {
        return Error{ErrorCode::mismatch, "input \"" + input.name + "\" takes " + to_string(input.type), where,
                     "only float32 inputs can be made from pictures on the device; leave that to the CPU"};
    }
    auto produce = [list, preprocess = *preprocess, type = input.type, pictures = options.pictures](std::size_t i) {
        return pictures ? make_picture((*list)[i]) : make_image_sample((*list)[i], preprocess, type);
    };
    const std::string prefix = spec + preprocess->to_json().dump();
    return std::unique_ptr<Dataset>(std::make_unique<FileDataset>(
        std::move(chosen), input, sample, options.pictures, prefix, threads, options.read_ahead, std::move(produce)));
}

} // namespace lathe::detail
