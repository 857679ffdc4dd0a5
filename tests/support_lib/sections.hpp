#pragma once

#include <vector>

#include "runtime/engine_file.hpp"

namespace lathe::test {

/// Sections that were read, to be written again; they borrow the bytes.
inline std::vector<NewSection> again(const std::vector<EngineSection>& sections) {
    std::vector<NewSection> made;
    for (const EngineSection& section : sections)
        made.push_back({section.name, ByteChain(section.bytes)});
    return made;
}

} // namespace lathe::test
