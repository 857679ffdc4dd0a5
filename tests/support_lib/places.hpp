#pragma once

#include <string>

namespace lathe::test {

// Where things lie is known to places.cpp alone, so that what the compiler's cache holds of the tests serves every
// clone of the same sources.

/// `name`, relative to the checkout's root.
std::string source_path(const std::string& name);
/// `name`, relative to the build's folder.
std::string build_path(const std::string& name);
/// `name`, relative to ../shared/data beside the checkout, where that is.
std::string shared_data(const std::string& name);

/// The program `lathe` of this build.
inline std::string lathe_binary() { return build_path("bin/lathe"); }
/// A small WordPiece tokenizer with what it gives for some texts.
inline std::string tokenizer_file() { return source_path("tests/backends/golden/tokenizer.json"); }
/// Stand-ins for the Python packages of other runtimes, which need none of them.
inline std::string fake_packages() { return source_path("tests/bench/fake_packages"); }

} // namespace lathe::test
