#include <cstddef>
#include <cstdint>
#include <span>

#include "data/npy.hpp"
#include "fuzz_file.hpp"

// .npy, and .npz with its archive.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto array = lathe::parse_npy({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
    if (array) (void)lathe::to_host_tensor(*array, "x");
    const lathe::fuzz::File file(data, size, ".npz");
    (void)lathe::read_npz(file.path());
    return 0;
}
