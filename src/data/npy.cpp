#include "data/npy.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <optional>

#include "support/files.hpp"
#include "support/half.hpp"

namespace lathe {

static_assert(std::endian::native == std::endian::little, "tensors are kept little-endian");

namespace {

struct TypeCode {
    std::string_view code; ///< kind and bytes, as in the header's 'descr'
    DataType type;
};

constexpr std::array<TypeCode, 12> type_codes{{
    {"f2", DataType::float16},
    {"f4", DataType::float32},
    {"f8", DataType::float64},
    {"i1", DataType::int8},
    {"i2", DataType::int16},
    {"i4", DataType::int32},
    {"i8", DataType::int64},
    {"u1", DataType::uint8},
    {"u2", DataType::uint16},
    {"u4", DataType::uint32},
    {"u8", DataType::uint64},
    {"b1", DataType::boolean},
}};

constexpr std::string_view magic = "\x93NUMPY";

/// Reads the Python dictionary literal of the header. Only its three known keys are understood; a parser for all of
/// Python's literals would be a larger target for hostile files.
class HeaderReader {
public:
    explicit HeaderReader(std::string_view text) : rest_(text) {}

    bool accept(char c) {
        skip_space();
        if (!rest_.starts_with(c)) return false;
        rest_.remove_prefix(1);
        return true;
    }

    std::optional<std::string_view> quoted() {
        skip_space();
        if (rest_.empty() || (rest_.front() != '\'' && rest_.front() != '"')) return {};
        const std::size_t end = rest_.find(rest_.front(), 1);
        if (end == std::string_view::npos) return {};
        const auto text = rest_.substr(1, end - 1);
        rest_.remove_prefix(end + 1);
        return text;
    }

    std::optional<bool> boolean() {
        skip_space();
        for (const auto& [word, value] : {std::pair{std::string_view("True"), true}, {"False", false}}) {
            if (!rest_.starts_with(word)) continue;
            rest_.remove_prefix(word.size());
            return value;
        }
        return {};
    }

    std::optional<Shape> tuple() {
        if (!accept('(')) return {};
        Shape shape;
        while (!accept(')')) {
            skip_space();
            std::int64_t dim = -1;
            const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), dim);
            if (error != std::errc{} || dim < 0 || shape.size() == 32) return {};
            rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
            if (rest_.starts_with('L')) rest_.remove_prefix(1); // Python 2's long integers
            shape.push_back(dim);
            if (accept(',')) continue;
            if (!accept(')')) return {};
            break;
        }
        return shape;
    }

private:
    void skip_space() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size())); }
    std::string_view rest_;
};

struct NpyHeader {
    std::optional<std::string_view> type;
    std::optional<bool> fortran_order;
    std::optional<Shape> shape;
};

std::optional<NpyHeader> parse_header(std::string_view text) {
    HeaderReader reader(text);
    NpyHeader header;
    if (!reader.accept('{')) return {};
    while (!reader.accept('}')) {
        const auto key = reader.quoted();
        if (!key || !reader.accept(':')) return {};
        if (key == "descr")
            header.type = reader.quoted();
        else if (key == "fortran_order")
            header.fortran_order = reader.boolean();
        else if (key == "shape")
            header.shape = reader.tuple();
        else
            return {};
        if (reader.accept(',')) continue;
        if (!reader.accept('}')) return {};
        break;
    }
    return header;
}

Error damaged(const std::string& what, std::string_view where) {
    return {ErrorCode::parse_error, "not a readable .npy array: " + what, std::string(where),
            "write it again with numpy.save"};
}

void copy_reordered(const NpyView& view, std::byte* out) {
    const std::size_t width = byte_size(view.type, 1);
    const std::size_t count = view.data.size() / width;
    const std::size_t rank = view.shape.size();
    // Strides in elements of the stored array, by axis.
    std::vector<std::size_t> stride(rank, 1);
    if (view.fortran_order) {
        for (std::size_t a = 1; a < rank; ++a)
            stride[a] = stride[a - 1] * static_cast<std::size_t>(view.shape[a - 1]);
    } else {
        for (std::size_t a = rank; a-- > 1;)
            stride[a - 1] = stride[a] * static_cast<std::size_t>(view.shape[a]);
    }
    std::vector<std::size_t> index(rank, 0);
    std::size_t offset = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const std::byte* from = view.data.data() + offset * width;
        if (view.swap_bytes)
            std::reverse_copy(from, from + width, out + i * width);
        else
            std::memcpy(out + i * width, from, width);
        for (std::size_t a = rank; a-- > 0;) {
            offset += stride[a];
            if (++index[a] < static_cast<std::size_t>(view.shape[a])) break;
            offset -= stride[a] * index[a];
            index[a] = 0;
        }
    }
}

} // namespace

bool NpyView::is_plain() const {
    const auto wide = std::count_if(shape.begin(), shape.end(), [](std::int64_t dim) { return dim > 1; });
    return !swap_bytes && (!fortran_order || wide <= 1);
}

Result<NpyView> parse_npy(std::span<const std::byte> bytes, std::string_view where) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (!text.starts_with(magic)) return damaged("the signature is missing", where);
    if (text.size() < 12) return damaged("the header is cut short", where);
    const auto version = static_cast<unsigned char>(text[6]);
    if (version < 1 || version > 3) return damaged("unknown version " + std::to_string(version), where);
    const auto byte_at = [&](std::size_t i) { return std::size_t{static_cast<unsigned char>(text[i])}; };
    const std::size_t length_bytes = version == 1 ? 2 : 4;
    std::size_t length = 0;
    for (std::size_t i = length_bytes; i-- > 0;)
        length = length << 8 | byte_at(8 + i);
    const std::size_t start = 8 + length_bytes;
    if (length > text.size() - start) return damaged("the header is cut short", where);
    const auto header = parse_header(text.substr(start, length));
    if (!header || !header->type || !header->fortran_order || !header->shape) {
        return damaged("the header cannot be understood", where);
    }

    NpyView view;
    view.fortran_order = *header->fortran_order;
    view.shape = *header->shape;
    const std::string_view code = *header->type;
    const auto known = std::find_if(type_codes.begin(), type_codes.end(), [&](const TypeCode& candidate) {
        return code.size() == 3 && std::string_view("<>|=").find(code[0]) != std::string_view::npos &&
               code.substr(1) == candidate.code;
    });
    if (known == type_codes.end()) {
        return Error{ErrorCode::unsupported, "arrays of type '" + std::string(code) + "' cannot be read",
                     std::string(where), "save numbers: float16/32/64, integers of 8 to 64 bits, or booleans"};
    }
    view.type = known->type;
    const std::size_t width = byte_size(view.type, 1);
    view.swap_bytes = code[0] == '>' && width > 1;
    const std::int64_t count = element_count(view.shape);
    const auto available = bytes.subspan(start + length);
    if (count < 0 || static_cast<std::uint64_t>(count) > available.size() / width) {
        return damaged("the data is cut short: " + to_string(view.shape) + " elements of " + std::to_string(width) +
                           " bytes do not fit " + std::to_string(available.size()),
                       where);
    }
    view.data = available.first(static_cast<std::size_t>(count) * width);
    return view;
}

Result<HostTensor> to_host_tensor(const NpyView& view, std::string name) {
    try {
        HostTensor tensor(std::move(name), view.type, view.shape);
        if (view.is_plain()) {
            if (!view.data.empty()) std::memcpy(tensor.bytes.data(), view.data.data(), view.data.size());
        } else {
            copy_reordered(view, tensor.bytes.data());
        }
        return tensor;
    } catch (const std::bad_alloc&) {
        return Error{ErrorCode::out_of_memory,
                     "no memory for an array of " + std::to_string(view.data.size()) + " bytes", "", ""};
    }
}

Result<HostTensor> read_npy(const std::filesystem::path& path) {
    LATHE_TRY(const auto file, MappedFile::open(path));
    LATHE_TRY(const NpyView view, parse_npy(file->bytes(), path.string()));
    return to_host_tensor(view, path.stem().string());
}

Result<std::string> npy_bytes(const TensorView& tensor) {
    const DataType type = tensor.type == DataType::bfloat16 ? DataType::float32 : tensor.type;
    const auto known =
        std::find_if(type_codes.begin(), type_codes.end(), [&](const TypeCode& code) { return code.type == type; });
    if (known == type_codes.end()) {
        return Error{ErrorCode::unsupported, "NumPy has no type for " + to_string(tensor.type), tensor.name, ""};
    }
    std::string dims;
    for (const std::int64_t dim : tensor.shape)
        dims += std::to_string(dim) + ",";
    if (tensor.shape.size() > 1) dims.pop_back();
    std::string header = std::string("{'descr': '") + (byte_size(type, 1) > 1 ? '<' : '|') + std::string(known->code) +
                         "', 'fortran_order': False, 'shape': (" + dims + "), }";
    // The data begins at a multiple of 64, as numpy.save does it.
    const std::size_t unpadded = 10 + header.size() + 1;
    header.append((64 - unpadded % 64) % 64, ' ');
    header += '\n';
    if (header.size() > 0xFFFF) {
        return Error{ErrorCode::unsupported, "too many dimensions for a .npy header", tensor.name, ""};
    }
    std::string out(magic);
    out += '\x01';
    out += '\0';
    out += static_cast<char>(header.size() & 0xFF);
    out += static_cast<char>(header.size() >> 8);
    out += header;
    if (tensor.type == DataType::bfloat16) {
        for (const std::uint16_t bits : tensor.as<std::uint16_t>()) {
            const float value = float_from_bfloat16(bits);
            out.append(reinterpret_cast<const char*>(&value), sizeof(value));
        }
    } else {
        out.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
    }
    return out;
}

Result<void> write_npy(const std::filesystem::path& path, const TensorView& tensor) {
    LATHE_TRY(const std::string bytes, npy_bytes(tensor));
    return write_file(path, bytes);
}

} // namespace lathe
