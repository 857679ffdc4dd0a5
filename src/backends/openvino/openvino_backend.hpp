#pragma once

#include <memory>

#include "backends/api/backend.hpp"

namespace lathe {

/// The CPU through OpenVINO.
std::unique_ptr<Backend> make_openvino_backend();

} // namespace lathe
