#include <gtest/gtest.h>

#include "backends/cuda/tuning/memory_account.hpp"

namespace lathe::cuda {
namespace {

TEST(MemoryAccount, KnowsUseAndPeakOfEachDevice) {
    MemoryAccount account(std::nullopt);
    const int a = 0, b = 0, c = 0; // addresses stand for memory
    account.add(0, &a, 100);
    account.add(0, &b, 50);
    account.add(1, &c, 7);
    account.remove(&a);
    account.remove(&a); // no longer known
    EXPECT_EQ(account.used(0), 50U);
    EXPECT_EQ(account.peak(0), 150U);
    EXPECT_EQ(account.used(1), 7U);
    EXPECT_EQ(account.peak(2), 0U);
    EXPECT_TRUE(account.check(0, std::size_t{1} << 50, "anything"));
}

TEST(MemoryAccount, RefusesWhatIsOverTheLimitAndSaysWhatItWas) {
    MemoryAccount account(std::size_t{1} << 20);
    const int a = 0;
    EXPECT_TRUE(account.check(0, std::size_t{1} << 20, "weights"));
    account.add(0, &a, std::size_t{600} << 10);
    const auto refused = account.check(0, std::size_t{500} << 10, "activations");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory);
    for (const char* part : {"500 KiB", "activations", "600 KiB", "1024 KiB"})
        EXPECT_NE(refused.error().message.find(part), std::string::npos) << refused.error().message;
    EXPECT_FALSE(refused.error().hint.empty());
    EXPECT_TRUE(account.check(1, std::size_t{500} << 10, "activations")) << "each device has its own limit";
    account.remove(&a);
    EXPECT_TRUE(account.check(0, std::size_t{500} << 10, "activations"));
}

TEST(ParseBytes, TakesUnitsAndNothingElse) {
    EXPECT_EQ(parse_bytes("1536"), 1536U);
    EXPECT_EQ(parse_bytes("512KiB"), std::size_t{512} << 10);
    EXPECT_EQ(parse_bytes("200M"), std::size_t{200} << 20);
    EXPECT_EQ(parse_bytes("1.5GB"), std::size_t{3} << 29);
    for (const char* wrong : {"", "MiB", "-1", "12x", "1 GiB", "nan", "1e40G"})
        EXPECT_FALSE(parse_bytes(wrong)) << wrong;
}

} // namespace
} // namespace lathe::cuda
