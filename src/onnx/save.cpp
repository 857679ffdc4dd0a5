// Models to files. Weights are written straight from where they lie, not through protobuf's strings: a TensorProto's
// fields but the last are serialized by protobuf, then raw_data is appended by hand (protobuf's encoding guide,
// length-delimited fields). The result is what protobuf itself would write, save for the order of fields.

#include <algorithm>
#include <array>
#include <limits>

#include "onnx/proto.hpp"
#include "support/hash.hpp"
#include "support/log.hpp"

namespace lathe {
namespace {

constexpr std::size_t protobuf_limit = std::numeric_limits<std::int32_t>::max();

using Sink = std::function<Result<void>(std::span<const std::byte>)>;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

/// Key and length of a length-delimited field.
std::string field_start(int number, std::size_t length) {
    std::string text;
    const auto varint = [&](std::uint64_t value) {
        for (; value >= 0x80; value >>= 7)
            text += static_cast<char>(value | 0x80);
        text += static_cast<char>(value);
    };
    varint(static_cast<std::uint64_t>(number) << 3 | 2);
    varint(length);
    return text;
}

/// One initializer as it goes into the file.
struct Piece {
    std::string head;                 ///< key and length in the graph, then the TensorProto without raw_data
    std::span<const std::byte> bytes; ///< raw_data; empty if the head is all
};

/// Where a tensor lies in the data file.
struct Place {
    std::size_t offset = 0;
    const Tensor* tensor = nullptr;
};
using Layout = std::map<std::string, Place>;

Piece piece_of(const std::string& name, const Tensor& tensor, const std::string& location, const Place* place) {
    onnx::TensorProto proto;
    Piece piece;
    if (place != nullptr) {
        proto::export_tensor_header(tensor, proto);
        proto.set_data_location(onnx::TensorProto::EXTERNAL);
        const auto entry = [&](const char* key, const std::string& value) {
            auto* added = proto.add_external_data();
            added->set_key(key);
            added->set_value(value);
        };
        entry("location", location);
        entry("offset", std::to_string(place->offset));
        entry("length", std::to_string(tensor.bytes().size()));
    } else if (tensor.type() == DataType::string) {
        proto::Exporter().tensor(tensor, proto);
    } else {
        proto::export_tensor_header(tensor, proto);
        piece.bytes = tensor.bytes();
    }
    proto.set_name(name);
    std::string head = proto::serialize(proto);
    // An empty tensor still gets the raw_data field, so that it is not mistaken for one without data.
    const bool raw = place == nullptr && tensor.type() != DataType::string;
    if (raw) head += field_start(onnx::TensorProto::kRawDataFieldNumber, piece.bytes.size());
    piece.head = field_start(onnx::GraphProto::kInitializerFieldNumber, head.size() + piece.bytes.size()) + head;
    return piece;
}

/// The file in pieces, ready to write.
struct Encoded {
    std::string model; ///< ModelProto without its graph
    std::string graph; ///< key and length, then the GraphProto without initializers
    std::vector<Piece> pieces;
    std::size_t size = 0;

    Result<void> write(const Sink& sink) const {
        LATHE_CHECK(sink(bytes_of(model)));
        LATHE_CHECK(sink(bytes_of(graph)));
        for (const Piece& piece : pieces) {
            LATHE_CHECK(sink(bytes_of(piece.head)));
            LATHE_CHECK(sink(piece.bytes));
        }
        return {};
    }
};

Result<Encoded> encode(const Model& model, const std::string& location, const Layout& layout) {
    Encoded encoded;
    std::size_t payload = 0;
    for (const auto& [name, tensor] : model.graph.initializers) {
        const auto place = layout.find(name);
        encoded.pieces.push_back(piece_of(name, tensor, location, place == layout.end() ? nullptr : &place->second));
        payload += encoded.pieces.back().head.size() + encoded.pieces.back().bytes.size();
    }
    proto::Exporter exporter;
    exporter.initializers = false;
    LATHE_TRY(onnx::ModelProto message, exporter.model(model));
    // Measured before it is serialized: protobuf counts sizes in int.
    if (message.ByteSizeLong() > protobuf_limit) {
        return Error{ErrorCode::out_of_range, "the graph without its initializers is larger than protobuf's 2 GB", "",
                     "turn large Constant nodes into initializers (lathe simplify does)"};
    }
    std::string graph = proto::serialize(message.graph());
    message.clear_graph();
    encoded.model = proto::serialize(message);
    encoded.graph = field_start(onnx::ModelProto::kGraphFieldNumber, graph.size() + payload) + graph;
    encoded.size = encoded.model.size() + encoded.graph.size() + payload;
    return encoded;
}

Result<void> check_size(const Encoded& encoded) {
    if (encoded.size <= protobuf_limit) return {};
    return Error{ErrorCode::out_of_range,
                 "the model needs " + std::to_string(encoded.size) + " bytes, more than protobuf's 2 GB", "",
                 "save it with external data"};
}

std::size_t aligned(std::size_t offset, std::size_t size) {
    // Large tensors begin on a page, so that whoever maps the file can use them in place.
    const std::size_t alignment = size >= (std::size_t{1} << 20) ? 4096 : 64;
    return (offset + alignment - 1) / alignment * alignment;
}

Layout lay_out(const Graph& graph, std::size_t minimum) {
    Layout layout;
    std::size_t end = 0;
    for (const auto& [name, tensor] : graph.initializers) {
        const std::size_t size = tensor.bytes().size();
        if (tensor.type() == DataType::string || size == 0 || size < minimum) continue;
        const std::size_t offset = aligned(end, size);
        layout.emplace(name, Place{offset, &tensor});
        end = offset + size;
    }
    return layout;
}

/// Tensors at their offsets, zeros between.
Result<void> write_data(const Layout& layout, const Sink& sink) {
    static constexpr std::array<std::byte, 4096> zeros{};
    std::size_t end = 0;
    for (const auto& [name, place] : layout) { // in name order, which is offset order
        LATHE_CHECK(sink(std::span(zeros).first(place.offset - end)));
        LATHE_CHECK(sink(place.tensor->bytes()));
        end = place.offset + place.tensor->bytes().size();
    }
    return {};
}

std::string data_name(const std::filesystem::path& path, const std::string& digest) {
    return path.filename().string() + "." + digest + ".data";
}

void name_older_data(const std::filesystem::path& path, const std::string& current) {
    const std::string prefix = path.filename().string() + ".";
    const std::size_t length = data_name(path, std::string(32, '0')).size();
    std::filesystem::path folder = path.parent_path();
    if (folder.empty()) folder = ".";
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
        const std::string name = entry.path().filename().string();
        if (name != current && name.size() == length && name.starts_with(prefix) && name.ends_with(".data")) {
            log(LogLevel::info, entry.path().string() +
                                    " belongs to an earlier version of the model; remove it if no " +
                                    "copy of that version is in use");
        }
    }
}

Result<void> write_whole(const std::filesystem::path& path, const std::function<Result<void>(const Sink&)>& content) {
    LATHE_TRY(AtomicFile file, AtomicFile::create(path));
    LATHE_CHECK(content([&](std::span<const std::byte> bytes) { return file.write(bytes); }));
    return file.commit();
}

Result<void> save(const Model& model, const std::filesystem::path& path, const SaveOptions& options) {
    if (options.external_data != ExternalData::always) {
        LATHE_TRY(const Encoded encoded, encode(model, "", {}));
        const std::size_t limit = options.external_data == ExternalData::never
                                      ? protobuf_limit
                                      : std::min(options.inline_limit, protobuf_limit);
        if (options.external_data == ExternalData::never) LATHE_CHECK(check_size(encoded));
        if (encoded.size <= limit) {
            return write_whole(path, [&](const Sink& sink) { return encoded.write(sink); });
        }
    }
    const Layout layout = lay_out(model.graph, options.external_minimum);
    if (layout.empty()) {
        LATHE_TRY(const Encoded encoded, encode(model, "", {}));
        LATHE_CHECK(check_size(encoded));
        return write_whole(path, [&](const Sink& sink) { return encoded.write(sink); });
    }
    Hasher hasher;
    LATHE_CHECK(write_data(layout, [&](std::span<const std::byte> bytes) {
        hasher.update(bytes);
        return Result<void>();
    }));
    const std::string location = data_name(path, hasher.hex());
    LATHE_TRY(const Encoded encoded, encode(model, location, layout));
    LATHE_CHECK(check_size(encoded));
    LATHE_CHECK(write_whole(path.parent_path() / location, [&](const Sink& sink) { return write_data(layout, sink); }));
    LATHE_CHECK(write_whole(path, [&](const Sink& sink) { return encoded.write(sink); }));
    name_older_data(path, location);
    return {};
}

} // namespace

Result<std::string> serialize_onnx(const Model& model) {
    std::string text;
    Result<void> outcome;
    LATHE_CHECK(proto::guarded(ErrorCode::internal, "writing ONNX", [&] {
        outcome = [&]() -> Result<void> {
            LATHE_TRY(const Encoded encoded, encode(model, "", {}));
            LATHE_CHECK(check_size(encoded));
            text.reserve(encoded.size);
            return encoded.write([&](std::span<const std::byte> bytes) {
                text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
                return Result<void>();
            });
        }();
    }));
    if (!outcome) return std::move(outcome).error();
    return text;
}

Result<void> save_onnx(const Model& model, const std::filesystem::path& path, const SaveOptions& options) {
    Result<void> outcome;
    LATHE_CHECK(
        proto::guarded(ErrorCode::internal, "writing " + path.string(), [&] { outcome = save(model, path, options); }));
    if (!outcome) return std::move(outcome).error().in(path.string());
    return {};
}

} // namespace lathe
