#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

#include "backends/cuda/plan/lowering.hpp"
#include "backends/cuda/plan/packing.hpp"
#include "backends/cuda/plan/specialise.hpp"
#include "support/half.hpp"
#include "support/hash.hpp"
#include "support/score_mask.hpp"

namespace lathe::cuda {

std::string Constant::key() const {
    if (large || tensor == nullptr) return name;
    return name + "#" + hash_hex(tensor->bytes()).substr(0, 8);
}

std::int64_t channel_stride(std::int64_t channels, ElementType type) {
    const auto per = static_cast<std::int64_t>(16 / bytes_of(type));
    return (channels + per - 1) / per * per;
}

std::string bits_of(float value) {
    constexpr std::string_view digits = "0123456789abcdef";
    const auto bits = std::bit_cast<std::uint32_t>(value);
    std::string text;
    for (int shift = 28; shift >= 0; shift -= 4)
        text += digits[(bits >> static_cast<unsigned>(shift)) & 15U];
    return text;
}

Result<std::vector<std::byte>> converted(const std::vector<float>& values, ElementType type, const std::string& name) {
    std::vector<std::byte> bytes(values.size() * bytes_of(type));
    for (std::size_t i = 0; i < values.size(); ++i) {
        const float v = values[i];
        switch (type) {
            case ElementType::f32: std::memcpy(&bytes[i * 4], &v, 4); break;
            case ElementType::f16:
            case ElementType::bf16: {
                const std::uint16_t half = type == ElementType::f16 ? half_from_float(v) : bfloat16_from_float(v);
                if (type == ElementType::f16 && std::isfinite(v) && (half & 0x7C00U) == 0x7C00U) {
                    return Error{ErrorCode::unsupported, "a weight of " + std::to_string(v) + " does not fit FP16",
                                 name, "build in bf16 or fp32"};
                }
                std::memcpy(&bytes[i * 2], &half, 2);
                break;
            }
            case ElementType::f64: {
                const auto n = static_cast<double>(v);
                std::memcpy(&bytes[i * 8], &n, 8);
                break;
            }
            case ElementType::s8:
            case ElementType::boolean:
            case ElementType::u8:
            case ElementType::s16:
            case ElementType::u16:
            case ElementType::s32:
            case ElementType::u32:
            case ElementType::s64:
            case ElementType::u64: { // little-endian: the low bytes come first
                const auto n = static_cast<std::int64_t>(v);
                std::memcpy(&bytes[i * bytes_of(type)], &n, bytes_of(type));
                break;
            }
        }
    }
    return bytes;
}

Result<WeightId> Lowering::store(const std::string& key, ElementType type, Shape dims, const Packer& pack) {
    WeightStore& store = *prepared_.weights;
    // A key is believed as far as what lies under it is of the form asked for: kernels read by these sizes, and an
    // engine file may hold others. What is of another form is packed under a key of its own.
    const auto known = [&](const std::string& name) -> std::optional<WeightId> {
        const auto found = store.by_key.find(name);
        if (found == store.by_key.end()) return std::nullopt;
        const Weight& weight = store.weights[found->second];
        return weight.type == type && weight.dims == dims ? std::optional(found->second) : std::nullopt;
    };
    if (const auto id = known(key)) return *id;
    const std::string name = store.by_key.contains(key) ? key + "|" + lathe::to_string(dims) : key;
    if (const auto id = known(name)) return *id;
    LATHE_TRY(auto bytes, pack());
    const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
    const auto id = static_cast<WeightId>(store.weights.size());
    store.weights.push_back({name, type, std::move(dims), *owner, owner});
    store.by_key.emplace(name, id);
    return id;
}

Result<WeightId> Lowering::store_vector(const std::string& key, std::int64_t padded,
                                        const std::function<Result<std::vector<float>>()>& make) {
    return store(key, ElementType::f32, {padded}, [&]() -> Result<std::vector<std::byte>> {
        LATHE_TRY(auto values, make());
        values.resize(static_cast<std::size_t>(padded), 0.0F);
        return converted(values, ElementType::f32, key);
    });
}

Result<ValueId> Lowering::constant_value(const Constant& constant, ElementType type) {
    const std::string key = constant.key() + "|linear|" + to_string(type);
    LATHE_TRY(const WeightId weight, store(key, type, constant.shape, [&]() -> Result<std::vector<std::byte>> {
                  if (constant.tensor == nullptr) return floats(constant).error();
                  if (is_whole(type) || type == ElementType::boolean) {
                      const auto integers = constant.tensor->to_int64s();
                      std::vector<std::byte> bytes(integers.size() * bytes_of(type));
                      for (std::size_t i = 0; i < integers.size(); ++i) // little-endian: the low bytes come first
                          std::memcpy(&bytes[i * bytes_of(type)], &integers[i], bytes_of(type));
                      return bytes;
                  }
                  LATHE_TRY(const auto values, floats_with_masks(constant, type));
                  return converted(values, type, constant.name);
              }));
    for (const ValueId id : forms_[constant.name]) {
        if (plan_.values[id].role == Role::constant && plan_.values[id].weight == weight) return id;
    }
    const ValueId id = stored_value(weight);
    plan_.values[id].name = constant.name;
    forms_[constant.name].push_back(id);
    return id;
}

Result<ValueId> Lowering::vector_value(const std::string& key, Shape dims,
                                       const std::function<Result<std::vector<float>>()>& make) {
    LATHE_TRY(const WeightId weight, store(key, ElementType::f32, dims, [&]() -> Result<std::vector<std::byte>> {
                  LATHE_TRY(const auto values, make());
                  return converted(values, ElementType::f32, key);
              }));
    return stored_value(weight);
}

ValueId Lowering::stored_value(WeightId weight) {
    const auto id = static_cast<ValueId>(plan_.values.size());
    Value made;
    made.role = Role::constant;
    made.type = prepared_.weights->weights[weight].type;
    made.dims = prepared_.weights->weights[weight].dims;
    made.weight = weight;
    plan_.values.push_back(std::move(made));
    return id;
}

std::size_t repeated_axes(const Tensor& tensor) {
    if (tensor.type() == DataType::string || bit_width(tensor.type()) % 8 != 0) return 0;
    std::span<const std::byte> bytes = tensor.bytes();
    std::size_t axes = 0;
    for (const std::int64_t size : tensor.shape()) {
        const auto count = static_cast<std::size_t>(size);
        if (count == 0) break;
        const std::size_t run = bytes.size() / count;
        bool same = true;
        for (std::size_t i = 1; i < count && same; ++i)
            same = std::memcmp(bytes.data(), bytes.data() + i * run, run) == 0;
        if (!same) break;
        bytes = bytes.first(run);
        ++axes;
    }
    return axes;
}

Constant Lowering::without_repeats(const Constant& constant) {
    // Of large ones it was noted when the model was prepared: after load there are no values to compare.
    std::size_t axes = 0;
    if (constant.large) {
        const std::string* noted = prepared_.model.find_metadata(repeats_prefix + constant.name);
        if (noted != nullptr) std::from_chars(noted->data(), noted->data() + noted->size(), axes);
    } else if (constant.tensor != nullptr) {
        axes = repeated_axes(*constant.tensor);
    }
    Shape shape = constant.shape;
    std::fill_n(shape.begin(), std::min(axes, shape.size()), 1);
    if (shape == constant.shape) return constant;
    const std::string name = constant.name + "/unrepeated";
    if (constant.tensor == nullptr) return {name, constant.type, shape, nullptr, constant.large};
    const auto size = static_cast<std::size_t>(element_count(shape)) * bit_width(constant.type) / 8;
    kept_.emplace_back(name, constant.type, shape, constant.tensor->bytes().first(size));
    return {name, constant.type, shape, &kept_.back(), constant.large};
}

Constant Lowering::part_of(const Constant& constant, std::int64_t from, std::int64_t count) {
    if (constant.tensor == nullptr || count == constant.count()) return constant;
    const auto size = static_cast<std::size_t>(bit_width(constant.type) / 8);
    const auto bytes =
        constant.tensor->bytes().subspan(static_cast<std::size_t>(from) * size, static_cast<std::size_t>(count) * size);
    const std::string name = constant.name + "/" + std::to_string(from);
    kept_.emplace_back(name, constant.type, Shape{count}, bytes);
    return {name, constant.type, {count}, &kept_.back(), constant.large};
}

Result<std::vector<float>> Lowering::floats(const Constant& constant) const {
    if (constant.tensor == nullptr) {
        return Error{ErrorCode::corrupt, "the engine lacks a packing of this constant", constant.name,
                     "build the engine again"};
    }
    auto values = constant.tensor->to_floats();
    if (values.size() != static_cast<std::size_t>(constant.count())) {
        return Error{ErrorCode::unsupported, "constants of type " + lathe::to_string(constant.type) + " are not read",
                     constant.name, "run the model on the CPU"};
    }
    return values;
}

Result<std::vector<float>> Lowering::floats_with_masks(const Constant& constant, ElementType type) {
    LATHE_TRY(auto values, floats(constant));
    if (type != ElementType::f16 && type != ElementType::bf16) return values;
    const DataType narrow = type == ElementType::f16 ? DataType::float16 : DataType::bfloat16;
    if (auto masks = clamped_masks(values, narrow)) {
        prepared_.weights->clamped.emplace(constant.name, clamped_constant(constant.name, values, narrow));
        values = *std::move(masks);
    }
    return values;
}

} // namespace lathe::cuda
