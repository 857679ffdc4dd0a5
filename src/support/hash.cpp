#include "support/hash.hpp"

#include <array>
#include <cstdio>

#include <xxhash.h>

#include "support/files.hpp"

namespace lathe {

struct Hasher::State {
    XXH3_state_t* xxh = XXH3_createState();
    State() { XXH3_128bits_reset(xxh); }
    ~State() { XXH3_freeState(xxh); }
    State(const State&) = delete;
    State& operator=(const State&) = delete;
};

Hasher::Hasher() : state_(std::make_unique<State>()) {}
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

void Hasher::update(std::span<const std::byte> bytes) { XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size()); }

void Hasher::update(std::string_view text) {
    update(static_cast<std::int64_t>(text.size()));
    update(std::as_bytes(std::span(text)));
}

void Hasher::update(std::int64_t value) { update(std::as_bytes(std::span(&value, 1))); }

std::string Hasher::hex() const {
    const XXH128_hash_t digest = XXH3_128bits_digest(state_->xxh);
    std::array<char, 33> text{};
    std::snprintf(text.data(), text.size(), "%016llx%016llx", static_cast<unsigned long long>(digest.high64),
                  static_cast<unsigned long long>(digest.low64));
    return text.data();
}

std::string hash_hex(std::span<const std::byte> bytes) {
    Hasher hasher;
    hasher.update(bytes);
    return hasher.hex();
}

Result<std::string> hash_file(const std::filesystem::path& path) {
    LATHE_TRY(const auto mapped, MappedFile::open(path));
    return hash_hex(mapped->bytes());
}

} // namespace lathe
