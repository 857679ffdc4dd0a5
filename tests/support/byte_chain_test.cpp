#include <gtest/gtest.h>

#include "support/byte_chain.hpp"
#include "support/hash.hpp"

namespace lathe {
namespace {

TEST(ByteChain, IsItsPiecesInOrder) {
    ByteChain chain(std::string("one "));
    EXPECT_EQ(chain.size(), 4U);
    std::weak_ptr<const std::string> watched;
    {
        const auto owned = std::make_shared<const std::string>("two ");
        watched = owned;
        chain.add(std::as_bytes(std::span(*owned)), owned);
    }
    EXPECT_FALSE(watched.expired()) << "the chain keeps what it holds alive";
    chain.add(std::string());
    ByteChain tail(std::string("three"));
    chain.add(std::move(tail));
    EXPECT_EQ(chain.flat(), "one two three");
    EXPECT_EQ(chain.size(), 13U);
    EXPECT_EQ(chain.pieces().size(), 3U);
    const std::string flat = chain.flat();
    EXPECT_EQ(chain.hex(), hash_hex(std::as_bytes(std::span(flat))));
    chain = ByteChain();
    EXPECT_TRUE(watched.expired());
    EXPECT_EQ(chain.flat(), "");
}

} // namespace
} // namespace lathe
