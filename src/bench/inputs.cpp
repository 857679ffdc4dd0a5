#include "bench/inputs.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <random>

#include "support/files.hpp"
#include "support/half.hpp"

namespace lathe {

namespace {

constexpr std::size_t largest_total = std::size_t{512} << 20;

std::size_t sets_needed(std::size_t bytes_per_set, std::size_t cache_bytes) {
    const std::size_t bytes = std::max<std::size_t>(bytes_per_set, 1);
    // Twice the cache, so that a set is gone from it by the time its turn comes again.
    const std::size_t wanted = 2 * cache_bytes / bytes + 1;
    const std::size_t allowed = std::max<std::size_t>(2, largest_total / bytes);
    return std::clamp<std::size_t>(wanted, 2, std::min<std::size_t>(allowed, 1024));
}

template <class T, class Draw>
void fill(HostTensor& tensor, Draw&& draw) {
    for (T& value : tensor.as<T>())
        value = static_cast<T>(draw());
}

Result<void> fill_random(HostTensor& tensor, std::mt19937_64& random) {
    std::normal_distribution<float> normal(0.0F, 1.0F);
    const auto integer = [&](int low, int high) {
        return [&random, distribution = std::uniform_int_distribution<int>(low, high)]() mutable {
            return distribution(random);
        };
    };
    const auto real = [&] { return normal(random); };
    switch (tensor.type) {
        case DataType::float32: fill<float>(tensor, real); return {};
        case DataType::float64: fill<double>(tensor, real); return {};
        case DataType::float16: fill<std::uint16_t>(tensor, [&] { return half_from_float(real()); }); return {};
        case DataType::bfloat16: fill<std::uint16_t>(tensor, [&] { return bfloat16_from_float(real()); }); return {};
        case DataType::uint8: fill<std::uint8_t>(tensor, integer(0, 255)); return {};
        case DataType::int8: fill<std::int8_t>(tensor, integer(-128, 127)); return {};
        case DataType::boolean: fill<std::uint8_t>(tensor, integer(0, 1)); return {};
        case DataType::int16:
        case DataType::uint16: fill<std::uint16_t>(tensor, integer(0, 1)); return {};
        case DataType::int32:
        case DataType::uint32: fill<std::uint32_t>(tensor, integer(0, 1)); return {};
        case DataType::int64:
        case DataType::uint64: fill<std::uint64_t>(tensor, integer(0, 1)); return {};
        default: break;
    }
    return Error{ErrorCode::unsupported, "cannot make random inputs of type " + to_string(tensor.type), tensor.name,
                 "give real inputs with --data"};
}

Result<void> check_specs(const std::vector<InputSpec>& specs) {
    if (specs.empty()) return Error{ErrorCode::invalid_argument, "the model has no inputs", "", ""};
    for (const auto& spec : specs) {
        if (element_count(spec.shape) < 0) {
            return Error{ErrorCode::invalid_argument, "shape " + to_string(spec.shape) + " is not fully known",
                         spec.name, "build the engine with --shape so that every dimension but the batch is given"};
        }
    }
    return {};
}

Result<std::vector<HostTensor>> take(const std::vector<InputSpec>& specs, Batch batch) {
    std::vector<HostTensor> set;
    if (batch.inputs.size() != specs.size()) {
        return Error{ErrorCode::mismatch,
                     "the data has " + std::to_string(batch.inputs.size()) + " tensors a sample, the model " +
                         std::to_string(specs.size()) + " inputs",
                     "", "give data that was made for this model"};
    }
    for (std::size_t i = 0; i < specs.size(); ++i) {
        HostTensor& tensor = batch.inputs[i];
        if (tensor.type != specs[i].type || tensor.shape != specs[i].shape) {
            return Error{ErrorCode::mismatch,
                         "the data gives " + to_string(tensor.type) + " " + to_string(tensor.shape) +
                             ", the model takes " + to_string(specs[i].type) + " " + to_string(specs[i].shape),
                         specs[i].name, "give the model's preprocessing with --preprocess, or data of this shape"};
        }
        tensor.name = specs[i].name;
        set.push_back(std::move(tensor));
    }
    return set;
}

/// A full batch; a short one at the data's end is topped up from its start, sample by sample. A sample that is all that
/// the model takes at once is one.
Result<Batch> full_batch(Dataset& data, const std::vector<InputSpec>& specs, std::size_t count) {
    LATHE_TRY(auto first, data.next(count));
    if (!first) {
        data.rewind();
        LATHE_TRY(first, data.next(count));
    }
    if (!first) return Error{ErrorCode::invalid_argument, "the data holds no samples", "", ""};
    Batch batch = std::move(*first);
    if (std::ranges::equal(batch.inputs, specs, {}, &HostTensor::shape, &InputSpec::shape)) return batch;
    while (batch.size() < count) {
        data.rewind();
        LATHE_TRY(auto more, data.next(count - batch.size()));
        if (!more) return Error{ErrorCode::internal, "the data ended after a rewind", "", ""};
        for (std::size_t i = 0; i < batch.inputs.size() && i < more->inputs.size(); ++i) {
            if (batch.inputs[i].shape.empty()) continue; // a number is that of all
            auto& bytes = batch.inputs[i].bytes;
            bytes.insert(bytes.end(), more->inputs[i].bytes.begin(), more->inputs[i].bytes.end());
            batch.inputs[i].shape[0] += more->inputs[i].shape[0];
        }
        batch.names.insert(batch.names.end(), more->names.begin(), more->names.end());
        batch.labels.insert(batch.labels.end(), more->labels.begin(), more->labels.end());
    }
    return batch;
}

} // namespace

Result<InputSets> InputSets::random(std::vector<InputSpec> specs, std::uint64_t seed, std::size_t cache_bytes) {
    LATHE_CHECK(check_specs(specs));
    InputSets inputs;
    inputs.specs_ = std::move(specs);
    std::mt19937_64 random(seed);
    const std::size_t count = sets_needed(inputs.bytes_per_set(), cache_bytes);
    for (std::size_t i = 0; i < count; ++i) {
        std::vector<HostTensor> set;
        for (const auto& spec : inputs.specs_) {
            set.emplace_back(spec.name, spec.type, spec.shape);
            LATHE_CHECK(fill_random(set.back(), random));
        }
        inputs.sets_.push_back(std::move(set));
    }
    return inputs;
}

Result<InputSets> InputSets::from_data(std::vector<InputSpec> specs, Dataset& data, std::size_t cache_bytes,
                                       Progress& progress) {
    LATHE_CHECK(check_specs(specs));
    InputSets inputs;
    inputs.specs_ = std::move(specs);
    if (inputs.batch() < 1) {
        return Error{ErrorCode::unsupported, "the model's first input has no batch axis", inputs.specs_[0].name, ""};
    }
    const auto batch_size = static_cast<std::size_t>(inputs.batch());
    const std::size_t count = sets_needed(inputs.bytes_per_set(), cache_bytes);
    for (std::size_t i = 0; i < count; ++i) {
        LATHE_CHECK(progress.check());
        const auto start = std::chrono::steady_clock::now();
        LATHE_TRY(Batch batch, full_batch(data, inputs.specs_, batch_size));
        const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
        inputs.preprocess_ms_.push_back(took.count());
        LATHE_TRY(auto set, take(inputs.specs_, std::move(batch)));
        inputs.sets_.push_back(std::move(set));
    }
    return inputs;
}

std::int64_t InputSets::batch() const { return specs_.empty() || specs_[0].shape.empty() ? 0 : specs_[0].shape[0]; }

std::size_t InputSets::bytes_per_set() const {
    std::size_t bytes = 0;
    for (const auto& spec : specs_)
        bytes += byte_size(spec.type, static_cast<std::size_t>(element_count(spec.shape)));
    return bytes;
}

Result<void> InputSets::write(const std::filesystem::path& file) const {
    LATHE_TRY(AtomicFile out, AtomicFile::create(file));
    for (const auto& set : sets_) {
        for (const auto& tensor : set)
            LATHE_CHECK(out.write(std::span<const std::byte>(tensor.bytes)));
    }
    return out.commit();
}

Json InputSets::describe() const {
    Json list = Json::array();
    for (const auto& spec : specs_)
        list.push_back({{"name", spec.name}, {"type", to_string(spec.type)}, {"shape", spec.shape}});
    return list;
}

std::size_t last_level_cache_bytes() {
    std::size_t largest = 0;
    for (int index = 0; index < 8; ++index) {
        std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
        std::size_t size = 0;
        char unit = ' ';
        if (!(file >> size)) continue;
        file >> unit;
        if (unit == 'K') size <<= 10;
        if (unit == 'M') size <<= 20;
        largest = std::max(largest, size);
    }
    // Some virtual machines hide the caches; 32 MiB covers a share of most servers' last level.
    return largest > 0 ? largest : std::size_t{32} << 20;
}

} // namespace lathe
