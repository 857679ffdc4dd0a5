#pragma once

#include <cstddef>
#include <vector>

namespace lathe {

/// Asks the system to back memory that has not been written yet with pages of 2 MiB, and to give them now, to several
/// threads side by side: the first write to each of 512 small pages costs more than what is written, and where the
/// host of a virtual machine must find the page first, much more; whoever then writes one page after another waits for
/// each. Linux: madvise(2), MADV_HUGEPAGE and MADV_POPULATE_WRITE; where it has no such pages nothing changes.
void prepare_huge_pages(void* memory, std::size_t bytes, std::size_t threads);

/// Room for `count` elements in all, on such pages where it is new.
template <class T>
void reserve_huge(std::vector<T>& values, std::size_t count, std::size_t threads) {
    if (values.capacity() >= count) return;
    values.reserve(count);
    prepare_huge_pages(values.data() + values.size(), (count - values.size()) * sizeof(T), threads);
}

} // namespace lathe
