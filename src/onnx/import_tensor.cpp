// TensorProto to Tensor: every field that holds elements, checked against type and shape before anything is read.

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "onnx/proto.hpp"

namespace lathe::proto {
namespace {

/// Number of elements the repeated field for typed data must have; packed types put several in one entry.
std::size_t typed_entries(DataType type, std::size_t count) {
    switch (type) {
        case DataType::complex64:
        case DataType::complex128: return 2 * count;
        case DataType::uint4:
        case DataType::int4:
        case DataType::float4e2m1: return (count + 1) / 2;
        case DataType::uint2:
        case DataType::int2: return (count + 3) / 4;
        default: return count;
    }
}

Error wrong_length(const char* field, std::size_t has, std::size_t needs) {
    return malformed(std::string(field) + " holds " + std::to_string(has) +
                     " entries, the tensor's type and shape need " + std::to_string(needs));
}

/// Elements copied as they are: the field's C++ type is the element type.
template <class T>
Result<std::vector<std::byte>> plain(const google::protobuf::RepeatedField<T>& field, const char* name,
                                     std::size_t entries) {
    const auto has = static_cast<std::size_t>(field.size());
    if (has != entries) return wrong_length(name, has, entries);
    std::vector<std::byte> bytes(has * sizeof(T));
    if (has > 0) std::memcpy(bytes.data(), field.data(), bytes.size());
    return bytes;
}

/// Integers narrowed to `width` bytes. A value must fit the width as a signed or an unsigned number.
template <class T>
Result<std::vector<std::byte>> narrowed(const google::protobuf::RepeatedField<T>& field, const char* name,
                                        std::size_t entries, std::size_t width) {
    const auto has = static_cast<std::size_t>(field.size());
    if (has != entries) return wrong_length(name, has, entries);
    std::vector<std::byte> bytes(has * width);
    const unsigned bits = static_cast<unsigned>(width) * 8;
    for (std::size_t i = 0; i < has; ++i) {
        const T value = field.Get(static_cast<int>(i));
        if (bits < sizeof(T) * 8) {
            const T high = static_cast<T>(value >> (bits - 1)); // arithmetic shift: -1 for small negative numbers
            if (high != 0 && high != 1 && high != static_cast<T>(-1)) {
                return malformed(std::string(name) + " holds " + std::to_string(value) + ", which does not fit " +
                                 std::to_string(bits) + " bits");
            }
        }
        std::memcpy(bytes.data() + i * width, &value, width); // little-endian, as everywhere in Lathe
    }
    return bytes;
}

/// Six-bit codes, one an entry, packed four in three bytes from the least significant bit (onnx.proto, raw_data).
Result<std::vector<std::byte>> six_bit(const google::protobuf::RepeatedField<std::int32_t>& field, std::size_t count) {
    const auto has = static_cast<std::size_t>(field.size());
    if (has != count) return wrong_length("int32_data", has, count);
    std::vector<std::byte> bytes((count * 6 + 7) / 8);
    for (std::size_t i = 0; i < count; ++i) {
        const std::int32_t value = field.Get(static_cast<int>(i));
        if (value < 0 || value > 63) return malformed("int32_data holds a 6-bit code outside 0..63");
        const std::size_t bit = i * 6;
        const unsigned shifted = static_cast<unsigned>(value) << (bit % 8);
        bytes[bit / 8] |= static_cast<std::byte>(shifted & 0xFFU);
        if (bit % 8 > 2) bytes[bit / 8 + 1] |= static_cast<std::byte>(shifted >> 8);
    }
    return bytes;
}

Result<std::vector<std::byte>> typed_data(const onnx::TensorProto& proto, const TensorHeader& header) {
    const std::size_t entries = typed_entries(header.type, header.count);
    switch (header.type) {
        case DataType::float32:
        case DataType::complex64: return plain(proto.float_data(), "float_data", entries);
        case DataType::float64:
        case DataType::complex128: return plain(proto.double_data(), "double_data", entries);
        case DataType::int32: return plain(proto.int32_data(), "int32_data", entries);
        case DataType::int64: return plain(proto.int64_data(), "int64_data", entries);
        case DataType::uint64: return plain(proto.uint64_data(), "uint64_data", entries);
        case DataType::uint32: return narrowed(proto.uint64_data(), "uint64_data", entries, 4);
        case DataType::uint16:
        case DataType::int16:
        case DataType::float16:
        case DataType::bfloat16: return narrowed(proto.int32_data(), "int32_data", entries, 2);
        case DataType::float6e2m3:
        case DataType::float6e3m2: return six_bit(proto.int32_data(), header.count);
        default: return narrowed(proto.int32_data(), "int32_data", entries, 1);
    }
}

bool has_typed_data(const onnx::TensorProto& proto) {
    return proto.float_data_size() > 0 || proto.int32_data_size() > 0 || proto.int64_data_size() > 0 ||
           proto.double_data_size() > 0 || proto.uint64_data_size() > 0 || proto.string_data_size() > 0;
}

Result<Tensor> import_strings(onnx::TensorProto& proto, const TensorHeader& header) {
    const auto has = static_cast<std::size_t>(proto.string_data_size());
    if (proto.has_raw_data() && !proto.raw_data().empty()) return malformed("a string tensor has raw data");
    if (has != header.count) return wrong_length("string_data", has, header.count);
    std::vector<std::string> strings;
    strings.reserve(has);
    for (auto& text : *proto.mutable_string_data())
        strings.push_back(std::move(text));
    return Tensor(proto.name(), header.shape, std::move(strings));
}

Error wrong_raw_data(std::size_t has, const TensorHeader& header) {
    return malformed("raw data holds " + std::to_string(has) + " bytes, the tensor's type and shape (" +
                     to_string(header.type) + " " + to_string(header.shape) + ") need " + std::to_string(header.bytes));
}

/// Raw data that lies apart from the proto.
Result<Tensor> import_parted(const onnx::TensorProto& proto, const TensorHeader& header, std::span<const std::byte> raw,
                             const std::shared_ptr<const void>& owner) {
    if (header.type == DataType::string) return malformed("a string tensor has raw data");
    if (has_typed_data(proto)) return malformed("a tensor has raw data and typed data at once");
    if (raw.size() != header.bytes) return wrong_raw_data(raw.size(), header);
    if (owner) return Tensor(proto.name(), header.type, header.shape, raw, owner);
    return Tensor(proto.name(), header.type, header.shape, raw);
}

Result<Tensor> import_elements(onnx::TensorProto& proto, const TensorHeader& header) {
    if (header.type == DataType::string) return import_strings(proto, header);
    if (proto.has_raw_data() && !(proto.raw_data().empty() && has_typed_data(proto))) {
        if (has_typed_data(proto)) return malformed("a tensor has raw data and typed data at once");
        if (proto.raw_data().size() != header.bytes) return wrong_raw_data(proto.raw_data().size(), header);
        const std::shared_ptr<const std::string> owner(proto.release_raw_data());
        return Tensor(proto.name(), header.type, header.shape, std::as_bytes(std::span(*owner)), owner);
    }
    LATHE_TRY(auto bytes, typed_data(proto, header));
    const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
    return Tensor(proto.name(), header.type, header.shape, *owner, owner);
}

} // namespace

Result<TensorHeader> import_tensor_header(const onnx::TensorProto& proto) {
    TensorHeader header;
    if (!onnx::TensorProto::DataType_IsValid(proto.data_type()) || proto.data_type() == onnx::TensorProto::UNDEFINED) {
        return malformed("element type " + std::to_string(proto.data_type()) + " is not one ONNX defines");
    }
    header.type = static_cast<DataType>(proto.data_type());
    header.shape.assign(proto.dims().begin(), proto.dims().end());
    for (const std::int64_t dim : header.shape) {
        if (dim < 0) return malformed("a constant has the negative dimension " + std::to_string(dim));
    }
    const std::int64_t count = element_count(header.shape);
    constexpr std::int64_t largest = std::int64_t{1} << 48; // so that byte counts cannot overflow
    if (count < 0 || count > largest) {
        return malformed("a constant's shape " + to_string(header.shape) + " has more elements than any memory");
    }
    header.count = static_cast<std::size_t>(count);
    header.bytes = header.type == DataType::string ? std::numeric_limits<std::size_t>::max()
                                                   : byte_size(header.type, header.count);
    return header;
}

Result<Tensor> Importer::tensor(onnx::TensorProto& proto, std::span<const std::byte> raw) {
    const auto place = [&] { return "tensor " + (proto.name().empty() ? std::string("without name") : proto.name()); };
    auto header = import_tensor_header(proto);
    if (!header) return std::move(header).error().in(place());
    if (proto.has_segment()) {
        return Error{ErrorCode::unsupported, "the tensor is stored in segments", place(),
                     "write it whole; ONNX's checker does not accept segments either"};
    }
    std::optional<Tensor> found;
    const bool external = proto.data_location() == onnx::TensorProto::EXTERNAL;
    if (source != nullptr) {
        auto answer = source->find(proto);
        if (!answer) return std::move(answer).error().in(place());
        found = std::move(*answer);
    }
    if (!found && external) {
        return Error{ErrorCode::not_found, "the tensor's data lies in another file, and no folder was given to look in",
                     place(), "load the model by its path"};
    }
    if (!found) {
        auto elements = raw.empty() ? import_elements(proto, *header) : import_parted(proto, *header, raw, owner);
        if (!elements) return std::move(elements).error().in(place());
        found = std::move(*elements);
    }
    found->name = proto.name();
    found->doc = proto.doc_string();
    for (const auto& entry : proto.metadata_props())
        found->metadata.emplace_back(entry.key(), entry.value());
    return std::move(*found);
}

} // namespace lathe::proto
