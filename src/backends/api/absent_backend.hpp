#pragma once

#include <functional>
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
    /// Asked when the state is: what else to say of the cause, a sentence's end such as "; the library is installed".
    std::function<std::string()> found{};
};
std::unique_ptr<Backend> make_absent_backend(AbsentBackend description);

} // namespace lathe
