#include <sched.h>

#include <thread>

#include <gtest/gtest.h>

#include "support/affinity.hpp"

namespace lathe {
namespace {

TEST(CpuList, IsReadAsTheKernelWritesIt) {
    EXPECT_EQ(parse_cpu_list("0-3,8,10-11\n"), (std::vector<int>{0, 1, 2, 3, 8, 10, 11}));
    EXPECT_EQ(parse_cpu_list("7"), std::vector<int>{7});
    for (const char* wrong : {"", "a", "3-1", "1,", "1;2", "-4", "0-99999999"})
        EXPECT_TRUE(parse_cpu_list(wrong).empty()) << wrong;
}

TEST(CpuList, KeepsWhatTheProcessMayUse) {
    cpu_set_t allowed;
    ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    const auto cpus = usable_cpus("0-1023");
    EXPECT_EQ(cpus.size(), static_cast<std::size_t>(CPU_COUNT(&allowed)));
}

TEST(StayOnCpus, HoldsForTheThreadAlone) {
    const auto all = usable_cpus("0-1023");
    ASSERT_FALSE(all.empty());
    std::thread([&] {
        stay_on_cpus({all.back()});
        cpu_set_t mine;
        ASSERT_EQ(sched_getaffinity(0, sizeof(mine), &mine), 0);
        EXPECT_EQ(CPU_COUNT(&mine), 1);
        EXPECT_TRUE(CPU_ISSET(all.back(), &mine));
        stay_on_cpus({}); // no wish, no change
        ASSERT_EQ(sched_getaffinity(0, sizeof(mine), &mine), 0);
        EXPECT_EQ(CPU_COUNT(&mine), 1);
    }).join();
    EXPECT_EQ(usable_cpus("0-1023"), all);
}

} // namespace
} // namespace lathe
