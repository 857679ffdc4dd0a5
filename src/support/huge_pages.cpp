#include "support/huge_pages.hpp"

#include <algorithm>
#include <cstdint>

#include <sys/mman.h>

#include "support/thread_pool.hpp"

namespace lathe {

void prepare_huge_pages(void* memory, std::size_t bytes, std::size_t threads) {
    constexpr std::uintptr_t page = std::uintptr_t{2} << 20U;
    const auto start = (reinterpret_cast<std::uintptr_t>(memory) + page - 1) / page * page;
    const auto end = (reinterpret_cast<std::uintptr_t>(memory) + bytes) / page * page;
    if (start >= end) return;
    const auto advise = [&](std::uintptr_t at, std::uintptr_t size, int advice) {
        return ::madvise(reinterpret_cast<void*>(at), size, advice) == 0; // NOLINT(performance-no-int-to-ptr)
    };
    // It may be refused, and then costs nothing.
    if (!advise(start, end - start, MADV_HUGEPAGE)) return;
    constexpr std::uintptr_t slice = 4 * page;
    ThreadPool(threads).for_each((end - start + slice - 1) / slice, [&](std::size_t i) {
        const std::uintptr_t at = start + i * slice;
        (void)advise(at, std::min(slice, end - at), MADV_POPULATE_WRITE);
    });
}

} // namespace lathe
