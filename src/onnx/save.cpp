// Models to files. Weights are written straight from where they lie, not through protobuf's strings: a TensorProto's
// fields but the last are serialized by protobuf, then raw_data is appended by hand (protobuf's encoding guide,
// length-delimited fields). The result is what protobuf itself would write, save for the order of fields.

#include <algorithm>
#include <array>

#include "onnx/proto.hpp"
#include "support/hash.hpp"
#include "support/log.hpp"

namespace lathe {
namespace {

using Sink = std::function<Result<void>(std::span<const std::byte>)>;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

using proto::field_start;

/// One initializer as it goes into the file.
struct Piece {
    std::string head;                 ///< key and length in the graph, then the TensorProto without raw_data
    std::span<const std::byte> bytes; ///< raw_data; empty if the head is all
};

/// Bytes that a varint of any size has room in.
constexpr std::size_t widest_varint = 10;

/// Where a tensor lies in the data file.
struct Place {
    std::size_t offset = 0;
    const Tensor* tensor = nullptr;
};
using Layout = std::map<std::string, Place>;

/// `aligned`: the piece begins at `at` of the file, and its data is to lie on a multiple of 4, by lengths that are
/// longer than they need to be.
Piece piece_of(const std::string& name, const Tensor& tensor, const std::string& location, const Place* place,
               bool aligned, std::size_t at) {
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
    if (raw) {
        const int number = onnx::TensorProto::kRawDataFieldNumber;
        const std::string start = field_start(number, piece.bytes.size());
        const std::size_t data = at + 1 + widest_varint + head.size() + start.size();
        head += aligned ? field_start(number, piece.bytes.size(), start.size() - 1 + (4 - data % 4) % 4) : start;
    }
    piece.head = field_start(onnx::GraphProto::kInitializerFieldNumber, head.size() + piece.bytes.size(),
                             aligned ? widest_varint : 1) +
                 head;
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

Result<Encoded> encode(const Model& model, const std::string& location, const Layout& layout, bool align = false) {
    Encoded encoded;
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
    const std::size_t width = align ? widest_varint : 1;
    const std::size_t begin = encoded.model.size() + field_start(onnx::ModelProto::kGraphFieldNumber, 0, width).size();
    std::size_t payload = 0;
    for (const auto& [name, tensor] : model.graph.initializers) {
        const auto place = layout.find(name);
        encoded.pieces.push_back(piece_of(name, tensor, location, place == layout.end() ? nullptr : &place->second,
                                          align, begin + graph.size() + payload));
        payload += encoded.pieces.back().head.size() + encoded.pieces.back().bytes.size();
    }
    encoded.graph = field_start(onnx::ModelProto::kGraphFieldNumber, graph.size() + payload, width) + graph;
    encoded.size = encoded.model.size() + encoded.graph.size() + payload;
    return encoded;
}

Result<void> check_size(std::size_t size) {
    if (size <= protobuf_limit) return {};
    return Error{ErrorCode::out_of_range,
                 "the model needs " + std::to_string(size) + " bytes in one piece, more than protobuf's 2 GB", "",
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
        if (options.external_data == ExternalData::never) LATHE_CHECK(check_size(encoded.size));
        if (encoded.size <= limit) {
            return write_whole(path, [&](const Sink& sink) { return encoded.write(sink); });
        }
    }
    const Layout layout = lay_out(model.graph, options.external_minimum);
    if (layout.empty()) {
        LATHE_TRY(const Encoded encoded, encode(model, "", {}));
        LATHE_CHECK(check_size(encoded.size));
        return write_whole(path, [&](const Sink& sink) { return encoded.write(sink); });
    }
    Hasher hasher;
    LATHE_CHECK(write_data(layout, [&](std::span<const std::byte> bytes) {
        hasher.update(bytes);
        return Result<void>();
    }));
    const std::string location = data_name(path, hasher.hex());
    LATHE_TRY(const Encoded encoded, encode(model, location, layout));
    LATHE_CHECK(check_size(encoded.size));
    LATHE_CHECK(write_whole(path.parent_path() / location, [&](const Sink& sink) { return write_data(layout, sink); }));
    LATHE_CHECK(write_whole(path, [&](const Sink& sink) { return encoded.write(sink); }));
    name_older_data(path, location);
    return {};
}

} // namespace

Result<ByteChain> onnx_pieces(const Model& model, std::size_t limit) {
    Result<Encoded> encoded = Error{};
    LATHE_CHECK(proto::guarded(ErrorCode::internal, "writing ONNX", [&] {
        encoded = encode(model, "", {});
        if (encoded && encoded->size > limit) encoded = encode(model, "", {}, true);
    }));
    if (!encoded) return std::move(encoded).error();
    ByteChain chain;
    chain.add(std::move(encoded->model));
    chain.add(std::move(encoded->graph));
    const auto owner = std::make_shared<const decltype(model.graph.initializers)>(model.graph.initializers);
    for (Piece& piece : encoded->pieces) {
        chain.add(std::move(piece.head));
        chain.add(piece.bytes, owner);
    }
    return chain;
}

Result<std::string> serialize_onnx(const Model& model) {
    LATHE_TRY(const ByteChain chain, onnx_pieces(model));
    LATHE_CHECK(check_size(chain.size()));
    return chain.flat();
}

Result<void> save_onnx(const Model& model, const std::filesystem::path& path, const SaveOptions& options) {
    Result<void> outcome;
    LATHE_CHECK(
        proto::guarded(ErrorCode::internal, "writing " + path.string(), [&] { outcome = save(model, path, options); }));
    if (!outcome) return std::move(outcome).error().in(path.string());
    return {};
}

} // namespace lathe
