#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/result.hpp"
#include "lathe/types.hpp"

namespace lathe {

/// An array in NumPy's .npy form (versions 1 to 3), read from bytes that stay where they are.
struct NpyView {
    DataType type = DataType::undefined;
    Shape shape;
    bool fortran_order = false; ///< first axis varies fastest
    bool swap_bytes = false;    ///< stored big-endian
    std::span<const std::byte> data;

    /// Native byte order and row-major: the data can be used as it lies.
    bool is_plain() const;
};

/// Parses the header and checks that the data is there. Booleans, integers of 8 to 64 bits and floats of 16 to 64 bits.
/// Errors, with `where`: parse_error (not .npy, damaged header, data cut short), unsupported (objects, text, complex).
Result<NpyView> parse_npy(std::span<const std::byte> bytes, std::string_view where);

/// The array in native byte order, row-major.
Result<HostTensor> read_npy(const std::filesystem::path& path);
Result<HostTensor> to_host_tensor(const NpyView& view, std::string name);

/// The .npy form (version 1.0) of a tensor. bfloat16, which NumPy lacks, is written as float32.
/// Error: unsupported for types NumPy lacks.
Result<std::string> npy_bytes(const TensorView& tensor);
Result<void> write_npy(const std::filesystem::path& path, const TensorView& tensor);

/// All arrays of a .npz file (stored or deflated entries, ZIP64), named without ".npy".
/// Errors: parse_error for damaged archives (checksums are verified), out_of_memory for entries above 16 GiB.
Result<std::vector<HostTensor>> read_npz(const std::filesystem::path& path);

/// Writes the tensors as an uncompressed .npz, atomically. Names must be distinct and not empty.
Result<void> write_npz(const std::filesystem::path& path, std::span<const TensorView> tensors);

} // namespace lathe
