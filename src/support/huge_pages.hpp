#pragma once

#include <cstddef>
#include <vector>

namespace lathe {

/// Asks the system to back memory that has not been written yet with pages of 2 MiB: the first write to each of 512
/// small pages costs more than what is written (Linux: madvise(2), MADV_HUGEPAGE). Without such pages nothing changes.
void prefer_huge_pages(void* memory, std::size_t bytes);

/// Room for `count` elements in all, on such pages where it is new.
template <class T>
void reserve_huge(std::vector<T>& values, std::size_t count) {
    if (values.capacity() >= count) return;
    values.reserve(count);
    prefer_huge_pages(values.data() + values.size(), (count - values.size()) * sizeof(T));
}

} // namespace lathe
