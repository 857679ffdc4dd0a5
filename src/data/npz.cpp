#include <algorithm>
#include <cstring>
#include <limits>
#include <set>
#include <string>

#include <zlib.h>

#include "data/npy.hpp"
#include "support/files.hpp"

// The ZIP format: PKWARE APPNOTE 6.3.9, sections 4.3 and 4.5.3 (ZIP64).
namespace lathe {

namespace {

constexpr std::uint32_t local_signature = 0x04034b50;
constexpr std::uint32_t central_signature = 0x02014b50;
constexpr std::uint32_t end_signature = 0x06054b50;
constexpr std::uint32_t end64_signature = 0x06064b50;
constexpr std::uint32_t locator64_signature = 0x07064b50;
constexpr std::uint32_t large32 = 0xFFFFFFFF;
constexpr std::uint64_t largest_entry = std::uint64_t{16} << 30;

Error damaged(const std::string& what, const std::string& where) {
    return {ErrorCode::parse_error, "not a readable .npz archive: " + what, where, "write it again with numpy.savez"};
}

/// Little-endian integers at checked offsets; reads outside give 0 and set `bad`.
class Reader {
public:
    explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

    std::uint64_t get(std::uint64_t offset, std::size_t width) {
        if (offset > bytes_.size() || width > bytes_.size() - offset) {
            bad = true;
            return 0;
        }
        std::uint64_t value = 0;
        std::memcpy(&value, bytes_.data() + offset, width);
        return value;
    }
    std::uint16_t u16(std::uint64_t offset) { return static_cast<std::uint16_t>(get(offset, 2)); }
    std::uint32_t u32(std::uint64_t offset) { return static_cast<std::uint32_t>(get(offset, 4)); }
    std::uint64_t u64(std::uint64_t offset) { return get(offset, 8); }

    std::span<const std::byte> block(std::uint64_t offset, std::uint64_t size) {
        if (offset > bytes_.size() || size > bytes_.size() - offset) {
            bad = true;
            return {};
        }
        return bytes_.subspan(offset, size);
    }

    bool bad = false;

private:
    std::span<const std::byte> bytes_;
};

struct Entry {
    std::string name;
    std::uint16_t flags = 0;
    std::uint16_t method = 0;
    std::uint32_t crc = 0;
    std::uint64_t packed = 0;
    std::uint64_t size = 0;
    std::uint64_t header = 0; ///< offset of the local header
    std::uint64_t next = 0;   ///< offset of the next central entry
};

struct Directory {
    std::uint64_t offset = 0;
    std::uint64_t entries = 0;
};

/// The end record lies in the last 64 KiB, before a comment.
Result<Directory> find_directory(Reader& reader, std::size_t size, const std::string& where) {
    if (size < 22) return damaged("the file is cut short", where);
    const std::size_t earliest = size > 22 + 0xFFFF ? size - 22 - 0xFFFF : 0;
    for (std::size_t at = size - 22 + 1; at-- > earliest;) {
        if (reader.u32(at) != end_signature) continue;
        Directory directory{reader.u32(at + 16), reader.u16(at + 10)};
        if (at >= 20 && reader.u32(at - 20) == locator64_signature) {
            const std::uint64_t end64 = reader.u64(at - 12);
            if (reader.u32(end64) != end64_signature) return damaged("the ZIP64 record is missing", where);
            directory = {reader.u64(end64 + 48), reader.u64(end64 + 32)};
        }
        if (directory.entries > size / 46) return damaged("the entry count is wrong", where);
        return directory;
    }
    return damaged("the directory is missing (the file may be cut short)", where);
}

Result<Entry> read_entry(Reader& reader, std::uint64_t at, const std::string& where) {
    if (reader.u32(at) != central_signature) return damaged("a directory entry is damaged", where);
    Entry entry;
    entry.flags = reader.u16(at + 8);
    entry.method = reader.u16(at + 10);
    entry.crc = reader.u32(at + 16);
    entry.packed = reader.u32(at + 20);
    entry.size = reader.u32(at + 24);
    const std::uint64_t name_size = reader.u16(at + 28);
    const std::uint64_t extra_size = reader.u16(at + 30);
    entry.header = reader.u32(at + 42);
    const auto name = reader.block(at + 46, name_size);
    entry.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
    // A ZIP64 extra field carries those values that are all ones above, in this order.
    const std::uint64_t extra_end = at + 46 + name_size + extra_size;
    for (std::uint64_t extra = at + 46 + name_size; extra + 4 <= extra_end && !reader.bad;) {
        std::uint64_t value = extra + 4;
        const std::uint64_t next = value + reader.u16(extra + 2);
        if (reader.u16(extra) == 1) {
            for (std::uint64_t* field : {&entry.size, &entry.packed, &entry.header}) {
                if (*field != large32 || value + 8 > next) continue;
                *field = reader.u64(value);
                value += 8;
            }
        }
        extra = next;
    }
    entry.next = extra_end + reader.u16(at + 32);
    if (reader.bad) return damaged("a directory entry is cut short", where);
    return entry;
}

/// The unpacked bytes; `buffer` owns them if they had to be inflated.
Result<std::span<const std::byte>> unpack(Reader& reader, const Entry& entry, std::vector<std::byte>& buffer,
                                          const std::string& where) {
    if ((entry.flags & 1U) != 0) return damaged("the entry is encrypted", where);
    if (reader.u32(entry.header) != local_signature) return damaged("the entry's header is damaged", where);
    const std::uint64_t start = entry.header + 30 + reader.u16(entry.header + 26) + reader.u16(entry.header + 28);
    const auto packed = reader.block(start, entry.packed);
    if (reader.bad) return damaged("the entry is cut short", where);
    if (entry.method == 0) {
        if (entry.packed != entry.size) return damaged("the entry's sizes disagree", where);
        return packed;
    }
    if (entry.method != 8) return damaged("compression method " + std::to_string(entry.method), where);
    if (entry.size > largest_entry) {
        return Error{ErrorCode::out_of_memory, "the array is larger than 16 GiB", where, "save it as .npy"};
    }
    // Deflate shrinks at most 1032-fold: a larger claim is a lie, found before memory is taken for it.
    if (entry.size / 1032 > entry.packed) return damaged("the entry's size is wrong", where);
    try {
        buffer.resize(entry.size);
    } catch (const std::bad_alloc&) {
        return Error{ErrorCode::out_of_memory, "no memory to unpack the array", where, "save it as .npy"};
    }
    z_stream stream{};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) {
        return Error{ErrorCode::out_of_memory, "no memory to unpack the array", where, ""};
    }
    std::size_t in = 0;
    std::size_t out = 0;
    int status = Z_OK;
    constexpr std::size_t step = std::size_t{1} << 30; // zlib counts in 32 bits
    while (status == Z_OK) {
        const auto in_now = std::min(step, packed.size() - in);
        const auto out_now = std::min(step, buffer.size() - out);
        stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data() + in));
        stream.avail_in = static_cast<uInt>(in_now);
        stream.next_out = reinterpret_cast<Bytef*>(buffer.data() + out);
        stream.avail_out = static_cast<uInt>(out_now);
        status = inflate(&stream, Z_NO_FLUSH);
        in += in_now - stream.avail_in;
        out += out_now - stream.avail_out;
    }
    inflateEnd(&stream);
    if (status != Z_STREAM_END || out != buffer.size()) return damaged("the entry does not inflate", where);
    return std::span<const std::byte>(buffer);
}

std::uint32_t checksum(std::span<const std::byte> bytes) {
    uLong crc = crc32(0, nullptr, 0);
    constexpr std::size_t step = std::size_t{1} << 30;
    for (std::size_t at = 0; at < bytes.size(); at += step) {
        crc = crc32(crc, reinterpret_cast<const Bytef*>(bytes.data() + at),
                    static_cast<uInt>(std::min(step, bytes.size() - at)));
    }
    return static_cast<std::uint32_t>(crc);
}

void put(std::string& out, std::uint64_t value, std::size_t width) {
    out.append(reinterpret_cast<const char*>(&value), width);
}

/// The fields that the local header and the central entry share, from "version needed" to the sizes.
void put_common(std::string& out, const Entry& entry, bool zip64) {
    put(out, zip64 ? 45 : 20, 2);
    put(out, 0x0800, 2); // names are UTF-8
    put(out, 0, 2);      // stored
    put(out, 0, 2);      // no time: equal tensors give equal files
    put(out, 0x21, 2);   // 1 January 1980
    put(out, entry.crc, 4);
    put(out, zip64 ? large32 : entry.size, 4);
    put(out, zip64 ? large32 : entry.size, 4);
    put(out, entry.name.size(), 2);
}

std::string local_header(const Entry& entry) {
    const bool zip64 = entry.size >= large32;
    std::string out;
    put(out, local_signature, 4);
    put_common(out, entry, zip64);
    put(out, zip64 ? 20 : 0, 2);
    out += entry.name;
    if (zip64) {
        put(out, 1, 2);
        put(out, 16, 2);
        put(out, entry.size, 8);
        put(out, entry.size, 8);
    }
    return out;
}

std::string central_entry(const Entry& entry) {
    const bool zip64 = entry.size >= large32 || entry.header >= large32;
    std::string out;
    put(out, central_signature, 4);
    put(out, zip64 ? 45 : 20, 2);
    put_common(out, entry, zip64);
    put(out, zip64 ? 28 : 0, 2);
    put(out, 0, 2); // comment
    put(out, 0, 2); // disk
    put(out, 0, 2); // internal attributes
    put(out, 0, 4); // external attributes
    put(out, zip64 ? large32 : entry.header, 4);
    out += entry.name;
    if (zip64) {
        put(out, 1, 2);
        put(out, 24, 2);
        put(out, entry.size, 8);
        put(out, entry.size, 8);
        put(out, entry.header, 8);
    }
    return out;
}

std::string end_records(std::uint64_t offset, std::uint64_t size, std::uint64_t entries) {
    std::string out;
    if (offset >= large32 || size >= large32 || entries >= 0xFFFF) {
        put(out, end64_signature, 4);
        put(out, 44, 8);
        put(out, 45, 2);
        put(out, 45, 2);
        put(out, 0, 4);
        put(out, 0, 4);
        put(out, entries, 8);
        put(out, entries, 8);
        put(out, size, 8);
        put(out, offset, 8);
        put(out, locator64_signature, 4);
        put(out, 0, 4);
        put(out, offset + size, 8);
        put(out, 1, 4);
    }
    put(out, end_signature, 4);
    put(out, 0, 4); // disks
    put(out, std::min<std::uint64_t>(entries, 0xFFFF), 2);
    put(out, std::min<std::uint64_t>(entries, 0xFFFF), 2);
    put(out, std::min<std::uint64_t>(size, large32), 4);
    put(out, std::min<std::uint64_t>(offset, large32), 4);
    put(out, 0, 2);
    return out;
}

} // namespace

Result<std::vector<HostTensor>> read_npz(const std::filesystem::path& path) {
    LATHE_TRY(const auto file, MappedFile::open(path));
    Reader reader(file->bytes());
    LATHE_TRY(const Directory directory, find_directory(reader, file->bytes().size(), path.string()));
    std::vector<HostTensor> tensors;
    std::uint64_t at = directory.offset;
    std::uint64_t packed = 0;
    for (std::uint64_t i = 0; i < directory.entries; ++i) {
        LATHE_TRY(const Entry entry, read_entry(reader, at, path.string()));
        at = entry.next;
        // Entries that share bytes could otherwise unpack to any size.
        if (entry.packed > file->bytes().size() - packed) return damaged("its entries overlap", path.string());
        packed += entry.packed;
        const std::string where = path.string() + ": " + entry.name;
        std::vector<std::byte> buffer;
        LATHE_TRY(const auto bytes, unpack(reader, entry, buffer, where));
        if (checksum(bytes) != entry.crc) return damaged("the checksum is wrong", where);
        LATHE_TRY(const NpyView view, parse_npy(bytes, where));
        std::string name = entry.name;
        if (name.ends_with(".npy")) name.resize(name.size() - 4);
        LATHE_TRY(HostTensor tensor, to_host_tensor(view, std::move(name)));
        tensors.push_back(std::move(tensor));
    }
    return tensors;
}

Result<void> write_npz(const std::filesystem::path& path, std::span<const TensorView> tensors) {
    std::set<std::string> names;
    for (const TensorView& tensor : tensors) {
        if (tensor.name.empty() || tensor.name.size() > 0xFF00 || !names.insert(tensor.name).second) {
            return Error{ErrorCode::invalid_argument, "the tensors need distinct names", "\"" + tensor.name + "\"", ""};
        }
    }
    LATHE_TRY(AtomicFile file, AtomicFile::create(path));
    std::string directory;
    for (const TensorView& tensor : tensors) {
        LATHE_TRY(const std::string bytes, npy_bytes(tensor));
        Entry entry;
        entry.name = tensor.name + ".npy";
        entry.size = bytes.size();
        entry.crc = checksum(std::as_bytes(std::span(bytes)));
        entry.header = file.size();
        LATHE_CHECK(file.write(local_header(entry)));
        LATHE_CHECK(file.write(bytes));
        directory += central_entry(entry);
    }
    const std::uint64_t offset = file.size();
    LATHE_CHECK(file.write(directory));
    LATHE_CHECK(file.write(end_records(offset, directory.size(), tensors.size())));
    return file.commit();
}

} // namespace lathe
