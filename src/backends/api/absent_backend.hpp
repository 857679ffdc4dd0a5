#pragma once

#include <memory>
#include <string>

#include "backends/api/backend.hpp"

namespace lathe {

/// A backend this program knows of but was built without: it is listed with the cause and the cure, and every request
/// to it fails with them.
struct AbsentBackend {
    std::string name;
    std::string device;
    std::string cause;
    std::string cure;
};
std::unique_ptr<Backend> make_absent_backend(AbsentBackend description);

} // namespace lathe
