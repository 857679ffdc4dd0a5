#include "backends/cuda/tuning/timing_cache.hpp"

#include <csignal>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "backends/cuda/tuning/lru.hpp"
#include "backends/cuda/tuning/timings.hpp"
#include "support/files.hpp"

namespace lathe::cuda {
namespace {

using test::timing;

class TimingCacheTest : public testing::Test {
protected:
    void SetUp() override {
        folder_ =
            std::filesystem::temp_directory_path() / ("timing_cache_" + std::to_string(::getpid()) + "_" +
                                                      testing::UnitTest::GetInstance()->current_test_info()->name());
        std::filesystem::create_directories(folder_);
        file_ = folder_ / "cache.json";
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    std::filesystem::path folder_, file_;
};

TEST_F(TimingCacheTest, WhatIsWrittenIsReadAgain) {
    TimingCache cache("a");
    ASSERT_TRUE(cache.read(file_)); // a missing file is an empty one
    cache.store("conv", {timing("cudnn:1", 3.5, 64), timing("lathe:2", 2.25, 0, "wrong by 0.5")});
    ASSERT_TRUE(cache.write(file_));
    TimingCache again("a");
    ASSERT_TRUE(again.read(file_));
    const auto found = again.find("conv");
    ASSERT_TRUE(found);
    ASSERT_EQ(found->size(), 2);
    EXPECT_EQ((*found)[0].tactic, "cudnn:1");
    EXPECT_EQ((*found)[0].mixed_us, 3.5);
    EXPECT_EQ((*found)[0].workspace, 64);
    EXPECT_EQ((*found)[1].refused, "wrong by 0.5");
    EXPECT_FALSE(again.find("gemm"));
}

TEST_F(TimingCacheTest, MoreEffortIsNotReplacedByLess) {
    TimingCache thorough("a");
    thorough.store("conv", {timing("lathe:best", 2)}, 2);
    EXPECT_TRUE(thorough.find("conv", 1));
    ASSERT_TRUE(thorough.write(file_));
    TimingCache quick("a");
    quick.store("conv", {timing("lathe:first", 3)}, 0);
    EXPECT_FALSE(quick.find("conv", 1)) << "too little was tried";
    ASSERT_TRUE(quick.write(file_));
    ASSERT_TRUE(quick.read(file_));
    EXPECT_EQ(quick.find("conv", 2)->front().tactic, "lathe:best");
}

TEST_F(TimingCacheTest, AWriterThatIsKilledLeavesAWholeFile) {
    ASSERT_TRUE(TimingCache("a").write(file_));
    for (int round = 0; round < 5; ++round) {
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            TimingCache cache("a");
            for (int i = 0;; ++i) {
                cache.store("op " + std::to_string(i), std::vector<Timing>(20, timing("lathe:1", 1)));
                static_cast<void>(cache.write(file_));
            }
        }
        // It writes on while it is killed; on a busy machine it may be long before it begins.
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
        for (TimingCache seen("a"); !seen.find("op 0") && std::chrono::steady_clock::now() < until;) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
            ASSERT_TRUE(seen.read(file_));
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(13 + 17 * round));
        ASSERT_EQ(::kill(child, SIGKILL), 0);
        ASSERT_EQ(::waitpid(child, nullptr, 0), child);
        TimingCache next("a");
        ASSERT_TRUE(next.read(file_));
        EXPECT_TRUE(next.find("op 0"));
        next.store("mine", {timing("lathe:1", 1)});
        ASSERT_TRUE(next.write(file_)) << "the killed writer's lock is gone with it";
    }
    EXPECT_FALSE(std::filesystem::exists(file_.string() + ".damaged"));
}

TEST_F(TimingCacheTest, OtherEnvironmentsAreKeptAndNotSeen) {
    TimingCache first("driver 1");
    first.store("conv", {timing("cudnn:1", 3)});
    ASSERT_TRUE(first.write(file_));
    TimingCache second("driver 2");
    ASSERT_TRUE(second.read(file_));
    EXPECT_FALSE(second.find("conv"));
    second.store("conv", {timing("lathe:1", 2)});
    ASSERT_TRUE(second.write(file_));
    TimingCache back("driver 1");
    ASSERT_TRUE(back.read(file_));
    EXPECT_EQ(back.find("conv")->at(0).tactic, "cudnn:1");
}

TEST_F(TimingCacheTest, WritersAtOnceLoseNothing) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
        threads.emplace_back([&, i] {
            TimingCache cache("a");
            cache.store("op " + std::to_string(i), {timing("lathe:1", 1)});
            EXPECT_TRUE(cache.write(file_));
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    TimingCache cache("a");
    ASSERT_TRUE(cache.read(file_));
    for (int i = 0; i < 8; ++i)
        EXPECT_TRUE(cache.find("op " + std::to_string(i))) << i;
}

TEST_F(TimingCacheTest, DamagedFilesAreSetAside) {
    for (const char* text : {"{", "[]", R"({"kind":"other"})", R"({"kind":"lathe-timing-cache","version":2})",
                             R"({"kind":"lathe-timing-cache","version":1,"environments":{"a":3}})"}) {
        ASSERT_TRUE(write_file(file_, std::string_view(text)));
        TimingCache cache("a");
        ASSERT_TRUE(cache.read(file_)) << text;
        EXPECT_TRUE(std::filesystem::exists(file_.string() + ".damaged")) << text;
        EXPECT_FALSE(std::filesystem::exists(file_)) << text;
        std::filesystem::remove(file_.string() + ".damaged");
    }
}

TEST_F(TimingCacheTest, EntriesOfAnotherFormAreTimedAnew) {
    ASSERT_TRUE(write_file(file_, std::string_view(R"({"kind":"lathe-timing-cache","version":1,"environments":{"a":{
        "x":{"time":1,"timings":[{"mixed_us":1}]}, "y":{"time":1,"timings":[{"tactic":"t","mixed_us":1}]}}}})")));
    TimingCache cache("a");
    ASSERT_TRUE(cache.read(file_));
    EXPECT_FALSE(cache.find("x"));
    EXPECT_TRUE(cache.find("y"));
}

TEST(Choose, TheFastestThatMayWin) {
    const std::vector<Timing> timings{timing("a:1", 5), timing("b:1", 3, 1000), timing("b:2", 1, 0, "wrong"),
                                      timing("c:1", 4)};
    EXPECT_EQ(choose(timings, 1000)->tactic, "b:1");
    EXPECT_EQ(choose(timings, 999)->tactic, "c:1");
    EXPECT_EQ(choose({timing("a:1", 1, 0, "wrong")}, 0), nullptr);
    EXPECT_EQ(choose({}, 0), nullptr);
}

TEST(Choose, WithinOnePercentTheEarlierProviderAndTheSmallerWorkspace) {
    EXPECT_EQ(choose({timing("a:1", 1.009), timing("b:1", 1)}, 0)->tactic, "a:1");
    EXPECT_EQ(choose({timing("a:1", 1.02), timing("b:1", 1)}, 0)->tactic, "b:1");
    const std::vector<Timing> same{timing("a:1", 1, 64), timing("a:2", 1.005, 0), timing("b:1", 1, 0)};
    EXPECT_EQ(choose(same, 100)->tactic, "a:2");
}

TEST(LruCache, DropsTheLeastRecentlyUsed) {
    LruCache<int, std::string> cache(2);
    cache.insert(1, "one");
    cache.insert(2, "two");
    ASSERT_NE(cache.find(1), nullptr);
    cache.insert(3, "three");
    EXPECT_EQ(cache.find(2), nullptr);
    EXPECT_EQ(*cache.find(1), "one");
    EXPECT_EQ(*cache.find(3), "three");
    EXPECT_EQ(cache.size(), 2);
}

} // namespace
} // namespace lathe::cuda
