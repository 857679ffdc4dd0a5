#pragma once

#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "data/npy.hpp"
#include "support/files.hpp"
#include "support_lib/places.hpp"

namespace lathe::test {

inline std::filesystem::path golden(const std::string& name) { return test::source_path("tests/data/golden/" + name); }

/// What Pillow makes of the golden pictures, by file name and by resize case (golden/make_golden.py).
inline const std::map<std::string, HostTensor>& expected_pixels() {
    static const std::map<std::string, HostTensor> expected = [] {
        auto read = read_npz(golden("expected.npz"));
        if (!read) throw std::runtime_error(read.error().describe());
        std::map<std::string, HostTensor> by_name;
        for (HostTensor& tensor : *read)
            by_name.emplace(tensor.name, std::move(tensor));
        return by_name;
    }();
    return expected;
}

inline std::vector<std::byte> file_bytes(const std::filesystem::path& path) {
    const auto file = MappedFile::open(path);
    if (!file) throw std::runtime_error(file.error().describe());
    return {(*file)->bytes().begin(), (*file)->bytes().end()};
}

} // namespace lathe::test
