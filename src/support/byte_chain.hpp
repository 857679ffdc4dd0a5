#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lathe {

/// Bytes that lie in several places, in order: what is to be written as one piece without being copied into one.
class ByteChain {
public:
    ByteChain() = default;
    /// Owned.
    ByteChain(std::string text) { add(std::move(text)); } // NOLINT(google-explicit-constructor)
    /// Borrowed: they must outlive the chain.
    ByteChain(std::span<const std::byte> bytes) { add(bytes, nullptr); } // NOLINT(google-explicit-constructor)

    void add(std::string text);
    /// `owner` keeps the bytes alive; null where the caller does.
    void add(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);
    void add(ByteChain other);

    std::size_t size() const { return size_; }
    const std::vector<std::span<const std::byte>>& pieces() const { return pieces_; }
    /// A copy in one piece.
    std::string flat() const;
    /// XXH3-128 of all bytes, as `hash_hex` gives.
    std::string hex() const;

private:
    std::vector<std::span<const std::byte>> pieces_;
    std::vector<std::shared_ptr<const void>> owners_;
    std::size_t size_ = 0;
};

} // namespace lathe
