#include "support/byte_chain.hpp"

#include <utility>

#include "support/hash.hpp"

namespace lathe {

void ByteChain::add(std::string text) {
    const auto owner = std::make_shared<const std::string>(std::move(text));
    add(std::as_bytes(std::span(*owner)), owner);
}

void ByteChain::add(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
    if (bytes.empty()) return;
    size_ += bytes.size();
    pieces_.push_back(bytes);
    if (owner) owners_.push_back(std::move(owner));
}

void ByteChain::add(ByteChain other) {
    size_ += other.size_;
    pieces_.insert(pieces_.end(), other.pieces_.begin(), other.pieces_.end());
    owners_.insert(owners_.end(), other.owners_.begin(), other.owners_.end());
}

std::string ByteChain::flat() const {
    std::string text;
    text.reserve(size_);
    for (const auto piece : pieces_)
        text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    return text;
}

std::string ByteChain::hex() const {
    Hasher hasher;
    for (const auto piece : pieces_)
        hasher.update(piece);
    return hasher.hex();
}

} // namespace lathe
