#include "runtime/engine_file.hpp"

#include <cstring>

#include "lathe/engine.hpp"
#include "support/files.hpp"
#include "support/hash.hpp"

namespace lathe {

namespace {

constexpr std::string_view magic = "LATHEENG";
constexpr std::size_t digest_size = 32;
constexpr std::size_t fixed_size = 24 + digest_size;
constexpr std::size_t alignment = 4096;
constexpr std::size_t header_limit = std::size_t{64} << 20;

std::size_t aligned(std::size_t offset) { return (offset + alignment - 1) / alignment * alignment; }

template <class T>
T read_at(std::span<const std::byte> bytes, std::size_t offset) {
    T value{};
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
}

template <class T>
void append(std::string& text, T value) {
    text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

Error corrupt(std::string_view where, const std::string& what) {
    return {ErrorCode::corrupt, "the engine file is damaged: " + what, std::string(where),
            "build the engine again, or copy the file again"};
}

Result<EngineSection> read_section(const Json& entry, std::span<const std::byte> bytes, std::string_view where) {
    EngineSection section;
    std::string digest;
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    try {
        section.name = entry.at("name").get<std::string>();
        offset = count_of(entry.at("offset"));
        size = count_of(entry.at("size"));
        digest = entry.at("digest").get<std::string>();
    } catch (const Json::exception&) {
        return corrupt(where, "a section is not described");
    }
    if (offset < fixed_size || offset > bytes.size() || size > bytes.size() - offset) {
        return corrupt(where, "section " + section.name + " lies outside the file");
    }
    section.bytes = bytes.subspan(offset, size);
    if (hash_hex(section.bytes) != digest) return corrupt(where, "section " + section.name + " has a wrong digest");
    return section;
}

} // namespace

bool EngineContents::has(std::string_view name) const {
    return std::any_of(sections.begin(), sections.end(),
                       [&](const EngineSection& section) { return section.name == name; });
}

Result<std::span<const std::byte>> EngineContents::section(std::string_view name) const {
    for (const auto& candidate : sections) {
        if (candidate.name == name) return candidate.bytes;
    }
    return Error{ErrorCode::corrupt, "the engine file has no section \"" + std::string(name) + "\"", "",
                 "build the engine again"};
}

Result<EngineContents> parse_engine(std::span<const std::byte> bytes, std::string_view where) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (!text.starts_with(magic)) {
        return Error{ErrorCode::parse_error, "this is not an engine file", std::string(where),
                     "engines are made with `lathe build`"};
    }
    if (bytes.size() < fixed_size) return corrupt(where, "it ends within its first bytes");
    const auto version = read_at<std::uint32_t>(bytes, 8);
    if (version != engine_format_version) {
        return Error{ErrorCode::mismatch,
                     "engine format " + std::to_string(version) + "; this Lathe reads format " +
                         std::to_string(engine_format_version),
                     std::string(where), "build the engine again with this version of Lathe"};
    }
    const std::size_t header_size = read_at<std::uint32_t>(bytes, 12);
    const auto file_size = read_at<std::uint64_t>(bytes, 16);
    if (file_size != bytes.size()) {
        return corrupt(where, "it should have " + std::to_string(file_size) + " bytes but has " +
                                  std::to_string(bytes.size()));
    }
    if (header_size > header_limit || header_size > bytes.size() - fixed_size) {
        return corrupt(where, "its header is longer than the file");
    }
    const auto header_bytes = bytes.subspan(fixed_size, header_size);
    if (hash_hex(header_bytes) != text.substr(24, digest_size)) return corrupt(where, "its header has a wrong digest");
    LATHE_TRY(Json header, parse_json(text.substr(fixed_size, header_size), where));
    if (holds_huge_number(header)) return corrupt(where, "its description holds a number out of range");
    if (!header.is_object() || !header.contains("info") || !header.contains("sections") ||
        !header["sections"].is_array()) {
        return corrupt(where, "its header is incomplete");
    }
    EngineContents contents;
    for (const auto& entry : header["sections"]) {
        LATHE_TRY(EngineSection section, read_section(entry, bytes, where));
        contents.sections.push_back(std::move(section));
    }
    contents.info = std::move(header["info"]);
    return contents;
}

Result<std::size_t> write_engine(const std::filesystem::path& path, const Json& info,
                                 const std::vector<NewSection>& sections) {
    std::vector<std::string> digests;
    for (const auto& section : sections)
        digests.push_back(section.bytes.hex());
    // The header holds the offsets, and its length decides them: lay out behind one page, and again behind more if the
    // header came out longer.
    std::string header;
    std::size_t begin = 0;
    std::size_t end = 0;
    for (std::size_t room = alignment;; room = aligned(header.size() + fixed_size)) {
        Json list = Json::array();
        begin = aligned(room);
        std::size_t offset = begin;
        for (std::size_t i = 0; i < sections.size(); ++i) {
            list.push_back({{"name", sections[i].name},
                            {"offset", offset},
                            {"size", sections[i].bytes.size()},
                            {"digest", digests[i]}});
            end = offset + sections[i].bytes.size();
            offset = aligned(end);
        }
        header = Json{{"info", info}, {"sections", list}}.dump(-1, ' ', false, Json::error_handler_t::replace);
        if (header.size() + fixed_size <= begin) break;
    }
    if (header.size() > header_limit) {
        return Error{ErrorCode::invalid_argument, "the engine's description is over 64 MiB", path.string(),
                     "shorten the labels or metadata of the model"};
    }
    if (sections.empty()) end = fixed_size + header.size();
    std::string front(magic);
    append(front, engine_format_version);
    append(front, static_cast<std::uint32_t>(header.size()));
    append(front, static_cast<std::uint64_t>(end));
    front += hash_hex(std::as_bytes(std::span(header)));
    front += header;
    LATHE_TRY(AtomicFile file, AtomicFile::create(path));
    LATHE_CHECK(file.write(front));
    for (const auto& section : sections) {
        const std::string padding(aligned(file.size()) - file.size(), '\0');
        LATHE_CHECK(file.write(padding));
        for (const auto piece : section.bytes.pieces())
            LATHE_CHECK(file.write(piece));
    }
    LATHE_CHECK(file.commit());
    return end;
}

bool is_engine_file(const std::filesystem::path& path) {
    const auto file = MappedFile::open(path);
    if (!file) return false;
    const auto bytes = (*file)->bytes();
    return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

} // namespace lathe
