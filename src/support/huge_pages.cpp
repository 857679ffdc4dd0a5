#include "support/huge_pages.hpp"

#include <cstdint>

#include <sys/mman.h>

namespace lathe {

void prefer_huge_pages(void* memory, std::size_t bytes) {
    constexpr std::uintptr_t page = std::uintptr_t{2} << 20U;
    const auto start = (reinterpret_cast<std::uintptr_t>(memory) + page - 1) / page * page;
    const auto end = (reinterpret_cast<std::uintptr_t>(memory) + bytes) / page * page;
    if (start >= end) return;
    // It may be refused, and then costs nothing.
    (void)::madvise(reinterpret_cast<void*>(start), end - start, MADV_HUGEPAGE); // NOLINT(performance-no-int-to-ptr)
}

} // namespace lathe
