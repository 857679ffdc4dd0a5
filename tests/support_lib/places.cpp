#include "support_lib/places.hpp"

namespace lathe::test {

std::string source_path(const std::string& name) { return LATHE_SOURCE_DIR "/" + name; }
std::string build_path(const std::string& name) { return LATHE_BUILD_DIR "/" + name; }
std::string shared_data(const std::string& name) { return LATHE_SOURCE_DIR "/../shared/data/" + name; }

} // namespace lathe::test
