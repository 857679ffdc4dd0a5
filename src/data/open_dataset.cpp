#include "data/open_dataset.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "data/companions.hpp"
#include "data/sources.hpp"
#include "data/text_dataset.hpp"

namespace lathe {

namespace detail {

bool fits_input(const InputSpec& input, const Shape& sample) {
    if (input.shape.size() != sample.size() + 1) return false;
    for (std::size_t i = 0; i < sample.size(); ++i) {
        if (input.shape[i + 1] >= 0 && input.shape[i + 1] != sample[i]) return false;
    }
    return true;
}

Shape with_batch(std::size_t count, const Shape& sample) {
    Shape shape{static_cast<std::int64_t>(count)};
    shape.insert(shape.end(), sample.begin(), sample.end());
    return shape;
}

} // namespace detail

std::vector<std::size_t> choose_samples(std::size_t total, std::size_t wanted, std::optional<std::uint64_t> seed) {
    std::vector<std::size_t> all(total);
    std::iota(all.begin(), all.end(), std::size_t{0});
    if (wanted == 0 || wanted >= total) return all;
    std::vector<std::size_t> chosen;
    chosen.reserve(wanted);
    if (!seed) {
        for (std::size_t i = 0; i < wanted; ++i) {
            // i * total / wanted, without overflow.
            chosen.push_back(i * (total / wanted) + i * (total % wanted) / wanted);
        }
        return chosen;
    }
    // Knuth's selection sampling. The generator is standardised bit for bit and no distribution object is used, so
    // that one seed gives one choice with every compiler.
    std::mt19937_64 generator(*seed);
    for (std::size_t i = 0; i < total && chosen.size() < wanted; ++i) {
        const double uniform = static_cast<double>(generator() >> 11) * 0x1.0p-53;
        if (uniform * static_cast<double>(total - i) < static_cast<double>(wanted - chosen.size())) chosen.push_back(i);
    }
    return chosen;
}

std::vector<std::size_t> choose_samples(std::size_t total, const DatasetOptions& options) {
    const std::vector<std::size_t> chosen = choose_samples(total, options.samples, options.seed);
    std::vector<std::size_t> ordered = chosen;
    if (options.order == SampleOrder::scattered) {
        const std::vector<std::size_t> places = scatter(chosen.size());
        std::ranges::transform(places, ordered.begin(), [&](std::size_t place) { return chosen[place]; });
    }
    if (!options.part) return ordered;
    const std::size_t first = std::min(options.part->first, ordered.size());
    const std::size_t count = std::min(options.part->count, ordered.size() - first);
    const auto begin = ordered.begin() + static_cast<std::ptrdiff_t>(first);
    return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

std::vector<std::size_t> scatter(std::size_t count) {
    constexpr std::uint64_t golden = 0x9E3779B97F4A7C15U; // 2^64 over the golden ratio; odd, so no two parts are equal
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, [](std::size_t i) { return static_cast<std::uint64_t>(i) * golden; });
    return order;
}

Result<std::unique_ptr<Dataset>> open_dataset(const std::filesystem::path& path,
                                              const std::optional<Preprocess>& preprocess,
                                              const std::vector<InputSpec>& inputs, const DatasetOptions& options) {
    if (inputs.empty()) return Error{ErrorCode::invalid_argument, "the model has no inputs", path.string(), ""};
    if (options.pictures && is_array_file(path)) {
        return Error{ErrorCode::invalid_argument, "the data are arrays, not pictures", path.string(),
                     "leave preprocessing to the CPU, or give pictures"};
    }
    if (path.extension() == ".npz") return detail::open_npz_dataset(path, preprocess, inputs, options);
    const bool only_text = path.extension() == ".tsv" || path.extension() == ".jsonl";
    if (only_text || (is_text_file(path) && !options.text.tokenizer.empty())) {
        return open_text_dataset(path, inputs, options);
    }
    if (inputs.size() > 1) {
        const Companions companions = companions_of(inputs);
        if (!companions.others.empty() && holds_pictures(path)) {
            return Error{
                ErrorCode::invalid_argument,
                "beside its pictures the model takes inputs that say how large they were: " +
                    names_of(companions, inputs),
                path.string(),
                "lathe optimize MODEL --calibrate PICTURES makes them constants: go on with its engines or its "
                "NAME.simplified.onnx; or give a .npz file with one array an input"};
        }
        return Error{ErrorCode::invalid_argument,
                     "the model has " + std::to_string(inputs.size()) + " inputs, this data has one", path.string(),
                     "give a .npz file with one array an input, or texts where the model has a tokenizer"};
    }
    if (path.extension() == ".npy") return detail::open_npy_dataset(path, preprocess, inputs[0], options);
    LATHE_TRY(detail::SampleFiles files, detail::find_samples(path));
    return detail::make_file_dataset(std::move(files), preprocess, inputs[0], options, path.string());
}

bool is_array_file(const std::filesystem::path& path) {
    return path.extension() == ".npz" || path.extension() == ".npy";
}

bool holds_pictures(const std::filesystem::path& path) {
    if (path.empty() || is_array_file(path) || is_text_file(path)) return false;
    const auto files = detail::find_samples(path);
    return files && !files->arrays && !files->files.empty();
}

} // namespace lathe
